"""The commands as functions of Python.

Any option of a command is a keyword, by the name of its flag with ``_`` for ``-``. Every command
takes ``config``, a YAML file of options, which keywords override, and ``progress``: True shows it
on the terminal, None is silent, and an object with ``say(line)``, ``budget(cap, spent)`` and
``show(tallies, planned)`` is called. After an interruption the same call goes on, and pays for
nothing twice.

All raise `OptionError` for an option that is unknown or invalid, `InputError` for an input that
cannot be read, `NotFoundError` where there is nothing of what is asked for, and `Stopped` for a run
that stops early, whose paid replies are kept.
"""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import isnan, nan
from os import PathLike
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zelo_ray.commands import load, load_results
from zelo_ray.commands.running import run_command
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.judgments import read_qrels, read_runs
from zelo_ray.files.schema import split_columns
from zelo_ray.memory import as_options
from zelo_ray.options import check_url, read_config
from zelo_ray.providers.dotenv import take_keys
from zelo_ray.report.results import Results, Table
from zelo_ray.report.watches import SilentWatch, make_display

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch

warnings.filterwarnings("ignore", "IProgress not found")  # a notebook shows no widget of Ray's
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)

Place = str | PathLike[str]
_OUT_IS_NO_FOLDER = frozenset({"fit", "convert", "prompt"})
"""Commands that write a file there, or only read."""


def call(name: str, keywords: Mapping[str, Any]) -> Results:
    """Run a command by its name, with keywords; see the functions below."""
    values, progress = with_config(keywords)
    with _folder(name, values) as folder:
        options = load(name, as_options(values, folder))
        for line in take_keys(options, os.environ):
            warnings.warn(f".env: {line}", stacklevel=3)
        with _watch(progress) as watch:
            return run_command(name, options, watch)


def with_config(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the keywords that are not None with those of ``config``, and ``progress``."""
    values = {name: value for name, value in keywords.items() if value is not None}
    progress = values.pop("progress", None) if "progress" in keywords else True
    return {**read_config(os.fspath(values.pop("config", ""))), **values}, progress


@contextmanager
def _folder(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield where values in memory are written: below ``out``, or in a temporary folder."""
    out = values.get("out")
    if out is None or values.get("dry_run") or name in _OUT_IS_NO_FOLDER:
        with TemporaryDirectory() as folder:
            yield folder
    else:
        yield os.fspath(out)


def _watch(progress: "Watch | bool | None") -> "AbstractContextManager[Watch]":
    if progress is None or progress is False:
        return SilentWatch()
    if progress is not True and not hasattr(progress, "show"):
        raise OptionError(f"progress is True, None or an object with show, not {progress!r:.40}")
    return make_display() if progress is True else nullcontext(progress)


def annotate(
    inputs: Any = None,
    *,
    out: Place | None = None,
    judges: str | Sequence[str] | None = None,
    protocol: str | None = None,
    max_usd: float | None = None,
    dry_run: bool | None = None,
    **options: Any,
) -> Results:
    """Judge pools and write relevance scores.

    Args:
        inputs: paths, globs and URLs, one or a list; a data frame (pandas, Arrow, polars) or a list
            of dicts, one a document (query_id, query, doc_id, content), one a query with a list of
            documents, or one a pool; or a data set of ``ir_datasets``.
        out: directory or URL for the results and the ledger.
        judges: the panel, such as ``"openai:gpt-6-luna"`` or ``"offline"``.
        protocol: the way of judging.
        max_usd: what all runs on this ``out`` may cost together.
        dry_run: estimate requests, tokens, dollars and hours, and write nothing.
        **options: all others of ``zelo-ray annotate``.

    Returns:
        ``scores`` (logits, higher is more relevant), the judgments (``votes``, ``grades``,
        ``contests`` and ``winners``, or ``verdicts``), ``failures`` and ``rejected``.

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
    arguments = {"inputs": inputs, "out": out, "judges": judges, "protocol": protocol}
    return call("annotate", {**arguments, "max_usd": max_usd, "dry_run": dry_run, **options})


def fit(source: Any = None, *, out: Place | None = None, **options: Any) -> Results:
    """Turn comparisons of two items, such as votes on pairs of documents, into scores.

    Args:
        source: a frame, a list of dicts, or the place of a file: with winner and loser; or with two
            items (doc_id_a and doc_id_b, a and b ...) and preference in [-1, 1] (negative: A is
            better), winner, or a_wins and b_wins. Perhaps query_id, judge, ties, weight, swapped.
        out: file for the scores.
        **options: those of ``zelo-ray fit``: ``prior_sd``, ``mle``, ``scale``, ``columns``.

    Returns:
        ``scores``: query_id, doc_id, score and std_error (logits, centred on 0 in each query),
        comparisons, rank (from 1) and wins; ``record["unscored"]``: the queries without scores.
    """
    return call("fit", {"source": source, "out": out, **options})


def bakeoff(
    *,
    truth: Any = None,
    pools: Any = None,
    rerankers: Any = None,
    runs: Any = None,
    human: Any = None,
    out: Place | None = None,
    **options: Any,
) -> Results:
    """Compare rerankers on the same documents, and test which differences are significant.

    Args:
        truth: results of `annotate`, a path or URL, a frame (query_id, doc_id, relevance or score,
            perhaps std_error), or a mapping of queries to documents to numbers.
        pools: the documents to rank, as the inputs of `annotate`; those of the truth if None.
        rerankers: names such as ``"bm25"``, classes or objects with ``score(query, documents)``,
            functions ``(query, documents) -> scores``; a list, or a mapping from their names.
        runs: rankings made elsewhere: paths, or a mapping from names to paths, frames (query_id,
            doc_id, score) or mappings.
        human: people's labels that correct the truth: the place of ``zelo-ray label``, or a frame
            (query_id, doc_id, grade; perhaps person, probability).
        out: directory or URL for the results and the ledger.
        **options: those of ``zelo-ray bakeoff``: ``measures``, ``baseline``, ``slices`` ...

    Returns:
        ``leaderboard`` (rankers, the best first), ``comparisons`` (two rankers by one measure:
        difference, interval, p), ``metrics`` (ranker, query, measure, value), ``means``,
        ``slices``, ``unjudged``, ``failures`` and ``runs``, and ``gate`` if there is
        a ``baseline``; a table without rows is left out.
    """
    arguments = {"truth": truth, "pools": pools, "rerankers": rerankers, "runs": runs}
    return call("bakeoff", {**arguments, "human": human, "out": out, **options})


def compare(inputs: Any = None, *, human: Any = None, **options: Any) -> Results:
    """Compare ways of judging by people's labels: who judges most like people, at what cost.

    Args:
        inputs: pools, as for `annotate`.
        human: people's labels: a path or URL, or a frame, of votes on pairs (query_id, doc_id_a,
            doc_id_b, preference) or of grades.
        **options: those of ``zelo-ray compare``: ``out``, ``judges``, ``halves``, ``candidates`` (a
            mapping from names of ways to options of annotate) ...

    Returns:
        ``figures`` (agreement, costs and differences of ways, with intervals), ``items`` (a row a
        pair: people's and each way's verdict); ``record["chosen"]`` names the way
        that agrees most.
    """
    return call("compare", {"inputs": inputs, "human": human, **options})


def probe(inputs: Any = None, **options: Any) -> Results:
    """Find what moves a judge that should not, such as length or words of the query.

    Args:
        inputs: pools, as for `annotate`.
        **options: those of ``zelo-ray probe``: ``out``, ``judges``, ``probes``, ``documents`` ...

    Returns:
        ``probes`` (one row a judge and probe: the mean shift, its interval and its p) and
        ``shifted``; ``record["failing"]`` has the judges that moved too far.
    """
    return call("probe", {"inputs": inputs, **options})


def agree(sources: Any = None, *, human: Any = None, **options: Any) -> Results:
    """Measure how far judges agree with people and with each other, and their biases.

    Args:
        sources: results of `annotate`, a path or URL, also ``NAME=path``, a frame with a column
            judge; a list of such; or a mapping from judges to frames, mappings or paths.
        human: people's judgments, as such a path, frame or mapping.
        **options: those of ``zelo-ray agree``: ``out``, ``levels``, ``coefficients`` ...

    Returns:
        ``figures`` (coefficients and habits of judges, with 95% intervals) and the other tables of
        the command; of two runs of the same judges what ``changed``.
    """
    return call("agree", {"sources": sources, "human": human, **options})


def label(
    *, contest: Any = None, run: Any = None, out: Place | None = None, **options: Any
) -> Results:
    """Draw documents or pairs for people to judge, and collect their answers on a page.

    Args:
        contest: results of the bake-off whose documents people judge, or where they are.
        run: results of `annotate`, where there is no bake-off.
        out: directory of the labels; an existing sample is continued.
        **options: those of ``zelo-ray label``: ``labels``, ``csv``, ``read`` ...

    Returns:
        Its ``record`` has counts of what is judged.
    """
    return call("label", {"contest": contest, "run": run, "out": out, **options})


def explain(
    run: Results | Place | None = None,
    query: str | None = None,
    doc: str | None = None,
    **options: Any,
) -> Results:
    """Explain how a query was judged, or why one of its documents has its score.

    Args:
        run: results of `annotate`, or their directory or URL.
        query: its id, the beginning of it, or a part of its text; without it, all are listed.
        doc: the document's id, or the beginning of it.
        **options: those of ``zelo-ray explain``.

    Returns:
        A text; its ``record`` has ``scores`` and ``judgments``.
    """
    return call("explain", {"run": run, "query": query, "doc": doc, **options})


def prompt(
    inputs: Any = None,
    *,
    query: str | None = None,
    doc: str | Sequence[str] | None = None,
    out: Any = None,
    **options: Any,
) -> Results:
    """Show the exact requests that judges get about one query, without a call or a key.

    Args:
        inputs: as for `annotate`; without any, those of the run of ``out``.
        query: its id, the beginning of it, or a part of its text; without it, the first one.
        doc: ids of documents: the requests that show them all; without it, one of each round.
        out: a run, or its directory or URL: its replies tell what later rounds ask.
        **options: those of ``zelo-ray annotate``.

    Returns:
        A text; ``record["requests"]`` has the requests, with ``system``, ``user``, ``schema``,
        ``options`` and ``body``.
    """
    return call("prompt", {"inputs": inputs, "query": query, "doc": doc, "out": out, **options})


def convert(
    what: str | None = None, source: Any = None, *, out: Place | None = None, **options: Any
) -> Results:
    """Write pools, judgments and runs in other formats.

    Args:
        what: the format: pool, unjudged, qrels, train, run or beir.
        source: results of `annotate`, a path or URL, or judgments in memory.
        out: where to write.
        **options: those of ``zelo-ray convert``: ``corpus``, ``runs``, ``form`` ...

    Returns:
        Its ``record`` has counts of what was written.
    """
    return call("convert", {"what": what, "source": source, "out": out, **options})


def doctor(
    *, judges: str | Sequence[str] | None = None, ask: bool | None = None, **options: Any
) -> Results:
    """Check versions, keys, judges and servers, without any call unless ``ask``.

    Args:
        judges: to check, as `annotate` takes them.
        ask: make one call to each judge.
        **options: those of ``zelo-ray doctor``: ``prices``, ``api_key_env`` ...

    Returns:
        ``findings``, one row a check: ``check``, ``state`` (ok, warn, wrong, or - where nothing is
        needed), ``finding`` and ``advice``.
    """
    return call("doctor", {"judges": judges, "ask": ask, **options})


def load_run(out: Place) -> Results:
    """Load the results in a directory or URL, as the function that wrote them returned them.

    Args:
        out: the directory or URL.
    """
    if not isinstance(out, str | PathLike):
        raise OptionError("load_run takes the directory of a run; measure() takes a ranking")
    try:
        check_url(os.fspath(out))
    except ValueError as error:
        raise OptionError(str(error)) from None
    results: Results = load_results(os.fspath(out))
    return results


class Metrics(Table):
    """Table of measures, one row per query of the truth: ``query_id`` and a column per measure."""

    def means(self) -> dict[str, float]:
        """Return the mean of each measure over the queries that define it; NaN where none does."""
        averages = {}
        for name in self.columns[1:]:
            numbers = [n for n in self.to_arrow()[name].to_pylist() if n is not None]
            numbers = [n for n in numbers if not isnan(n)]
            averages[name] = sum(numbers) / len(numbers) if numbers else nan
        return averages


def measure(
    run: Any,
    qrels: Any,
    measures: Sequence[str] | str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
) -> Metrics:
    """Measure how well a run orders the documents of some qrels, query by query.

    Equal to ir_measures and trec_eval where they have the same measure; the conventions are those
    of `zelo_ray.evaluation.measures`: a query that the run lacks gets 0.

    Args:
        run: a frame of query_id, doc_id, score; a mapping of queries to documents to scores; or the
            path of a run: TREC, Parquet, or annotated JSONL.
        qrels: judgments, as the truth of `bakeoff`.
        measures: as ir_measures writes them; if None, those that suit the qrels.
        columns: names of columns by role, where they are called otherwise.

    Returns:
        A row a query of the qrels and a column a measure; ``.means()`` has the means.

    Example:
        >>> qrels = {"q1": {"d1": 3, "d2": 0, "d3": 1}}
        >>> run = {"q1": {"d1": 0.9, "d2": 0.8, "d3": 0.1}}
        >>> measure(run, qrels, ["nDCG@10", "P@2"]).means()
        {'nDCG@10': 0.963940433317, 'P@2': 0.5}
    """
    from zelo_ray.evaluation import measures as found  # noqa: PLC0415 - scipy takes a second

    named = split_columns(f"{role}={name}" for role, name in (columns or {}).items())
    with TemporaryDirectory() as folder:
        places = as_options({"runs": {"run": run}, "truth": qrels}, folder)
        truth = found.Truth(read_qrels(places["truth"], named))
        runs = read_runs(places["runs"], named)
        named.refuse_unused()
        if len(runs) != 1:
            raise InputError(f"run: holds {len(runs):,} runs: {', '.join(runs)}")
        ranking = found.rank_run(truth, next(iter(runs.values())))
    names = (measures,) if isinstance(measures, str) else measures
    wanted = found.default_measures(truth) if names is None else found.parse_measures(names)
    values = dict(zip(map(str, wanted), found.evaluate(wanted, ranking), strict=True))
    return Metrics(pa.table({"query_id": pa.array(truth.query_ids, pa.string()), **values}))
