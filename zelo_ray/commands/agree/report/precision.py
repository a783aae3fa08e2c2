"""The section of ``agree`` on precision, recall and F1."""

from zelo_ray.commands.agree.report.results import Measured, Row, said
from zelo_ray.report.charts.figures import intervals, spans
from zelo_ray.report.parts import Cells, Chart, Figure, Section, Table, Text

_OPEN = 12


def precision_section(measured: Measured) -> Section | None:
    """Show the precision, recall and F1 of judges."""
    rows_by_key: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in measured.rows("precision"):
        key = row["measure"], row["scale"], row["label"]
        rows_by_key.setdefault(key, {})[row["judge"]] = row
    figures: dict[tuple[str, ...], Figure] = {
        (measure, label): intervals(list(rows), {"": spans(list(rows.values()))}, measure)
        for (measure, _, label), rows in rows_by_key.items()
    }
    if not figures:
        return None
    chart = Chart(
        figures,
        "Of the items of which a judge says it, the share of which the people say it, too "
        "(precision); of those of which the people do, the share that the judge finds (recall); "
        "and the harmonic mean of both (F1). With 95% intervals.",
        ("measure", "of"),
    )
    columns = ("judge", "says", "precision", "recall", "F1", "said", "right")
    cells: list[Cells] = []
    for (measure, scale, label), rows in rows_by_key.items():
        for judge, row in rows.items() if measure == "precision" else ():
            others = [rows_by_key[name, scale, label][judge] for name in ("recall", "f1")]
            sizes = (f"{row['said']:,}", f"{row['right']:,}")
            cells.append([Text(judge), Text(label), *map(said, (row, *others)), *sizes])
    caption = "Said: by the judge; right: by the people. precision.parquet has all."
    table = Table(columns, cells, caption, frozenset(columns[2:]), _OPEN)
    return Section("precision", "Precision and recall", (chart, table))
