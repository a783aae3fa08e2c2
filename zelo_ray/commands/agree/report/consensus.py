"""Sections on trust: how often people agree with a panel, by how far its judges agree."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from math import isnan

from zelo_ray.commands.agree.report.results import AgreementTables, Row, rows_by
from zelo_ray.fitting.consensus import ALL, GRADES, LEVELS, ORDERS, VOTES
from zelo_ray.reports.charts.figures import intervals, spans
from zelo_ray.reports.parts import Cells, Chart, Figure, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_estimate

TRUST = 0.97
"""Default share of agreement with people from which on a panel can be trusted blindly."""
_KINDS = {VOTES: "pairs, by votes", ORDERS: "pairs, by grades", GRADES: "documents"}
LEVEL_NAMES = {
    "unanimous": "all judges agree",
    "all but one": "all but one agree",
    "three quarters": "three quarters agree",
    "over half": "over half agree",
    "split": "split",
    ALL: "all together",
}
_OF_ONE_VOTER = LEVEL_NAMES | {"unanimous": "the judge decides", "split": "the judge ties"}
_ROWS = 12


def judges_section(tables: AgreementTables) -> Section | None:
    """Show how often people agree with a panel, by how far its judges agree."""
    rows, trust, voters = tables.rows("consensus"), _trust(tables), _voters(tables)
    if not rows:
        return None
    figures: dict[str, Figure] = {}
    cells: list[Cells] = []
    for (about, scale), group in rows_by(rows, "about", "scale").items():
        by_level = {row["level"]: row for row in group}
        level_rows = [by_level[level] for level in (*LEVELS, ALL) if level in by_level]
        counted_rows = [row for row in level_rows if row["items"]]
        title, level_names = _title(about, scale), _level_names(about, voters)
        names = [level_names[row["level"]] for row in counted_rows]
        series = {"": spans(counted_rows, ("same", "low", "high"))}
        notes = [f", {row['share']:.0%}" for row in counted_rows]
        figures[title] = intervals(names, series, "people agree", trust, notes=notes)
        for row in level_rows:
            same = format_estimate(row["same"], row["low"], row["high"])
            counts = (f"{row['items']:,}", "" if about == GRADES else f"{row['tied']:,}")
            cells.append(
                [
                    TextCell(title),
                    TextCell(level_names[row["level"]]),
                    f"{row['share']:.1%}",
                    same,
                    *counts,
                ]
            )
    caption = (
        "How often people agree with the majority of the judges, by how large that is; the share "
        "of all pairs or documents is beside it. Where an interval is right of the dotted line "
        f"at {trust:g}, the panel can be trusted blindly."
    )
    columns = ("of", "judges", "share", "people agree", "items", "people tie")
    note = (
        "Pairs that people tie are left out, and counted. A pair on which the judges are evenly "
        "split is half right; a judge that ties does not agree. Intervals are 95%, over queries."
    )
    table = ReportTable(
        columns, cells, note, frozenset(columns[2:]), _ROWS, file="consensus.parquet"
    )
    return Section("consensus", "When the judges agree", (Chart(figures, caption, "of"), table))


def trust_sentences(tables: AgreementTables) -> Iterator[str]:
    """Say where the panel can be trusted without people; for documents, on the whole scale."""
    for (about, scale), rows in rows_by(tables.rows("consensus"), "about", "scale").items():
        if about != GRADES or "-" in scale:
            sentence = trust_sentence(rows, _trust(tables), _level_names(about, _voters(tables)))
            if sentence:
                title = _title(about, scale)
                yield f"{title[:1].upper()}{title[1:]}: {sentence}."


def trust_sentence(rows: Sequence[Row], trust: float, level_names: Mapping[str, str]) -> str:
    """Say where the panel can be trusted blindly, and for what share of pairs or documents.

    A level counts if its interval lies above ``trust``, and so do all levels before it. ``perhaps``
    is where its share does, and too few queries were labelled to be sure.

    Args:
        rows: of one kind and scale.
        trust: the share of agreement with people from which on it can.
        level_names: by level.
    """
    by_level = {row["level"]: row for row in rows}
    levels = [by_level[level] for level in LEVELS[:-1] if level in by_level]
    first = levels[0] if levels else None
    if first is None or isnan(first["low"]):
        return ""
    noun = "documents" if first["about"] == GRADES else "pairs"
    sure = [*takewhile(lambda row: row["low"] >= trust, levels)]
    blindly = f"blindly trustworthy ({trust:g} or more)"
    if sure:
        share, where = sum(row["share"] for row in sure), level_names[sure[-1]["level"]]
        more = " or more" if len(sure) > 1 else ""
        return f"{blindly}: {share:.0%} of {noun}, where {where}{more}"
    word = "none" if first["high"] < trust else "not shown" if first["same"] < trust else "perhaps"
    value = format_estimate(first["same"], first["low"], first["high"])
    return (
        f"{blindly}: {word}; where {level_names[first['level']]} ({first['share']:.0%} of {noun}), "
        f"people agree on {value}"
    )


def _level_names(about: str, voters: int) -> Mapping[str, str]:
    return _OF_ONE_VOTER if about == VOTES and voters == 1 else LEVEL_NAMES


def _title(about: str, scale: str) -> str:
    return _KINDS[about] + (f" {scale}" if scale else "")


def _trust(tables: AgreementTables) -> float:
    return float(tables.record["options"].get("trust", TRUST))


def _voters(tables: AgreementTables) -> int:
    return len(tables.record.get("voters", ()))
