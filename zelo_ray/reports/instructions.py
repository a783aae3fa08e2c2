"""Build the section with the instructions of a run, which define relevance."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.reports.parts import Cells, ReportTable, Section, TextCell

_LINES = 12  # of instructions that are not folded away


def build_instructions_section(options: Mapping[str, Any], where: str) -> Section | None:
    """Show the instructions and query fields in the options; None if there are none.

    Args:
        options: of a run.
        where: a sentence on where the instructions come from.
    """
    words = str(options.get("instructions") or options.get("criteria") or "")
    lines = [line for line in words.splitlines() if line.strip()]
    shown = ", ".join(options.get("show_query") or ())
    notes = [f"With each query they were shown: {shown}."] if shown else []
    if not (lines or notes):
        return None
    rows: list[Cells] = [[TextCell(line)] for line in lines or notes]
    caption = " ".join([where, *notes] if lines else [])
    table = ReportTable(("instructions" if lines else "queries",), rows, caption, open_rows=_LINES)
    return Section("told", "What counts as relevant", (table,))
