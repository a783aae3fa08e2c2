"""List the queries with their documents, judgments and matrices, packed within a limit of size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup, escape

from zelo_ray.commands.annotate.judges import judgments_of
from zelo_ray.commands.annotate.scores import means_by_query
from zelo_ray.errors import InputError
from zelo_ray.files.pools import LineLimits, parse_line, query_in
from zelo_ray.files.storage import exists, read_placed_lines
from zelo_ray.files.tables import query_starts
from zelo_ray.files.wording import counted
from zelo_ray.protocols import Judgments
from zelo_ray.records import Grade, Verdict
from zelo_ray.report import charts
from zelo_ray.report.model import Cell, Section, is_known
from zelo_ray.report.page import fold, foldings, html_table, pack
from zelo_ray.report.results import Results

QUERIES = 1000
"""The most queries that a page lists, to keep it fast to open."""
TELLING = 300
"""The most of these that are listed as they are uncertain, disputed or failed."""
BYTES = 9_000_000
"""Characters for the contents of queries, to keep a page below 10 MB."""
_LEAST = 10  # of the least certain queries, by each figure
_QUERY, _ID, _TEXT, _TEXTS = 400, 200, 600, 6_000  # characters; those of all texts of a query
_WORDS = 16_000  # characters of what a judge said: a debate takes many
_FIGURES = {
    "grade": ("grade", "d"),
    "score": ("score", "+z.2f"),
    "std_error": ("±", ".2f"),
    "truth_error": ("about people ±", ".2f"),
    "absolute_score": ("absolute", "+z.2f"),
    "absolute_error": ("±", ".2f"),
}
"""Columns of a score that are shown where they are known, and how."""


@dataclass(slots=True)
class _Listed:
    """A query of the page: its documents, and what is shown of it."""

    id: str
    query: str
    documents: dict[str, str]
    scores: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    packed: list[Markup] = field(default_factory=list)

    def by_rank(self) -> list[str]:
        """Return the documents, those without a score last."""
        ranks = {name: row["rank"] for name, row in self.scores.items()}
        return sorted(self.documents, key=lambda name: ranks.get(name, len(self.documents) + 1))


def queries_section(results: Results, query: str = "") -> Section:
    """List queries with their documents and judgments; ``query`` is one to list in any case."""
    in_all, kinds = results.record["summary"]["queries"], judgments_of(results)
    listed = _choose(results, query)
    by_id = {entry.id: entry for entry in listed}
    for query_id, rows in _by_query(results, "scores", by_id):
        by_id[query_id].scores = {row["doc_id"]: row for row in rows.to_pylist()}
    room = BYTES
    for place, entry in enumerate(listed):
        entry.packed.append(pack(_documents(entry)))
        room -= len(entry.packed[0])
        if room < 0:
            del listed[place:], by_id[entry.id]
            break
    for name, kind in kinds.items():
        for query_id, rows in _by_query(results, name, {entry.id: None for entry in listed}):
            packed = pack(_judgments(by_id[query_id], kind, rows))
            room -= len(packed)
            if room < 0:
                break
            by_id[query_id].packed.append(packed)
    figures = {
        "± {:.2f}": means_by_query(results, "std_error"),
        "judges differ by {:.2f}": means_by_query(results, "disagreement"),
    }
    items = [
        fold(entry.query, _about(entry, figures), Markup("").join(entry.packed)) for entry in listed
    ]
    nouns = " and ".join(f"{kind.noun}s" for kind in kinds.values()) or "judgments"
    caption = f"Open a query to see its documents by rank, and their {nouns} with judges' words."
    without = sum(len(entry.packed) < 2 for entry in listed) if kinds else 0
    if len(listed) < in_all:
        caption += (
            f" {len(listed):,} of {in_all:,} queries: the least certain, those that failed, and "
            "the first of the input."
        )
    if without:
        caption += f" The {nouns} of {without:,} of them did not fit."
    if without or len(listed) < in_all:
        caption += " zelo-ray report DIR --query ID writes a page that has another one."
    return Section("queries", "Queries", [caption, foldings(items, "find a query")])


def _choose(results: Results, query: str) -> list[_Listed]:
    """Return the queries to list: all, or those to look at and the first others."""
    in_all = results.record["summary"]["queries"]
    chosen = {query, *(_telling(results)[:TELLING] if in_all > QUERIES else ())}
    first = QUERIES - len(chosen) if in_all > QUERIES else in_all
    place = f"{results.out.rstrip('/')}/annotated.jsonl"
    listed = []
    for number, (_, line) in enumerate(read_placed_lines(place) if exists(place) else ()):
        if number >= first and query_in(line)[0] not in chosen:
            continue
        parsed = parse_line("annotated.jsonl", number + 1, line, LineLimits())
        if not (pool := parsed.pool):
            raise InputError(f"annotated.jsonl:{number + 1}: not a pool ({parsed.reason})")
        most = min(_TEXT, max(80, _TEXTS // max(1, len(pool.documents))))
        documents = {document.id: cut(document.content, most) for document in pool.documents}
        listed.append(_Listed(pool.query_id, cut(pool.query, _QUERY), documents))
    return sorted(listed, key=lambda entry: entry.id != query)


def _telling(results: Results) -> list[str]:
    """Return the queries to look at first: uncertain, disputed, without scores, or failed."""
    query_ids = [*results.record["summary"]["unscored"]]
    for name in ("std_error", "disagreement"):
        values = means_by_query(results, name)
        query_ids += nsmallest(_LEAST, values, key=lambda each: -values[each])
    if "failures" in results:
        query_ids += results.tables["failures"].head(TELLING)[0]["query_id"].to_pylist()
    return [*dict.fromkeys(query_ids)]


def _by_query(
    results: Results, name: str, query_ids: Mapping[str, Any]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each of some queries."""
    for part in results.tables[name].of_queries(query_ids) if name in results else ():
        if not part.num_rows:
            continue
        starts = query_starts(part)
        for start, end in zip(starts, np.append(starts[1:], part.num_rows), strict=True):
            yield part["query_id"][start].as_py(), part.slice(start, end - start)


def cut(text: str, length: int) -> str:
    """Return the beginning of a text that is too long."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _about(entry: _Listed, figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the notes beside a query's text."""
    figures_known = [form.format(of[entry.id]) for form, of in figures.items() if entry.id in of]
    return [cut(entry.id, _ID), counted(len(entry.documents), "document"), *figures_known]


def _documents(entry: _Listed) -> Markup:
    """Return the table of a query's documents by rank."""
    scores = entry.scores.values()
    figures = {n: how for n, how in _FIGURES.items() if any(is_known(row.get(n)) for row in scores)}
    rows = []
    for name in entry.by_rank():
        row = entry.scores.get(name, {})
        cells = [
            Markup('<span class="n {}">{}</span>').format(
                f"grade g{row.get(figure)}" if figure == "grade" else "",
                Cell(row.get(figure), form).text(),
            )
            for figure, (_, form) in figures.items()
        ]
        split = Markup('<b class="lost">judges split</b> ') if row.get("ambiguous") else ""
        text = Markup("{}{}").format(split, entry.documents[name])
        rows.append([row.get("rank"), cut(name, _ID), *cells, text])
    return html_table(["rank", "document", *(title for title, _ in figures.values()), "text"], rows)


def _judgments(entry: _Listed, kind: Judgments, table: pa.Table) -> Markup:
    """Return a query's judgments of a kind, by document or pair, and the matrices of votes."""
    rows = [kind.record(**row) for row in table.to_pylist()]
    votes = kind.as_votes(table) if kind.as_votes else None
    values = votes["preference"].to_pylist() if votes else [None] * len(rows)
    if kind.record is Verdict:  # whose two orders may differ
        values = [row.preference for row in rows]
    place = {name: number for number, name in enumerate(entry.by_rank())}
    groups: dict[tuple[str, ...], list[tuple[Any, float | None]]] = {}
    for row, value in zip(rows, values, strict=True):
        names = kind.documents_of(row)
        ranked = tuple(sorted(names, key=lambda name: place.get(name, len(place))))
        turned = value is not None and ranked == names
        groups.setdefault(ranked, []).append((row, -value if turned else value))
    order = sorted(groups, key=lambda names: [place.get(name, len(place)) for name in names])
    items = [_group(kind, names, groups[names]) for names in order]
    parts = [Markup("<h4>{}s</h4>").format(kind.noun.capitalize()), foldings(items)]
    return Markup("").join([*(_matrices(entry, votes) if votes else []), *parts])


def _group(
    kind: Judgments, names: Sequence[str], rows: Sequence[tuple[Any, float | None]]
) -> Markup:
    """Fold the judgments of the same documents; preferences are for the one of better rank."""
    texts, values = [], []
    for row, value in rows:
        text = kind.describe(row)
        shown = f" {value:+g}" if value is not None else ""
        if isinstance(row, Grade):
            shown = f" {row.grade}"
            facets = (("covers", row.facets_covered), ("misses", row.facets_missing))
            lines = [f"{word}: {'; '.join(covered)}" for word, covered in facets if covered]
            text = "\n".join([*lines, text])
        values.append(shown)
        words = escape(cut(text, _WORDS))
        texts.append(
            f"<div><b>{escape(row.judge)}</b>{shown}<blockquote>{words}</blockquote></div>"
        )
    numbers = [value for _, value in rows if value is not None]
    mean = [f"{np.mean(numbers):+.2f} on average"] if len(numbers) > 1 else []
    inside = Markup("".join(texts))  # noqa: S704 - escaped above; a format takes long
    return fold(" against ".join(names), [*mean, ",".join(values).strip()], inside)


def _matrices(entry: _Listed, votes: pa.Table) -> Iterator[Markup]:
    """Yield the matrices of mean preferences, in input order and by score."""
    inputs = [*entry.documents]
    place = {name: number for number, name in enumerate(inputs)}
    sums, counts = np.zeros((2, len(inputs), len(inputs)))
    id_array = pa.array(inputs, pa.string())
    held = pc.and_(pc.is_in(votes["doc_id_a"], id_array), pc.is_in(votes["doc_id_b"], id_array))
    for row in votes.filter(held).to_pylist():
        a, b, value = place[row["doc_id_a"]], place[row["doc_id_b"]], row["preference"]
        sums[a, b], sums[b, a] = sums[a, b] - value, sums[b, a] + value
        counts[a, b], counts[b, a] = counts[a, b] + 1, counts[b, a] + 1
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    yield Markup('<div class="sides">')
    for order, names in (("in input order", inputs), ("by score", entry.by_rank())):
        some = [place[name] for name in names]
        values = means[np.ix_(some, some)]
        short = [cut(name, 24) for name in names]
        picture = charts.matrix(short, short, values, low=-1.0, middle=0.0, form=".1f")
        yield Markup("<div><h4>Battles {}</h4>{}</div>").format(order, picture)
    yield Markup(
        '</div><p class="dim">The mean preference for the row over the column: blue where the row '
        "won, orange where it lost, blank where they were not compared.</p>"
    )
