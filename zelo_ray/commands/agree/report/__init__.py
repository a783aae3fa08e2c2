"""The page of ``agree``: how far judges agree with people, and with each other."""

from collections.abc import Mapping
from math import isnan, nan
from typing import Any

import numpy as np

from zelo_ray.commands.agree.biases import Bias
from zelo_ray.commands.agree.leaderboards import Order, Placed
from zelo_ray.commands.agree.report import biases, coefficients, consensus, people, precision
from zelo_ray.commands.agree.report.results import Measured, said
from zelo_ray.commands.agree.report.warnings import rank_of_agreement
from zelo_ray.commands.agree.wins import Win
from zelo_ray.evaluation.agreement.differences import Difference
from zelo_ray.evaluation.agreement.measured import Agreement, Confused
from zelo_ray.evaluation.agreement.precision import Precision
from zelo_ray.formats.interchange.verdicts import HUMAN
from zelo_ray.formats.wording import counted
from zelo_ray.records import Consensus
from zelo_ray.report.kind import ReportKind
from zelo_ray.report.parts import Report
from zelo_ray.report.source import Source
from zelo_ray.report.wording import short

SECTIONS = (
    people.outcomes_section,
    people.differences_section,
    people.wins_section,
    consensus.of_judges,
    coefficients.people_section,
    coefficients.panel_section,
    coefficients.between_section,
    coefficients.confusion_section,
    precision.precision_section,
    biases.grading_section,
    biases.voting_section,
    biases.systems_section,
)


def build_report(source: Source, record: Mapping[str, Any]) -> Report:
    """Build the report of `agree`."""
    measured = Measured(source, record)
    judge_count = _judges(measured)
    suffix = " with people" if measured.people or people.best_first(measured) else ""
    return Report(
        title=f"How {counted(judge_count, 'judge')} agree{'s' if judge_count == 1 else ''}{suffix}",
        tiles=tiles(measured),
        lead=[text for make in LEAD if (text := make(measured))],
        sections=(),
        make_details=lambda: [make(measured) for make in SECTIONS],
        find_warnings=lambda: rank_of_agreement(measured),
        notes=(*record["missing"], *record["notes"]),
        made=_made(record),
    )


def tiles(measured: Measured) -> list[tuple[str, str]]:
    """Return the figures at the top of the page, the most telling first."""
    counts = measured.record["counts"]
    shown = [("judges", f"{_judges(measured):,}")]
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
    if measured.people:
        best = measured.best_first[0]
        row = measured.of(HUMAN, best, measured.scales[0], measured.leading)
        shown.insert(0, (f"{measured.leading} of {short(best, 40)}", said(row)))
    return shown


def _judges(measured: Measured) -> int:
    """Count the judges that graded, or else those that voted."""
    return len(measured.panel) or len(measured.record.get("voters", ()))


def _outcome(measured: Measured) -> str:
    """Say which judges agree with people most and least, and how well."""
    if not measured.people:
        return ""
    scale, name = measured.scales[0], measured.leading
    rows = {judge: measured.of(HUMAN, judge, scale, name) for judge in measured.best_first}
    rows = {judge: row for judge, row in rows.items() if not isnan(row["value"])}
    if not rows:
        return "No judge can be compared with the people."
    first, last = next(iter(rows)), next(reversed(rows))
    sentence = (
        f"Closest to the people is {first}: {name} {said(rows[first])} on "
        f"{counted(rows[first]['items'], 'item')} of "
        f"{counted(rows[first]['queries'], 'query', 'queries')}."
    )
    if len(rows) > 2:
        values = [row["value"] for judge, row in rows.items() if judge in measured.panel]
        middle = float(np.median(values)) if values else nan
        sentence += (
            f" The median of {len(values):,} judges is {middle:.3f}; farthest is {last}, at "
        )
        sentence += f"{rows[last]['value']:.3f}."
    ends = [row["low"] for row in rows.values()], [row["high"] for row in rows.values()]
    alike = sum(high >= ends[0][0] for high in ends[1]) - 1
    if alike and not isnan(ends[0][0]):
        sentence += (
            f" The intervals of {alike:,} other{'s' * (alike > 1)} overlap with that of the first."
        )
    return sentence


def _whole(measured: Measured) -> str:
    """Say how far all judges agree."""
    names = [n for n in ("alpha-ordinal", "fleiss") if n in measured.coefficients("two")]
    if not (measured.panels and names):
        return ""
    row = measured.of(measured.panels[0], "", measured.scales[0], names[0])
    sentence = f"The judges as a whole agree by {names[0]} {said(row)}"
    if len(measured.panels) > 1:
        with_people = measured.of(measured.panels[1], "", measured.scales[0], names[0])
        sentence += f"; with the people as one more of them, {said(with_people)}"
    return f"{sentence}."


def _reading(measured: Measured) -> str:
    if not measured.scales:
        return ""
    return (
        "Kappa, pi, alpha, AC and MCC take off what chance would reach: 0 is no better than "
        "chance, 1 the same grades throughout. Intervals are 95%, over samples of queries. A dash "
        "is a coefficient that is not defined, since all grades are the same or nothing was judged "
        "in common."
    )


LEAD = (_outcome, people.outcome, consensus.answers, _whole, _reading)


def _made(record: Mapping[str, Any]) -> str:
    options = record["options"]
    return (
        f"zelo-ray {record['versions']['zelo-ray']} agree: {options['levels']} grades, seed "
        f"{options['seed']}, {options['resamples']:,} resamples of queries."
    )


AGREE_REPORT = ReportKind(
    "agree.json",
    frozenset({"counts", "judges", "options"}),
    {
        "agreement": (Agreement,),
        "confusion": (Confused,),
        "consensus": (Consensus,),
        "differences": (Difference,),
        "grading": (Bias,),
        "leaderboards": (Placed,),
        "outcomes": (Agreement,),
        "pairs": (Agreement,),
        "precision": (Precision,),
        "ranks": (Agreement,),
        "systems": (Order,),
        "voting": (Bias,),
        "wins": (Win,),
    },
    build_report,
    lambda source, record: tiles(Measured(source, record))[0],
)
"""How results of `agree` become a report."""
