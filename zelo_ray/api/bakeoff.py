"""Provide `bakeoff`, and the `Bakeoff` that it returns."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from os import fspath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.api.frames import frame_to_table, is_frame, is_nested, nested_table
from zelo_ray.api.progress import run_watched
from zelo_ray.api.results import Results
from zelo_ray.api.settings import Place, is_place, options_of
from zelo_ray.api.store_inputs import given_paths, store_table, with_pools
from zelo_ray.api.tables import Table
from zelo_ray.commands.bakeoff.report.gate import read_gate
from zelo_ray.commands.bakeoff.run import run as rank_and_measure
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.judgments import read_runs
from zelo_ray.files.run_record import RUN, read_record
from zelo_ray.formats.input.stored_inputs import store_input
from zelo_ray.formats.judgments.grades import read_grade_rows
from zelo_ray.formats.probe import probe_table
from zelo_ray.formats.runs import runs_in_table
from zelo_ray.options import BakeoffOptions
from zelo_ray.rerankers.custom import PACKED

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch
    from zelo_ray.evaluation.regression_gate import GateDecision

_NO_LABEL = str.maketrans(dict.fromkeys(":/=@", "_"))
_ABSENT = "-"
_QREL = ["query_id", "doc_id", "relevance", "std_error"]
RANKED = pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("score", pa.float64())])


class Bakeoff(Results):
    """Results of a bake-off.

    Its tables are `Table` objects: ``comparisons`` (two rankers by one measure: difference,
    interval, p; with labels of people once for each ``estimate``), ``metrics`` (ranker, query,
    measure, value), ``means``, ``kin`` (rankers without each model family of judges), ``slices``,
    ``unjudged`` (documents), ``failures`` and ``runs``. ``gate`` has the
    decision on each other ranker, if there is a ``baseline``.
    """

    @property
    def gate(self) -> "tuple[GateDecision, ...]":
        """Return the decision on each other ranker, if there is a ``baseline``."""
        return read_gate(self.report.record["summary"])

    @property
    def leaderboard(self) -> Table:
        """Return one row per ranker, best first by the leading measure.

        Columns: run; the leading measure's mean and the ends ``low`` and ``high`` of its interval;
        the means of the others; the queries that the ranker ranked, and the dollars that it cost.
        """
        summary = read_record(f"{self.out.rstrip('/')}/{RUN}")["summary"]
        leading, *others = summary["measures"]
        means = {
            (row["run"], row["measure"]): row
            for row in self.means
            if row.get("estimate", "panel") == "panel"
        }
        rankers = {ranker["name"]: ranker for ranker in summary["rankers"]}
        rows = []
        for run in summary["standing"]:
            first = means[run, leading]
            row = {"run": run, leading: first["mean"], "low": first["low"], "high": first["high"]}
            row |= {name: means[run, name]["mean"] for name in others}
            row |= {"queries": rankers[run]["answered"], "dollars": rankers[run]["dollars"]}
            rows.append(row)
        return Table(pa.Table.from_pylist(rows))


def bakeoff(
    *,
    truth: Any = None,
    pools: Any = None,
    rerankers: Any = None,
    runs: Any = None,
    human: Any = None,
    out: Place | None = None,
    progress: "Watch | bool | None" = True,
    config: Place | None = None,
    **options: Any,
) -> Bakeoff:
    """Compare rerankers on the same documents, and test which differences are significant.

    Any option of ``zelo-ray bakeoff`` is a keyword: ``measures``, ``resamples``, ``slices``,
    ``write_annotated`` ...; unknown ones are refused.

    Args:
        truth: relevance judgments: a `Run`, a path or URL, a frame (query_id, doc_id, relevance or
            score, and perhaps std_error), or a mapping of queries to documents to numbers.
        pools: the documents to rank, as the inputs of `annotate`; those of the truth if None.
        rerankers: to compare: names such as ``"bm25"``, classes or objects with
            ``score(query, documents)``, functions ``(query, documents) -> scores``; a list of them,
            or a mapping from their names.
        runs: rankings made elsewhere: paths, or a mapping from names to paths or frames (query_id,
            doc_id, score).
        human: people's labels, by which the truth is corrected: a path or URL, such as that of
            ``zelo-ray label``, or a frame (query_id, doc_id, grade; perhaps person, probability).
        out: directory or URL for the results and the ledger.
        progress: True shows it on the terminal; None is silent; or an object with the methods
            ``say``, ``budget`` and ``show``.
        config: a YAML file of options, which keywords override.
        **options: those of the command.

    Returns:
        Leaderboard, comparisons and metrics, as tables.

    Raises:
        OptionError, PanelError: an option is invalid, or a reranker cannot be created.
        InputError: the truth, the pools or a run cannot be read.
        Stopped: the run stopped early; paid replies are kept, and the same call resumes.
    """
    marks = {"truth": truth, "pools": pools, "rerankers": rerankers, "runs": runs, "human": human}
    placeholders: dict[str, Any] = {n: None if v is None else _ABSENT for n, v in marks.items()}
    settings = options_of(BakeoffOptions, {**placeholders, "out": out, **options}, config)
    keep: Mapping[str, Callable[[Any, str], Any]] = {
        "truth": store_truth,
        "rerankers": store_rerankers,
        "runs": store_runs,
        "human": store_labels,
    }
    updates = {n: keep[n](v, settings.out) for n, v in marks.items() if v is not None and n in keep}
    notes = list[str]()
    settings = with_pools(settings, "pools", pools, settings.out, notes.append)
    return Bakeoff(
        run_watched(rank_and_measure, settings.model_copy(update=updates), progress, notes)
    )


def store_truth(truth: Any, out: str) -> str:
    """Return the path of a truth: the given one, or that of the file to which it is written.

    Raises:
        InputError: it is not a truth.
    """
    if isinstance(truth, Results):
        return truth.out
    if is_place(truth):
        return fspath(truth)
    return store_table(out, "truth", qrels_table(truth, "truth"))


def store_labels(labels: Any, out: str) -> str:
    """Return the path of people's labels: the given one, or that of the file that is written.

    Raises:
        InputError: they are not labels.
    """
    if is_place(labels):
        return fspath(labels)
    return store_table(out, "labels", frame_to_table(labels, "human", "query_id", "doc_id"))


def store_runs(runs: Any, out: str) -> tuple[str, ...]:
    """Return the paths of runs: the given ones, or those of the files that are written.

    Raises:
        InputError: one is not a run.
    """
    if not isinstance(runs, Mapping):
        places = given_paths(runs)
        if places is None:
            raise InputError("runs: write paths, or a mapping from names to paths or frames")
        return places
    return tuple(_store_run(str(name), run, out) for name, run in runs.items())


def store_rerankers(rerankers: Any, out: str) -> tuple[str, ...]:
    """Return rerankers as the command line takes them; write those in memory to files.

    Args:
        rerankers: one or several names, classes, objects or functions; or a mapping from names.
        out: directory or URL of the results.

    Raises:
        OptionError: one is none of these, or cannot be sent to another process.
    """
    if isinstance(rerankers, Mapping):
        return tuple(
            _store_reranker(str(name), reranker, out) for name, reranker in rerankers.items()
        )
    is_single = isinstance(rerankers, str) or callable(rerankers) or hasattr(rerankers, "score")
    several: Iterable[Any] = (rerankers,) if is_single else rerankers
    return tuple(r if isinstance(r, str) else _store_reranker(_name_of(r), r, out) for r in several)


def _store_reranker(name: str, reranker: Any, out: str) -> str:
    label = name.translate(_NO_LABEL)
    if isinstance(reranker, str):
        return f"{label}={reranker}"
    if not (callable(reranker) or hasattr(reranker, "score")):
        kind = type(reranker).__name__
        raise OptionError(
            f"rerankers: {name} is a {kind}; write a name such as bm25, a function of query and "
            "documents, or an object with score(query, documents)"
        )
    from zelo_ray.ray.packing import pack_object  # noqa: PLC0415 - Ray takes seconds to import

    try:
        data = pack_object(reranker)
    except Exception as error:  # noqa: BLE001 - whatever the caller's own objects raise
        raise OptionError(
            f"rerankers: {name} cannot be sent to another process ({error}); create what cannot "
            "be pickled on first use, or name it module:Class"
        ) from None
    return f"{label}=custom:{store_input(out, label, PACKED, data)}"


def _name_of(reranker: Any) -> str:
    plain = inspect.isclass(reranker) or inspect.isroutine(reranker)
    return str(getattr(reranker if plain else type(reranker), "__name__", "reranker"))


def run_table(run: Any, what: str) -> pa.Table:
    """Return a run (a frame, a nested mapping or a file) as a table of `RANKED`.

    Raises:
        InputError: it is not a run.
    """
    if is_place(run):
        runs = read_runs([fspath(run)])
        if len(runs) != 1:
            raise InputError(f"{what}: {run} holds {len(runs):,} runs: {', '.join(runs)}")
        return next(iter(runs.values()))
    if is_nested(run):
        return nested_table(run, "score")
    source = probe_table(what, frame_to_table(run, what))
    runs = dict(runs_in_table(source, {}, ranks=False))
    if len(runs) != 1:
        raise InputError(f"{what}: holds {len(runs):,} runs: {', '.join(runs)}")
    return next(iter(runs.values()))


def qrels_table(truth: Any, what: str) -> pa.Table:
    """Return qrels as a table: query_id, doc_id, relevance, and std_error if known.

    The error is that about people, ``truth_error``, where the frame has it.

    Raises:
        InputError: they are not qrels.
    """
    if is_nested(truth):
        return nested_table(truth, "relevance")
    if not (is_frame(truth) or isinstance(truth, list | Mapping)):
        kind = type(truth).__name__
        raise InputError(f"{what}: cannot be a {kind}; write a path, a Run, or a data frame")
    table = frame_to_table(truth, what)
    rows = read_grade_rows(probe_table(what, table), {}, "scores")
    if rows is None:
        frame_to_table(truth, what, "query_id", "doc_id")  # which says what is missing
        columns = ", ".join(table.column_names)
        raise InputError(f"{what}: has no column relevance, score or grade; it has {columns}")
    qrels = rows.table.select(["query_id", "doc_id", "grade", "std_error"])
    qrels = qrels.filter(pc.is_valid(qrels["grade"])).rename_columns(_QREL)
    has_errors = not {"std_error", "truth_error"}.isdisjoint(table.column_names)
    return qrels if has_errors else qrels.drop_columns(["std_error"])


def _store_run(name: str, run: Any, out: str) -> str:
    table = run_table(run, f"runs, {name}")
    run_names = pa.array([name] * len(table), pa.string())
    ranking = table.select(RANKED.names).add_column(0, "run", run_names)
    if is_frame(run) and "rank" in (frame := frame_to_table(run, name)).column_names:
        ranking = ranking.append_column("rank", frame["rank"])
    return store_table(out, f"run-{name}", ranking)
