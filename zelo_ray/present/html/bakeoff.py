"""The page of a bake-off: which arm is best, by how much, and where the arms differ."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.present.html import breakdown, corrected, gaps, gate, kin, standings
from zelo_ray.present.html.contest import Contest
from zelo_ray.present.html.headline import absences, outcome
from zelo_ray.present.html.judges import told_by
from zelo_ray.present.html.money import paid
from zelo_ray.present.html.page import Page, Section, estimate, plural, short
from zelo_ray.present.html.page_warnings import rank_of_bakeoff
from zelo_ray.present.html.source import Source, bare


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


def bakeoff_page(source: Source, run: Mapping[str, Any]) -> Page:
    """Build the page of a bake-off."""
    contest = Contest(source, run)
    truth, arms = contest.summary["truth"], contest.summary["arms"]
    queries = plural(truth["queries"], "query", "queries")
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
    return Page(
        title=f"A {kind} {plural(len(arms), 'arm')} on {queries}",
        tiles=tiles(contest),
        lead=[sentence for sentence in sentences if sentence],
        notes=(_made(run),),
        banner=" ".join(kin.told_on_top(contest)),
        sections=[make(contest) for make in SECTIONS],
        warnings=rank_of_bakeoff(contest),
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
