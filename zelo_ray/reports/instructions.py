"""Build the section with the instructions of a run, which define relevance."""

from collections.abc import Mapping, Sequence
from typing import Any

from zelo_ray.reports.parts import Cells, ReportTable, Section, TextCell

_LINES = 12  # of instructions that are not folded away


def build_instructions_section(options: Mapping[str, Any], where: str) -> Section | None:
    """Show the instructions, the template and query fields in the options; None without any.

    Args:
        options: of a run.
        where: a sentence on where the instructions come from.
    """
    words = str(options.get("instructions") or "")
    lines = [line for line in words.splitlines() if line.strip()]
    shown = ", ".join(options.get("show_query") or ())
    notes = [f"With each query they were shown: {shown}."] if shown else []
    template = str(options.get("template") or "").splitlines()
    tables = []
    if lines or notes:
        caption = " ".join([where, *notes] if lines else [])
        tables.append(_table("instructions" if lines else "queries", lines or notes, caption))
    if template:
        tables.append(_table("template", template, "Prompts were built from this template."))
    return Section("told", "What counts as relevant", tuple(tables)) if tables else None


def _table(name: str, lines: Sequence[str], caption: str) -> ReportTable:
    rows: list[Cells] = [[TextCell(line)] for line in lines]
    return ReportTable((name,), rows, caption, open_rows=_LINES)
