"""The report of `agree`: how far judges agree with people, and with each other."""

from collections.abc import Iterator, Mapping
from math import isnan
from typing import Any

import numpy as np

from zelo_ray.commands.agree.biases import Bias
from zelo_ray.commands.agree.leaderboards import LeaderboardPlace, OrderAgreement
from zelo_ray.commands.agree.report import biases, coefficients, consensus, people
from zelo_ray.commands.agree.report.results import AgreementTables, estimate_of
from zelo_ray.commands.agree.report.warnings import rank_agreement_warnings
from zelo_ray.evaluation.agreement import Agreement, ConfusionCell, Difference
from zelo_ray.files.judges import HUMAN
from zelo_ray.files.wording import counted
from zelo_ray.records import Consensus
from zelo_ray.reports.kind import ReportKind
from zelo_ray.reports.parts import Report
from zelo_ray.reports.source import Source
from zelo_ray.reports.wording import short

SECTIONS = (
    people.outcomes_section,
    people.differences_section,
    coefficients.people_section,
    coefficients.panel_section,
    coefficients.between_section,
    coefficients.confusion_section,
    consensus.judges_section,
    biases.grading_section,
    biases.voting_section,
    biases.systems_section,
)


_READING = (
    "For kappa, pi, alpha, AC and MCC, 0 is agreement by chance and 1 is perfect agreement. "
    "Intervals are 95%, over samples of 5 queries or more. A dash is an undefined figure: all "
    "judgments are the same, or no item was judged in common."
)


def build_report(source: Source, record: Mapping[str, Any]) -> Report:
    """Build the report of `agree`."""
    tables = AgreementTables(source, record)
    judge_count = _judges(tables)
    suffix = " with people" if tables.has_people or people.best_first(tables) else ""
    return Report(
        title=f"How {counted(judge_count, 'judge')} agree{'s' if judge_count == 1 else ''}{suffix}",
        tiles=make_tiles(tables),
        lead=[
            *_outcome(tables),
            *people.describe_closest_judge(tables),
            *consensus.trust_sentences(tables),
            _READING,
        ],
        sections=[make(tables) for make in SECTIONS],
        find_warnings=lambda: rank_agreement_warnings(tables),
        notes=(*record["missing"], *record["notes"]),
        made=_made(record),
    )


def make_tiles(tables: AgreementTables) -> list[tuple[str, str]]:
    """Return the figures at the top of the page, the most telling first."""
    counts = tables.record["counts"]
    shown = [("judges", f"{_judges(tables):,}")]
    shown += [
        (f"{name} of {whose}", f"{counts[key]['judgments']:,}")
        for key, name, whose in (
            ("grades", "grades", "judges"),
            ("votes", "votes", "judges"),
            ("human", "grades", "people"),
            ("voices", "votes", "people"),
        )
        if counts.get(key, {}).get("judgments")
    ]
    if tables.has_people:
        best = tables.best_first[0]
        row = tables.agreement_of(HUMAN, best, tables.scales[0], tables.leading)
        shown.insert(0, (f"{tables.leading} of {short(best, 40)}", estimate_of(row)))
    return shown


def _judges(tables: AgreementTables) -> int:
    """Count the judges that graded, or else those that voted."""
    return len(tables.panel) or len(tables.record.get("voters", ()))


def _outcome(tables: AgreementTables) -> Iterator[str]:
    """Say which judges agree with people most and least, and how well."""
    if not tables.has_people:
        return
    scale, name = tables.scales[0], tables.leading
    rows = {judge: tables.agreement_of(HUMAN, judge, scale, name) for judge in tables.best_first}
    rows = {judge: row for judge, row in rows.items() if not isnan(row["value"])}
    if not rows:
        yield "No judge can be compared with people."
        return
    first, last = next(iter(rows)), next(reversed(rows))
    values = [row["value"] for judge, row in rows.items() if judge in tables.panel]
    sentence = f"Closest to people is {first}"
    if len(rows) > 2 and values:
        sentence += (
            f"; farthest is {last}, at {rows[last]['value']:z.3f}. The median of "
            f"{len(values):,} judges is {np.median(values):z.3f}"
        )
    alike = sum(row["high"] >= rows[first]["low"] for row in rows.values()) - 1
    if alike > 0:
        s = "s" * (alike > 1)
        sentence += f". The intervals of {alike:,} other{s} overlap with that of the first"
    yield f"{sentence}."


def _made(record: Mapping[str, Any]) -> str:
    options = record["options"]
    return f"zelo-ray {record['versions']['zelo-ray']} agree: {options['levels']} grades."


AGREE_REPORT = ReportKind(
    "agree.json",
    ("agree.json", "*.parquet"),
    frozenset({"counts", "judges", "options"}),
    {
        "agreement": (Agreement,),
        "confusion": (ConfusionCell,),
        "consensus": (Consensus,),
        "differences": (Difference,),
        "grading": (Bias,),
        "leaderboards": (LeaderboardPlace,),
        "outcomes": (Agreement,),
        "pairs": (Agreement,),
        "systems": (OrderAgreement,),
        "voting": (Bias,),
    },
    build_report,
    lambda record: not record["missing"],
)
"""How results of `agree` become a report."""
