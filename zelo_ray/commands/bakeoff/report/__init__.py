"""The page of a bake-off: which arm is best, by how much, and where the arms differ."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.commands.bakeoff.outcome import Hole, LeftOut, Slice, Unranked
from zelo_ray.commands.bakeoff.report import breakdown, corrected, gaps, gate, kin, standings
from zelo_ray.commands.bakeoff.report.headline import absences, outcome
from zelo_ray.commands.bakeoff.report.results import Contest
from zelo_ray.commands.bakeoff.report.warnings import rank_of_bakeoff
from zelo_ray.formats.record import RUN
from zelo_ray.formats.wording import counted
from zelo_ray.records import Comparison, Mean, Metric, Ranked
from zelo_ray.report.instructions import told_by
from zelo_ray.report.kind import ReportKind
from zelo_ray.report.parts import Report, Section
from zelo_ray.report.source import Source, bare
from zelo_ray.report.wording import estimate, paid, short


def told_section(contest: Contest) -> Section | None:
    """Show the instructions in the prompts of rerankers that take one."""
    where = "These words stood in the prompts of those rerankers that take one."
    return told_by(contest.run["options"], where)


SECTIONS = (
    gate.gate_section,
    standings.leaderboard_section,
    standings.differences_section,
    corrected.people_section,
    kin.kin_section,
    breakdown.distribution_section,
    breakdown.curves_section,
    breakdown.slices_section,
    breakdown.difficulty_section,
    breakdown.contrasts_section,
    told_section,
    gaps.failures_section,
    gaps.holes_section,
)

_KINDS = {
    "scores": "real-valued scores",
    "grades": "grades",
    "binary": "binary labels",
}


def build_report(source: Source, run: Mapping[str, Any]) -> Report:
    """Build the report of a bake-off."""
    contest = Contest(source, run)
    truth, arms = contest.summary["truth"], contest.summary["arms"]
    queries = counted(truth["queries"], "query", "queries")
    kind = "contest of" if len(arms) > 1 else "measurement of"
    reading = (
        f"The truth consists of {_KINDS.get(truth['kind'], truth['kind'])}. Intervals are of "
        f"{run['options']['confidence']:.0%}, over queries. A document that nobody judged counts "
        "as not relevant."
    )
    people = corrected.people_sentences(contest)
    sentences = (
        *people,
        ("By the panel alone: " if people else "") + " ".join(outcome(contest)),
        " ".join(absences(contest)),
        reading,
    )
    return Report(
        title=f"A {kind} {counted(len(arms), 'arm')} on {queries}",
        tiles=tiles(contest),
        lead=[sentence for sentence in sentences if sentence],
        made=_made(run),
        banner=" ".join(kin.told_on_top(contest)),
        sections=(),
        make_details=lambda: [make(contest) for make in SECTIONS],
        find_warnings=lambda: rank_of_bakeoff(contest),
    )


def tiles(contest: Contest) -> list[tuple[str, str]]:
    """Return the figures at the top of the page, the most telling first."""
    truth, arms = contest.summary["truth"], contest.summary["arms"]
    shown = [
        ("arms", f"{len(arms):,}"),
        ("queries of the truth", f"{truth['queries']:,}"),
        ("judged documents", f"{truth['documents']:,}"),
    ]
    spent, unpriced = sum(arm["dollars"] or 0.0 for arm in arms), any(a["unpriced"] for a in arms)
    if spent or unpriced:
        shown.append(("spent", paid(spent, unpriced)))
    if contest.arms:
        leading, best = contest.summary["leading"], contest.arms[0]
        row = contest.means[leading][best]
        figure = estimate(row["mean"], row["low"], row["high"])
        shown.insert(0, (f"{leading} of {short(best, 40)}", figure))
    return shown


def _made(run: Mapping[str, Any]) -> str:
    """Describe how to reproduce the page's numbers."""
    options, draws = run["options"], run["summary"]["label_draws"]
    labels = f"{draws:,} draws of the labels" if draws else "labels taken as they are"
    return (
        f"Run {run['run_id']} of zelo-ray {run['versions']['zelo-ray']}: truth "
        f"{bare(options['truth'])}, ties {options['ties']}, seed {options['seed']}, "
        f"{options['resamples']:,} resamples, {labels}."
    )


BAKEOFF_REPORT = ReportKind(
    RUN,
    frozenset({"options", "summary"}),
    {
        "comparisons": (Comparison,),
        "failures": (Unranked,),
        "holes": (Hole,),
        "kin": (LeftOut,),
        "means": (Mean,),
        "metrics": (Metric,),
        "runs": (Ranked,),
        "slices": (Slice,),
    },
    build_report,
    lambda source, record: tiles(Contest(source, record))[0],
)
"""How results of a bake-off become a report."""
