"""Provide `probe` and its results."""

from typing import TYPE_CHECKING, Any

from zelo_ray.api.progress import run_watched
from zelo_ray.api.results import Results
from zelo_ray.api.settings import Place, options_of
from zelo_ray.api.store_inputs import with_pools
from zelo_ray.commands.probe.run import run
from zelo_ray.errors import OptionError
from zelo_ray.options import ProbeOptions

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch

_ABSENT = "-"


class JudgeProbe(Results):
    """Results of `probe`: the tables ``probes`` and ``shifted``."""

    @property
    def failing(self) -> list[tuple[str, str]]:
        """Return the judges and probes whose harmful shift is surely above ``fail_above``."""
        return [(judge, name) for judge, name in self.report.record["failing"]]


def probe(
    inputs: Any = None,
    *,
    out: Place | None = None,
    progress: "Watch | bool | None" = True,
    config: Place | None = None,
    **options: Any,
) -> JudgeProbe:
    """Find what moves a judge that should not, such as length or words of the query.

    Args:
        inputs: pools, as for `annotate`.
        out: directory or URL for the results and the ledger.
        progress: True shows it on the terminal; None is silent; or an object with the methods
            ``say``, ``budget`` and ``show``.
        config: a YAML file of options, which keywords override.
        **options: those of ``zelo-ray probe``, such as ``judges``, ``probes`` and ``documents``.

    Returns:
        One row a judge and probe in ``probes``: the mean shift, its interval and its p.

    Raises:
        OptionError, PanelError: an option is invalid.
        InputError: the input cannot be read, or no document of it can be changed.
        Stopped: the run stopped early; paid replies are kept, and the same call resumes.
    """
    marked = None if inputs is None else _ABSENT
    settings = options_of(ProbeOptions, {"inputs": marked, "out": out, **options}, config)
    if settings.dry_run:
        raise OptionError("dry_run: is an option of the command line alone")
    notes = list[str]()
    settings = with_pools(settings, "inputs", inputs, settings.out, notes.append)
    return JudgeProbe(run_watched(run, settings, progress, notes))
