"""Provide `compare_protocols`, `tune`, `agree`, `compare_labels` and `drift`; their results."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import fspath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from zelo_ray.api.bakeoff import store_runs, store_truth
from zelo_ray.api.frames import frame_to_table, is_frame, is_nested, nested_table
from zelo_ray.api.progress import run_watched
from zelo_ray.api.results import Results
from zelo_ray.api.settings import Place, compare_options, is_place, options_of, tune_options
from zelo_ray.api.store_inputs import store_table, with_pools
from zelo_ray.commands.agree.run import run as run_agree
from zelo_ray.commands.compare_labels.run import run as run_compare_labels
from zelo_ray.commands.compare_protocols.run import run as run_compare_protocols
from zelo_ray.commands.tune.run import run as run_tune
from zelo_ray.errors import InputError, OptionError
from zelo_ray.options import (
    AgreeOptions,
    CompareLabelsOptions,
    DriftOptions,
    JudgingOptions,
)
from zelo_ray.reports.progress.events import SilentWatch

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch

_ABSENT = "-"
Measuring = TypeVar("Measuring", bound=JudgingOptions)


class ProtocolComparison(Results):
    """Results of `compare_protocols`: the tables ``trials``, ``costs`` and ``differences``.

    Attributes:
        best: the protocol that agrees with people most; "" if nothing could be compared.
    """

    @property
    def best(self) -> str:
        """Return the protocol that agrees with people most; "" if nothing could be compared."""
        return next((row["protocol"] for row in self.trials if row["judged"]), "")


class Tuning(Results):
    """Results of `tune`: ``candidates``, ``differences``, ``changed`` and ``worth_reading``."""

    @property
    def chosen(self) -> str:
        """Return the name of the candidate that was chosen on the first half."""
        return str(self.report.record["chosen"])


class RaterAgreement(Results):
    """Results of `agree`: the table ``agreement``, and others that depend on the judgments."""


class LabelComparison(Results):
    """Results of `compare_labels`: ``leaderboards``, ``siblings`` and ``contradictions``."""


class JudgeDrift(Results):
    """Results of `drift`: the tables ``drift`` and ``changes``."""

    @property
    def moved(self) -> bool:
        """Return whether any judge changed; the panel's own row does not count."""
        return bool(self.report.record["moved"])


def compare_protocols(
    inputs: Any = None,
    *,
    human: Any = None,
    out: Place | None = None,
    progress: "Watch | bool | None" = True,
    config: Place | None = None,
    **options: Any,
) -> ProtocolComparison:
    """Compare protocols on items that people labelled, by agreement and cost.

    Args:
        inputs: pools, as for `annotate`.
        human: people's labels: a path or URL of votes on pairs, or of qrels; or a frame of
            query_id, doc_id_a, doc_id_b, preference, or of query_id, doc_id, grade.
        out: directory or URL for the results and the ledger.
        progress: True shows it on the terminal; None is silent; or an object with the methods
            ``say``, ``budget`` and ``show``.
        config: a YAML file of options, which keywords override.
        **options: those of the command, such as ``protocols``, ``judges`` and ``max_usd``.

    Returns:
        One row a protocol in ``trials``, with agreement, calls and dollars; and which differences
        are significant.

    Raises:
        OptionError, PanelError, UnknownProtocol: an option is invalid.
        InputError: the input or the people's labels cannot be read.
        Stopped: the run stopped early; paid replies are kept, and the same call resumes.
    """
    keywords = {**_placeholders(inputs, human), "out": out, **options}
    settings, notes = _with_labels(compare_options(keywords, config), inputs, human)
    return ProtocolComparison(run_watched(run_compare_protocols, settings, progress, notes))


def tune(
    inputs: Any = None,
    *,
    human: Any = None,
    out: Place | None = None,
    progress: "Watch | bool | None" = True,
    config: Place | None = None,
    **options: Any,
) -> Tuning:
    """Choose how to ask judges on half of the labelled queries, and test it on the other half.

    Args:
        inputs: pools, as for `annotate`.
        human: people's labels, as for `compare_protocols`.
        out: directory or URL for the results and the ledger.
        progress: as for `compare_protocols`.
        config: a YAML file of options, which keywords override.
        **options: those of the command, such as ``protocol``, ``judges``, ``try_instructions``,
            ``candidates`` (a mapping from names to options of annotate) and ``max_usd``.

    Returns:
        A row per candidate and half in ``candidates``; differences from what is as it is, of which
        one is tested; and what is worth reading. ``chosen.yaml`` has the chosen options.

    Raises:
        OptionError, PanelError, UnknownProtocol: an option is invalid.
        InputError: the input or the people's labels cannot be read, or are too few.
        Stopped: the run stopped early; paid replies are kept, and the same call resumes.
    """
    keywords = {**_placeholders(inputs, human), "out": out, **options}
    settings, notes = _with_labels(tune_options(keywords, config), inputs, human)
    return Tuning(run_watched(run_tune, settings, progress, notes))


def _placeholders(inputs: Any, human: Any) -> dict[str, str | None]:
    """Return what stands for pools and labels until they are stored."""
    marks = {"inputs": inputs, "human": human}
    return {name: None if value is None else _ABSENT for name, value in marks.items()}


def _with_labels(settings: Measuring, inputs: Any, human: Any) -> tuple[Measuring, list[str]]:
    """Store pools and people's labels; return the options that name them, and notes.

    Raises:
        OptionError: it is to be an estimate.
    """
    if settings.dry_run:
        raise OptionError("dry_run: is an option of the command line alone")
    updates: dict[str, Any] = {}
    if human is not None:
        updates["human"] = _store_judgments(human, "human", settings.out)
    notes = list[str]()
    settings = with_pools(settings, "inputs", inputs, settings.out, notes.append)
    return settings.model_copy(update=updates), notes


def agree(
    sources: Any, *, human: Any = None, out: Place | None = None, **options: Any
) -> RaterAgreement:
    """Measure how far judges agree with people and with each other, and their biases.

    Args:
        sources: judgments: a `Run`, a path or URL as the command takes it, also ``NAME=path``; a
            frame with a column judge; a list of such; or a mapping from judges to frames or paths.
        human: people's judgments, as such a path or frame.
        out: directory or URL for the tables; nothing is written without it.
        **options: those of ``zelo-ray agree``, such as ``levels``, ``coefficients`` and ``pools``.

    Returns:
        Coefficients with 95% intervals in ``agreement``, and other tables.

    Raises:
        OptionError: an option is invalid.
        InputError: the input is invalid, or there is nothing to compare.

    Example:
        >>> rows = [
        ...     {"query_id": f"q{n % 6}", "doc_id": f"d{n}", "judge": judge, "grade": n * step % 4}
        ...     for n in range(24)
        ...     for judge, step in (("anna", 1), ("ben", 5))
        ... ]
        >>> result = agree(rows, coefficients=["agreement"], resamples=0)
        >>> float(result.agreement.to_pandas().value[0])
        1.0
    """
    with _folder_for_frames(out) as folder:
        arguments = {"sources": _store_sources(sources, folder), "out": out, **options}
        if human is not None:
            arguments["human"] = _store_judgments(human, "human", folder)
        if options.get("runs") is not None:
            arguments["runs"] = list(store_runs(options["runs"], folder))
        settings = options_of(AgreeOptions, arguments)
        return RaterAgreement(run_watched(run_agree, settings, progress=None))


def compare_labels(
    *, old: Any, new: Any, runs: Any = None, out: Place | None = None, **options: Any
) -> LabelComparison:
    """Compare old and new labels of a benchmark: leaderboards, gaps and contradictions.

    Args:
        old: the old labels: a `Run`, a path or URL of qrels of any kind, a frame (query_id,
            doc_id, relevance), or a mapping of queries to documents to numbers.
        new: the new labels, of the same kinds.
        runs: rankings to put on both leaderboards: paths, or a mapping from names to paths or
            frames (query_id, doc_id, score).
        out: directory or URL for the tables; nothing is written without it.
        **options: those of ``zelo-ray compare-labels``, such as ``measure`` and ``bakeoff``.

    Returns:
        Both leaderboards, the gaps of neighbours, and the labels that contradict each other.

    Raises:
        OptionError, MeasureError: an option is invalid.
        InputError: the input is invalid, or the labels share no query.

    Example:
        >>> old = {"q1": {"d1": 2, "d2": 0}}
        >>> new = {"q1": {"d1": 0, "d2": 3}}
        >>> result = compare_labels(old=old, new=new)
        >>> result.contradictions.to_pandas().kind.tolist()
        ['negative', 'positive']
    """
    with _folder_for_frames(out) as folder:
        arguments = {
            "old": store_truth(old, folder),
            "new": store_truth(new, folder),
            "out": out,
            **options,
        }
        if runs is not None:
            arguments["runs"] = list(store_runs(runs, folder))
        settings = options_of(CompareLabelsOptions, arguments)
        return LabelComparison(run_compare_labels(settings, SilentWatch()))


def drift(old: Any, new: Any, *, out: Place | None = None, **options: Any) -> JudgeDrift:
    """Find the judges of a panel that changed between two runs of `annotate` on the same pools.

    Args:
        old: a `Run`, or the path or URL of the results of the earlier run.
        new: the same of the later run.
        out: directory or URL for the tables; nothing is written without it.
        **options: those of ``zelo-ray drift``: ``resamples`` and ``seed``.

    Raises:
        OptionError: an option is invalid.
        InputError: the input is invalid, or the two runs share too little.
    """
    places = [run.out if isinstance(run, Results) else fspath(run) for run in (old, new)]
    settings = options_of(DriftOptions, {"old": places[0], "new": places[1], "out": out, **options})
    from zelo_ray.commands.drift.run import run  # noqa: PLC0415 - it alone computes in pandas

    return JudgeDrift(run(settings, SilentWatch()))


@contextmanager
def _folder_for_frames(out: Place | None) -> Iterator[str]:
    """Yield the folder to which frames are written: ``out``, or a temporary one if it is None."""
    with TemporaryDirectory() as folder:
        yield str(out) if out else folder


def _store_sources(sources: Any, folder: str) -> list[str]:
    if isinstance(sources, Mapping) and not is_frame(sources):
        return [_store_named(str(name), source, folder) for name, source in sources.items()]
    if isinstance(sources, list | tuple) and not all(isinstance(s, Mapping) for s in sources):
        return [place for source in sources for place in _store_sources(source, folder)]
    return [_store_judgments(sources, "sources", folder)]


def _store_named(name: str, source: Any, folder: str) -> str:
    return f"{name}={_store_judgments(source, name, folder)}"


def _store_judgments(judgments: Any, what: str, folder: str) -> str:
    """Return the path of judgments: the given one, or that of the file that is written."""
    if isinstance(judgments, Results):
        return judgments.out
    if is_place(judgments):
        return fspath(judgments)
    if is_nested(judgments):
        return store_table(folder, what, nested_table(judgments, "relevance"))
    if not (is_frame(judgments) or isinstance(judgments, list | tuple)):
        raise InputError(f"{what}: cannot be a {type(judgments).__name__}; write a path or a frame")
    return store_table(folder, what, frame_to_table(judgments, what, "query_id"))
