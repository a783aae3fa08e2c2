"""Section on verdicts of debates and baselines: results, margins, and flips."""

from typing import get_args

import numpy as np

from zelo_ray.commands.annotate.report.debates import Decisions
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.records import TIE, Side
from zelo_ray.reports.charts.figures import histogram
from zelo_ray.reports.parts import Cells, Chart, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_number, format_probability


def verdicts_section(results: AnnotateResults) -> Section | None:
    """Show the verdicts of each judge, and the differences of scores."""
    debates = results.debates
    if not debates.by_judge:
        return None
    return Section("verdicts", "Verdicts", [_gaps(debates.by_judge), _table(debates.by_judge)])


def _gaps(by_judge: dict[tuple[str, str], Decisions]) -> Chart:
    """Draw the distribution of differences of mean scores."""
    gaps_by_name = {judge: decisions.gaps for (_, judge), decisions in by_judge.items()}
    if len(gaps_by_name) > 1:
        gaps_by_name = {
            "all judges": [gap for gaps in gaps_by_name.values() for gap in gaps],
            **gaps_by_name,
        }
    widest = max(1.0, *(abs(gap) for gaps in gaps_by_name.values() for gap in gaps))
    title = "mean score of the answer shown first, less the other's"
    figures = {
        name: histogram(np.array(gaps), title, "verdicts") for name, gaps in gaps_by_name.items()
    }
    for figure in figures.values():
        figure["layout"]["xaxis"] |= {"range": [-1.05 * widest, 1.05 * widest]}
    return Chart(
        figures,
        "The difference of the mean scores of two answers. Around 0 the judge sees no "
        "difference, or the scale is too coarse. The order is random, or both orders are asked, "
        "so an unbiased judge has as much on either side of 0; more on the right favours the "
        "answer shown first.",
        "judge",
    )


def _table(by_judge: dict[tuple[str, str], Decisions]) -> ReportTable:
    both_orders = any(entry.both for entry in by_judge.values())
    columns = ["judge", "pairs", "model_a won", "model_b won", TIE]
    columns += ["reversed", "tie in one order"] if both_orders else []
    columns += ["rounds", "method"]
    rows: list[Cells] = []
    for (method, judge), decisions in sorted(by_judge.items(), key=lambda item: item[0][::-1]):
        won = (decisions.winners[name] / decisions.pairs for name in get_args(Side))
        cells = [f"{decisions.pairs:,}", *map(format_probability, won)]
        if both_orders:
            flips = (decisions.reversed, decisions.half_tied)
            cells += [
                format_probability(n / decisions.both) if decisions.both else format_number(None)
                for n in flips
            ]
        cells.append(format_number(float(np.mean(decisions.rounds)), ".2f"))
        rows.append([TextCell(judge), *cells, method])
    caption = "model_a and model_b are doc_id_a and doc_id_b of verdicts.parquet."
    if both_orders:
        caption += (
            " Pairs were judged in both orders; where these differ the verdict is a tie: "
            "reversed if A won in one order and B in the other."
        )
    return ReportTable(columns, rows, caption, frozenset(columns[1:-1]))
