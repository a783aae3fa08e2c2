"""Warn of what makes results less than they look: a code, numbers, and a sentence for each code.

Modules here take plain figures and know neither page nor terminal. An effect with an interval is
worth a warning only where its whole interval lies past a limit that matters; each limit has its
reason beside it. The sentences stand in `zelo_ray.present.warnings.sentences`.
"""

from zelo_ray.present.warnings.warning import (
    RankedWarnings,
    ResultWarning,
    rank_warnings,
    terminal_lines,
)

__all__ = ["RankedWarnings", "ResultWarning", "rank_warnings", "terminal_lines"]
