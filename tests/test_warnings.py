"""Warnings about results: the code just above each limit, none just below it; and their order."""

import json
from dataclasses import replace
from math import nan

import pyarrow as pa
import pyarrow.parquet as pq

from tests.test_bakeoff_report import write_bakeoff
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.commands.bakeoff.report.results import BakeoffResults
from zelo_ray.commands.bakeoff.report.warnings import (
    RankerFigures,
    rank_bakeoff_warnings,
    warn_of_rankers,
)
from zelo_ray.files.tables import table_of
from zelo_ray.records import Comparison
from zelo_ray.reports.source import Source
from zelo_ray.reports.warning import ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import WarningCode as Code


def codes(warnings):
    return [warning.code for warning in warnings]


def compared(p=0.4, difference=0.02, reach=0.04, queries=50, p_labels=nan, kin=""):
    ends = (difference - reach, difference + reach)
    row = ("a", "b", "nDCG@10", 0.5, 0.5 - difference, difference, *ends, p, p, 0.8)
    return Comparison(*row, p_labels, queries, 20, 10, 20, kin=kin)


SURE = {"rivals": [compared(p=0.01)]}
RANKED = [
    (Code.NO_SIGNIFICANT_LEAD, {"rivals": [compared()]}, SURE),
    (Code.LEAD_UNSURE_BY_LABELS, {"rivals": [compared(p=0.01, p_labels=0.7)]}, SURE),
    (Code.LEAD_ONLY_BY_KIN, {"rivals": [compared(p=0.01, kin="gpt")]}, SURE),
    (Code.TOO_FEW_QUERIES, {"rivals": [compared(queries=2)]}, {"rivals": []}),
    (Code.RANKED_SOME, {"missing": {"a": 1}}, {"missing": {"a": 0}}),
    (Code.RANKED_NOTHING, {"missing": {"a": 50}}, {"missing": {"a": 0}}),
    (Code.UNJUDGED_DOCUMENTS, {"missing": {"a": 0}, "unjudged": {"a": 190}},
     {"missing": {"a": 0}, "unjudged": {"a": 55}}),
    (Code.UNJUDGED_DOCUMENTS, {"missing": {"a": 0}, "unjudged": {"a": 50}, "ranked": {"a": 200}},
     {"missing": {"a": 0}, "unjudged": {"a": 50}}),
]  # fmt: skip


def test_each_is_said_from_its_limit_on():
    for table, found in (
        (RANKED, lambda fields: warn_of_rankers(RankerFigures(50, "nDCG@10", **fields))),
    ):
        for code, above, below in table:
            assert code in codes(found(above)), (code, above)
            assert codes(found(below)) == [], (code, below)


def test_how_many_queries_a_lead_needs():
    """At the corrected level, at which the interval is; to be found in 80% of bake-offs."""

    def told(rival, **more):
        figures = RankerFigures(50, "nDCG@10", [rival], **more)
        return " ".join(map(str, warn_of_rankers(figures)))

    assert "about 410 queries" in told(compared())
    assert "about 880 queries" in told(compared(), compared=45), "3.26 + 0.84 errors, not 1.96"
    for level, half in ((0.8, 1.2816), (0.99, 2.5758)):
        reach = 0.04 / 1.96 * half
        wide = replace(compared(), low=0.02 - reach, high=0.02 + reach)
        assert "about 410 queries" in told(wide, confidence=level)
    assert "queries" not in told(compared(p=0.03), compared=20).partition("p = 0.03")[2]


# As they are read from results


def found_in(out, read):
    return codes(read(str(out)).warnings.every)


def test_a_contest_counts_what_its_arms_rank(tmp_path):
    arms, _ = write_bakeoff(tmp_path, queries=60)
    ranked = [{"run": arms[0], "query_id": f"q{i}", "doc_id": f"d{d}", "score": -float(d)}
              for i in range(60) for d in range(4)]  # fmt: skip
    unjudged = [{"run": arms[0], "query_id": f"q{i}", "doc_id": "d3", "rank": 4} for i in range(60)]
    for name, rows in (("runs", ranked), ("unjudged", unjudged)):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    assert Code.UNJUDGED_DOCUMENTS in found_in(tmp_path, BAKEOFF_REPORT.read)


def test_people_decide_where_they_correct_the_panel(tmp_path):
    arms, _ = write_bakeoff(tmp_path)
    rows = pq.read_table(tmp_path / "comparisons.parquet").to_pylist()
    sure = [{**row, "estimate": "corrected", "p_holm": 0.001} for row in rows]
    doubtful = [{**row, "p_holm": 0.001, "p_labels": 0.6} for row in rows]
    table = table_of([Comparison(**row) for row in doubtful + sure], Comparison)
    pq.write_table(table, tmp_path / "comparisons.parquet")
    run = json.loads((tmp_path / "run.json").read_text())
    for people, said in ((None, True), ({"way": "queries", "measures": ["nDCG@10"]}, False)):
        run["summary"] |= {"people": people and people | {"leader": arms[0]}}
        results = BakeoffResults(Source(str(tmp_path)), run)
        assert (Code.LEAD_UNSURE_BY_LABELS in codes(rank_bakeoff_warnings(results).every)) == said


# As they are shown


def test_the_worst_comes_first_and_only_five_stand_open():
    found = [Code.QUERY_IN_ITS_POOL, Code.FLIPS, Code.LINES_REJECTED, Code.TRUTH_CHANGED]
    found += [Code.JUDGES_ALIKE, Code.REVERSED_RANKS]
    ranked = rank_warnings([ResultWarning(code) for code in found], "")
    assert [one.harm for one in ranked.first] == [94, 52, 50, 50, 48]
    assert codes(ranked.rest) == [Code.QUERY_IN_ITS_POOL]
    assert len(Code) == len(Code.__members__), "equal sentences would make one of two codes"
