"""The page of ``compare-labels``: what changes when a benchmark is labelled anew."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.present.html import relabelled
from zelo_ray.present.html.page import Page, number, plural
from zelo_ray.present.html.page_warnings import rank_of_relabelling
from zelo_ray.present.html.relabelled import Relabelling
from zelo_ray.present.html.source import Source, bare

SECTIONS = (
    relabelled.leaderboards_section,
    relabelled.siblings_section,
    relabelled.contradictions_section,
)


def relabelling_page(source: Source, record: Mapping[str, Any]) -> Page:
    """Build the page of `compare-labels`."""
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
    return Page(
        title="What new labels change",
        tiles=tiles,
        lead=[text for text in (_moved(relabelling), _against(relabelling)) if text],
        notes=(*record["notes"], made),
        sections=[make(relabelling) for make in SECTIONS],
        warnings=rank_of_relabelling(relabelling),
    )


def _moved(relabelling: Relabelling) -> str:
    """Say how the order of the runs changed."""
    rows, counts = relabelling.standings, relabelling.record["counts"]
    if not rows:
        return ""
    measure = relabelling.record["options"]["measure"]
    queries = plural(counts["queries"], "query", "queries")
    first = min(rows, key=lambda row: row["old_rank"])
    best = rows[0]["run"]
    text = f"{plural(len(rows), 'run')} by {measure} on {queries}: "
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
            f" Of {plural(pairs, 'pair')} {counts['apart_old']:,} differ significantly by the old "
            f"labels, {counts['apart_new']:,} by the new"
        )
        turned = counts["turned"]
        text += f"; {turned:,} of these the other way round." if turned else "."
    return text


def _places(moved: int) -> str:
    return f"{plural(abs(moved), 'place')} {'up' if moved > 0 else 'down'}"


def _against(relabelling: Relabelling) -> str:
    """Say how far the new labels contradict the old ones."""
    options, counts = relabelling.record["options"], relabelling.record["counts"]
    best = sum(row["best"] for row in relabelling.contradictions)
    beaten = len({row["query_id"] for row in relabelling.contradictions if row["best"]})
    sentence = (
        f"The new labels (relevant from {options['relevant']:g}) contradict the old ones (from "
        f"{options['positive']:g}) in {plural(counts['queries_contradicted'], 'query', 'queries')}"
    )
    return (
        f"{sentence}; in {beaten:,} the best document was no old positive."
        if best
        else f"{sentence}."
    )
