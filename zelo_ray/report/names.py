"""Show the names of judges and rankers short: without a server's URL, and without folders."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from markupsafe import Markup, escape

from zelo_ray.report.model import Chart, Report, Section, Table, name_some, without_place


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the names that can be shorter and still differ from all others, with what they are."""
    short = {name: without_place(name) for name in names}
    counts = Counter(short.values())
    return {name: each for name, each in short.items() if each != name and counts[each] == 1}


def with_short_names(report: Report) -> Report:
    """Return a report for people to read, which says once what a short name stands for."""
    short = short_names(dict.fromkeys(report.names))
    if not short:
        return report
    full = name_some([f"{each} is {name}" for name, each in short.items()], 8)
    legend = [f"In full: {full}."]

    def cut(value: Any) -> Any:
        for name in sorted(short, key=len, reverse=True):  # one may begin as another
            if isinstance(value, Markup):
                value = value.replace(escape(name), short[name])
            elif isinstance(value, str):
                value = value.replace(name, short[name])
        return value

    def part(one: Any) -> Any:
        if isinstance(one, Chart):
            pictures = {tuple(map(cut, key)): cut(each) for key, each in one.pictures.items()}
            return replace(one, pictures=pictures, caption=cut(one.caption))
        if not isinstance(one, Table):
            return cut(one)
        columns, rows = [*map(cut, one.columns)], [[*map(cut, row)] for row in one.rows]
        more = legend.pop() if rows != one.rows and legend else ""
        caption = f"{cut(one.caption)} {more}".strip()
        return replace(one, columns=columns, rows=rows, caption=caption)

    def section(one: Section) -> Section:
        return replace(one, title=cut(one.title), parts=[*map(part, one.parts)])

    return replace(
        report,
        tiles={cut(name): cut(value) for name, value in report.tiles.items()},
        lead=[*map(cut, report.lead)],
        sections=[*map(section, report.sections)],
        page_sections=lambda: [*map(section, report.details)],
        find_warnings=lambda: [replace(warn, text=cut(warn.text)) for warn in report.warnings],
        notes=[*map(cut, report.notes)],
        banner=cut(report.banner),
    )
