"""Sections of a run of debates, or of their baselines: who won, by how much, how often it flips."""

from typing import get_args

import numpy as np

from zelo_ray.present.html.debates import Decisions
from zelo_ray.present.html.figures import histogram
from zelo_ray.present.html.judged import Annotation
from zelo_ray.present.html.page import Cells, Chart, Section, Table, Text, chance, number
from zelo_ray.present.html.wins import shares_chart, win_shares
from zelo_ray.records import TIE, Side


def verdicts_section(annotation: Annotation) -> Section | None:
    """Show the verdicts of each judge, the winners, and the differences of scores."""
    found = annotation.debates
    if not found.by_judge:
        return None
    charts = []
    if best := win_shares(found.wins):
        charts.append(
            shares_chart(
                best,
                "share of pairs won",
                "Which share of the pairs that it was in an answer won, a tie for half, the mean "
                "over queries, with a 95% interval. The line is where all answers are alike.",
                dict.fromkeys(found.wins, 0.5),
            )
        )
    charts.append(_gaps(found.by_judge))
    return Section("verdicts", "Verdicts", [*charts, _table(found.by_judge)])


def _gaps(by_judge: dict[tuple[str, str], Decisions]) -> Chart:
    """Draw the distribution of differences of mean scores."""
    told = {judge: each.gaps for (_, judge), each in by_judge.items()}
    if len(told) > 1:
        told = {"all judges": [gap for gaps in told.values() for gap in gaps], **told}
    widest = max(1.0, *(abs(gap) for gaps in told.values() for gap in gaps))
    title = "mean score of the answer shown first, less the other's"
    figures = {name: histogram(np.array(gaps), title, "verdicts") for name, gaps in told.items()}
    for figure in figures.values():
        figure["layout"]["xaxis"] |= {"range": [-1.05 * widest, 1.05 * widest]}
    return Chart(
        figures,
        "By how much one answer is above the other. Around 0 the judge sees no difference, or the "
        "scale is too coarse for it. Which answer comes first is left to chance, or both orders "
        "are asked, so a judge without bias has as much on either side of 0; more on the right "
        "favours what is shown first.",
        "judge",
    )


def _table(by_judge: dict[tuple[str, str], Decisions]) -> Table:
    both = any(each.both for each in by_judge.values())
    columns = ["judge", "method", "pairs", "model_a won", "model_b won", TIE, "rounds"]
    columns += ["turned round", "tie in one order"] if both else []
    rows: list[Cells] = []
    for (method, judge), each in sorted(by_judge.items(), key=lambda item: item[0][::-1]):
        won = (each.winners[name] / each.pairs for name in get_args(Side))
        cells = [*map(chance, won), number(float(np.mean(each.rounds)), ".2f")]
        if both:
            flips = (each.turned, each.half_tied)
            cells += [chance(n / each.both) if each.both else number(None) for n in flips]
        rows.append([Text(judge), method, f"{each.pairs:,}", *cells])
    caption = (
        "model_a and model_b are doc_id_a and doc_id_b of verdicts.parquet. Rounds are the mean "
        "over all verdicts."
    )
    if both:
        caption += (
            " Pairs were judged with either answer first; where the two orders differ the verdict "
            "is a tie. Turned round: A won in one order, B in the other. Tie in one order: one of "
            "them won in the other."
        )
    return Table(columns, rows, caption, frozenset(columns[2:]))
