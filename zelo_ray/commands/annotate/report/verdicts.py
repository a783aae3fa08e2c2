"""Section on verdicts of debates and baselines: results, and flips."""

from typing import get_args

import numpy as np

from zelo_ray.commands.annotate.report.debates import Decisions
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.records import TIE, Side
from zelo_ray.reports.parts import Cells, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_number, format_probability


def verdicts_section(results: AnnotateResults) -> Section | None:
    """Show the verdicts of each judge."""
    debates = results.debates
    if not debates.by_judge:
        return None
    return Section("verdicts", "Verdicts", [_table(debates.by_judge)])


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
