"""Provide `annotate` and `estimate`, and the `Run` that they return or read."""

import os
from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from zelo_ray.api.progress import run_watched
from zelo_ray.api.prompts import Prompts
from zelo_ray.api.results import Results
from zelo_ray.api.settings import Place, annotate_options
from zelo_ray.api.store_inputs import with_pools
from zelo_ray.api.tables import PlainText
from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.commands.annotate.run import run
from zelo_ray.commands.explain import explain
from zelo_ray.commands.prompt import requests_of_run
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import OptionError
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import recorded_options
from zelo_ray.reports.parts import Report

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch

_ABSENT = "-"


class Run(Results):
    """Results of `annotate`.

    Its tables are `Table` objects: ``scores``, ``failures``, ``rejected``, and the judgments of its
    protocol: ``votes``, ``grades``, ``contests`` and ``winners``, or ``verdicts``.

    Attributes:
        summary: counts, dollars, seconds, and what is missing.
        options: of the run.
    """

    def __init__(self, report: Report, options: AnnotateOptions) -> None:
        super().__init__(report)
        self.options = options
        self.summary = Summary.from_record(report.out, report.record["summary"])

    def explain(self, query: str, doc: str | None = None) -> PlainText:
        """Explain why a document has its score or, without a document, how its query was judged.

        Args:
            query: its id.
            doc: the document's id.

        Raises:
            NothingToExplain: no such results, query or document.
        """
        return PlainText(explain(self.out, str(query), None if doc is None else str(doc)))

    def prompts(self, query: str, doc: str | None = None) -> Prompts:
        """Show the requests about a query, or about one of its documents, as judges got them.

        Args:
            query: its id.
            doc: the document's id.

        Raises:
            NothingToExplain: no such query or document, or no record of what was asked.
        """
        doc_ids = [] if doc is None else [str(doc)]
        return Prompts(requests_of_run(self.out, os.environ, str(query), doc_ids))


def annotate(
    inputs: Any = None,
    *,
    out: Place | None = None,
    progress: "Watch | bool | None" = True,
    config: Place | None = None,
    **options: Any,
) -> Run:
    """Judge pools and write relevance scores.

    After an interruption the same call resumes, and pays for nothing twice. Any option of
    ``zelo-ray annotate`` is a keyword: ``judges``, ``protocol``, ``cycles``, ``max_usd`` ...;
    unknown ones are refused. Variables ``ZELO_RAY_...`` and a file ``.env`` count as for the
    command.

    Args:
        inputs: paths, globs and URLs of what the command takes, one or a list; or a data frame
            (pandas, Arrow, polars) or a list of dicts, one a document (query_id, query, doc_id,
            content, or usual synonyms), one a query with a list of documents, or one a pool; or a
            data set of ``ir_datasets``. Anything but JSON lines of pools is converted to a file
            below ``out``.
        out: directory or URL for the results and the ledger.
        progress: True shows it on the terminal; None is silent; or an object with the methods
            ``say``, ``budget`` and ``show``.
        config: a YAML file of options, which keywords override.
        **options: those of the command.

    Returns:
        Scores (logits, higher is more relevant), judgments and failures, as tables.

    Raises:
        OptionError, PanelError: an option is invalid.
        InputError: the input cannot be read.
        Stopped: the run stopped early; paid replies are kept, and the same call resumes.

    Example:
        >>> from zelo_ray import annotate
        >>> pools = [
        ...     {
        ...         "query": {"id": "q1", "query": "how to remove a tick"},
        ...         "documents": [
        ...             {"id": "d1", "content": "Remove a tick with tweezers."},
        ...             {"id": "d2", "content": "The clock ticks."},
        ...         ],
        ...     }
        ... ]
        >>> run = annotate(pools, out="judged", judges="offline", progress=None)  # doctest: +SKIP
        >>> run.scores.to_pandas().doc_id.tolist()  # doctest: +SKIP
        ['d1', 'd2']
    """
    settings = _settings(inputs, out, config, options)
    if settings.dry_run:
        raise OptionError("dry_run: from Python, estimate(...) with the same arguments")
    notes = list[str]()
    settings = with_pools(settings, "inputs", inputs, settings.out, notes.append)
    return Run(run_watched(run, settings, progress, notes), settings)


def estimate(
    inputs: Any = None,
    *,
    out: Place | None = None,
    config: Place | None = None,
    **options: Any,
) -> PlainText:
    """Estimate the requests, tokens, dollars and hours of `annotate`, without making a call.

    Args:
        inputs: as for `annotate`.
        out: directory or URL of the run; requests in its ledger cost nothing.
        config: a YAML file of options, which keywords override.
        **options: those of ``zelo-ray annotate``.

    Returns:
        The estimate as a text; nothing is written.

    Raises:
        OptionError, PanelError, InputError: as `annotate` would.
    """
    settings = _settings(inputs, out, config, options)
    from zelo_ray.commands.dry_run import preview  # noqa: PLC0415 - scipy takes a second to import

    notes = list[str]()
    with TemporaryDirectory() as folder:
        settings = with_pools(settings, "inputs", inputs, folder, notes.append)
        return PlainText("\n".join([*preview(settings, os.environ), *notes]))


def read_run(out: str) -> Run:
    """Read a finished run of `annotate`, given its directory or URL."""
    report = ANNOTATE_REPORT.read(out)
    return Run(report, recorded_options(report.record).model_copy(update={"out": out}))


def _settings(
    inputs: Any, out: Place | None, config: Place | None, options: Mapping[str, Any]
) -> AnnotateOptions:
    marked = None if inputs is None else _ABSENT
    return annotate_options({"inputs": marked, "out": out, **options}, config)
