"""The page of ``compare-labels``: what changes when a benchmark is labelled anew."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.commands.compare_labels.boards import Standing
from zelo_ray.commands.compare_labels.contradictions import Contradiction
from zelo_ray.commands.compare_labels.neighbours import Sibling
from zelo_ray.commands.compare_labels.report import results as relabelled
from zelo_ray.commands.compare_labels.report.results import Relabelling
from zelo_ray.commands.compare_labels.report.warnings import rank_of_relabelling
from zelo_ray.formats.wording import counted
from zelo_ray.report.kind import ReportKind
from zelo_ray.report.parts import Report
from zelo_ray.report.source import Source, bare
from zelo_ray.report.wording import number

SECTIONS = (
    relabelled.leaderboards_section,
    relabelled.siblings_section,
    relabelled.contradictions_section,
)


def build_report(source: Source, record: Mapping[str, Any]) -> Report:
    """Build the report of `compare-labels`."""
    relabelling = Relabelling(source, record)
    options, counts = record["options"], record["counts"]
    kinds = {
        "positive": "old positives denied",
        "negative": "old negatives relevant",
        "unjudged": "unjudged, relevant",
    }
    tiles = [
        ("contradicted queries", f"{counts['queries_contradicted']:,}"),
        *((title, f"{counts[kind]:,}") for kind, title in kinds.items() if counts[kind]),
    ]
    if relabelling.standings:
        tiles = [
            *(("runs", f"{counts['runs']:,}"), ("queries", f"{counts['queries']:,}")),
            *((f"{tau['coefficient']}", number(tau["value"])) for tau in record["taus"]),
            *tiles,
        ]
    made = (
        f"zelo-ray {record['version']} compare-labels: {bare(options['old'])} against "
        f"{bare(options['new'])}, {options['measure']}, relevant from {options['positive']:g} by "
        f"the old and from {options['relevant']:g} by the new labels, seed {options['seed']}, "
        f"{options['resamples']:,} resamples."
    )
    return Report(
        title="What new labels change",
        tiles=tiles,
        lead=[text for text in (_moved(relabelling), _against(relabelling)) if text],
        sections=(),
        make_details=lambda: [make(relabelling) for make in SECTIONS],
        find_warnings=lambda: rank_of_relabelling(relabelling),
        notes=record["notes"],
        made=made,
    )


def _moved(relabelling: Relabelling) -> str:
    """Say how the order of the runs changed."""
    rows, counts = relabelling.standings, relabelling.record["counts"]
    if not rows:
        return ""
    measure = relabelling.record["options"]["measure"]
    queries = counted(counts["queries"], "query", "queries")
    first = min(rows, key=lambda row: row["old_rank"])
    best = rows[0]["run"]
    text = f"{counted(len(rows), 'run')} by {measure} on {queries}: "
    text += (
        f"{best} leads under both labels"
        if first["run"] == best
        else f"{first['run']} leads by the old labels, {best} by the new"
    )
    moved = sum(row["moved"] != 0 for row in rows)
    mover = max(rows, key=lambda row: abs(row["moved"]))
    text += f"; {moved:,} of them change" + (
        f" places, the most {mover['run']}, {_places(mover['moved'])}." if moved else " places."
    )
    if len(rows) > 1:
        pairs = len(rows) * (len(rows) - 1) // 2
        text += (
            f" Of {counted(pairs, 'pair')} {counts['apart_old']:,} differ significantly by the old "
            f"labels, {counts['apart_new']:,} by the new"
        )
        turned = counts["turned"]
        text += f"; {turned:,} of these the other way round." if turned else "."
    return text


def _places(moved: int) -> str:
    return f"{counted(abs(moved), 'place')} {'up' if moved > 0 else 'down'}"


def _against(relabelling: Relabelling) -> str:
    """Say how far the new labels contradict the old ones."""
    options, counts = relabelling.record["options"], relabelling.record["counts"]
    best = sum(row["best"] for row in relabelling.contradictions)
    beaten = len({row["query_id"] for row in relabelling.contradictions if row["best"]})
    sentence = (
        f"The new labels (relevant from {options['relevant']:g}) contradict the old ones (from "
        f"{options['positive']:g}) in {counted(counts['queries_contradicted'], 'query', 'queries')}"
    )
    return (
        f"{sentence}; in {beaten:,} the best document was no old positive."
        if best
        else f"{sentence}."
    )


def _headline(_source: Source, record: Mapping[str, Any]) -> tuple[str, str]:
    taus = [(tau["coefficient"], number(tau["value"])) for tau in record["taus"][:1]]
    contradicted = ("contradicted queries", f"{record['counts']['queries_contradicted']:,}")
    return (*taus, contradicted)[0]


COMPARE_LABELS_REPORT = ReportKind(
    "compare.json",
    frozenset({"counts", "options", "taus"}),
    {
        "contradictions": (Contradiction,),
        "leaderboards": (Standing,),
        "siblings": (Sibling,),
    },
    build_report,
    _headline,
)
"""How results of `compare-labels` become a report."""
