"""Read what reports and `explain` say of runs made by hand, to hold it against a record.

    python -m tests.runs_by_hand       # record it anew in tests/golden/by_hand.tar.xz

Such runs show what those of `tests.outputs` do not: failures, ties, and orders that differ.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests import outputs
from tests.builders import pool_of, results_of, write_run
from tests.hills import write_contests, write_verdicts
from tests.test_bakeoff_report import write_bakeoff
from tests.test_report_graded import write_both, write_graded
from tests.test_report_relabelling import compare_labels
from tests.test_trials_report import write_comparison
from zelo_ray.commands.bakeoff.calibration import ScoreBin, ScoreCalibration
from zelo_ray.commands.bakeoff.pair_agreement import PairAgreement
from zelo_ray.commands.compare_protocols.system_order import SystemOrder
from zelo_ray.commands.explain import explain
from zelo_ray.commands.report import write_report
from zelo_ray.evaluation.regression_gate import GateDecision
from zelo_ray.formats.results import write_json, write_tables
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Consensus

RECORD = outputs.RECORD.with_name("by_hand.tar.xz")


def _write_votes(out: Path) -> None:
    """Write votes, some refused; on equal documents of a query, and a query with one document."""

    def say(request: Any) -> str | None:
        refuses = {document.id for document in request.documents} == {"d0", "d1"}
        return "refused" if refuses and request.judge.provider == "anthropic" else None

    pools = [pool_of((1, 3, 1, 0)), pool_of((1, 1, 1), "equal"), pool_of((1,), "alone")]
    write_run(out, results_of(out, pools, say, document_limit=3))


def _write_nothing(out: Path) -> None:
    """Write a run without queries."""
    write_run(out, results_of(out, []))


def _write_consensus(out: Path) -> None:
    """Write grades, and how often judges that agree are right."""
    write_graded(out, humans=12)
    ends = {"unanimous": (0.99, 0.975, 1.0), "split": (0.6, 0.5, 0.7), "all": (0.8, 0.7, 0.9)}
    rows = [
        Consensus(*kind, level, share, *ends[level], 90, tied, 9)
        for kind, tied in ((("orders", ""), 7), (("grades", "0-3"), 0))
        for level, share in (("all", 1.0), ("unanimous", 0.4), ("split", 0.6))
    ]
    pq.write_table(table_of(rows, Consensus), out / "consensus.parquet")


def _write_contest(out: Path) -> None:
    """Write a contest with what few have: instructions, draws, costs, many slices, lost queries."""
    pairs = {(0, 1): {"p_labels": 0.8}}
    write_bakeoff(out, queries=30, pairs=pairs, label_draws=200)
    [row, *_] = pq.read_table(out / "slices.parquet").to_pylist()
    rows = [row | {"slice": "tenant", "value": f"t{n:02}"} for n in range(31)]
    pq.write_table(pa.Table.from_pylist(rows), out / "slices.parquet")
    run = json.loads((out / "run.json").read_text())
    run["options"] |= {"instructions": "A nurse can act on it.", "show_query": ["narrative"]}
    run["summary"]["truth"]["queries"] = 31
    run["summary"]["rankers"][0] |= {"dollars": 0.5, "unpriced": 2}
    run["summary"]["gate"] = [asdict(gate) for gate in _GATES]
    write_json(str(out), "run.json", run)
    write_tables(str(out), {name: table_of(rows, kind) for name, (kind, rows) in _BESIDE.items()})


_GATES = (
    GateDecision(
        *("original", "bm25", "nDCG@10", "panel", 0.5, 0.95, "not enough data"),
        *("the interval is too wide", -0.4, -0.7, 0.03, nan, 30, 420),
    ),
    GateDecision(
        *("cross-encoder", "bm25", "nDCG@10", "panel", 0.5, 0.95, "not worse", ""),
        *(-0.2, -0.3, -0.1, nan, 30, 30),
    ),
)
_BESIDE: Mapping[str, tuple[type, list[Any]]] = {
    "pairs": (
        PairAgreement,
        [
            PairAgreement("bm25", "truth", 0.81, 0.78, 0.84, 30, 1200),
            PairAgreement("original", "truth", 0.5, nan, nan, 4, 12),
        ],
    ),
    "calibration": (
        ScoreCalibration,
        [
            ScoreCalibration(
                *("bm25", 0.0, 1.0, 2.0, 330, 30, 0.25, 0.15, 0.12, 0.18, 0.05, 0.01, 0.07, 0.06)
            ),
            ScoreCalibration("original", -9.0, 31.5, 2.0, 0, 0, *(nan,) * 8),
        ],
    ),
    "reliability": (
        ScoreBin,
        [
            ScoreBin("bm25", 0.1, 0.2, 300, 0.14, 0.2, 0.1, 0.3),
            ScoreBin("bm25", 0.9, 1.0, 30, 0.95, 0.75, nan, nan),
        ],
    ),
}


def _write_protocols(out: Path) -> None:
    """Write a comparison of protocols, with the order of runs by their labels."""
    write_comparison(out)
    orders = [
        SystemOrder(
            *(protocol, "nDCG@10", budget, spent, full, queries, 40, 6, tau, tau - 0.1, 1.0),
            *(tau, tau - 0.2, 1.0, tau > 0.8, True, 15, 9, 8, 6, 1),
        )
        for protocol, budget, spent, full, queries, tau in (
            ("plain", 0.4, 0.4, True, 40, 0.7),
            ("debate", 0.4, 0.32, False, 8, 0.9),
            ("plain", 2.0, 0.4, True, 40, 0.7),
            ("debate", 2.0, 2.0, True, 40, 1.0),
        )
    ]
    write_tables(str(out), {"systems": table_of(orders, SystemOrder)})


def _write_relabelling(out: Path) -> None:
    """Write old and new labels that order runs differently, two of them surely by the old only."""
    compare_labels(out / "inputs")
    shutil.copytree(out / "inputs/out", out, dirs_exist_ok=True)
    first, *others = pq.read_table(out / "siblings.parquet").to_pylist()
    siblings = pa.Table.from_pylist([first | {"new_apart": False}, *others])
    pq.write_table(siblings, out / "siblings.parquet")


_BY_THE_PANEL = [(query, judge, 0, "abc", "kt") for query in ("q0", "q1") for judge in ("j1", "j2")]
_IN_ONE_ORDER = [("q0", "a", "b", "j1", ((95, 87),), False)]
RUNS: Mapping[str, Callable[[Path], object]] = {
    "votes": _write_votes,
    "votes-on-nothing": _write_nothing,
    "grades": write_graded,
    "grades-with-people": _write_consensus,
    "grades-of-nine": partial(write_graded, judges=[f"judge-{n}" for n in range(9)]),
    "grades-of-nothing": partial(write_graded, queries=0),
    "grades-and-votes": write_both,
    "tournaments": write_contests,
    "tournaments-of-the-panel": partial(
        write_contests, told=_BY_THE_PANEL, decide="panel", repeats=1
    ),
    "debates": write_verdicts,
    "debates-in-one-order": partial(write_verdicts, told=_IN_ONE_ORDER, both_orders=False),
    "contest": write_bakeoff,
    "contest-with-all": _write_contest,
    "protocols": write_comparison,
    "protocols-with-runs": _write_protocols,
    "relabelling": _write_relabelling,
}
"""By name, what writes the files of a run."""

ASKED: Mapping[str, Sequence[tuple[str, ...]]] = {
    "votes": [("q1",), ("q1", "d0"), ("q1", "d1"), ("q1", "d2"), ("equal",)],
    "grades": [("q0",), ("q0", "d1")],
    "tournaments": [("q0", "c"), ("q1",), ("q1", "a")],
    "tournaments-of-the-panel": [("q0",), ("q0", "b")],
    "debates": [("q0",), ("q0", "b")],
}
"""By name of a run, a query and perhaps a document to explain."""


def read_all(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Make a run; yield its page, the values of its report and each explanation, by name."""
    folder.mkdir(exist_ok=True)
    RUNS[name](folder)
    write_report(str(folder))
    for path, text in outputs.read_outputs(folder):
        if path.startswith("report."):
            yield f"{name}/{path}.txt", text
    for asked in ASKED.get(name, ()):
        yield f"{name}/{'-'.join(('explain', *asked))}.txt", explain(str(folder), *asked) + "\n"


def _record() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        runs, texts = Path(temporary) / "runs", Path(temporary) / "texts"
        runs.mkdir()
        for name in RUNS:
            for path, text in read_all(runs / name, name):
                (texts / path).parent.mkdir(parents=True, exist_ok=True)
                (texts / path).write_text(text)
        outputs.write_record(texts, RECORD)


if __name__ == "__main__":
    _record()
