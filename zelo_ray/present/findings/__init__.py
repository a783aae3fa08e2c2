"""What stands out in a run: what, what follows from it, and what mends it; for page and terminal.

Modules here take plain figures and know neither. An effect with an interval stands out only where
its whole interval lies past a limit that matters; each limit has its reason beside it.
"""

from zelo_ray.present.findings.finding import Finding, Findings, ranked, said, spoken

__all__ = ["Finding", "Findings", "ranked", "said", "spoken"]
