"""Find documents on which new labels contradict the old ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import Literal

import pyarrow as pa

from zelo_ray.files.tables import iter_rows

Kind = Literal["positive", "negative", "unjudged"]
"""The label of the document by the old labels."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A document that is relevant by one set of labels but not by the other.

    ``old`` is NaN if it was unjudged. ``best``: by the new labels no document of the query is
    better, and no old positive is as good. ``ambiguous``: the panel is split on it. ``text``: its
    beginning, if texts are available.
    """

    query_id: str
    doc_id: str
    kind: Kind
    old: float
    new: float
    best: bool
    ambiguous: bool
    text: str

    def distance_from_cut(self, relevant: float) -> float:
        """Return how far the new label is from the cut; for a negative at the cut it is 1."""
        return relevant - self.new if self.kind == "positive" else self.new - relevant + 1


def find_contradictions(
    old: pa.Table, new: pa.Table, positive: float, relevant: float
) -> list[Contradiction]:
    """Find all contradictions, the worst queries first, and in them the worst documents.

    Worst are queries whose best document is not an old positive; then those whose new label is
    farthest from the cut; then those with the most contradictions.

    Args:
        old: the columns of `records.Qrel`.
        new: the same, and perhaps ``ambiguous``. Documents without a new label are not
            contradictions, nor are those of queries that only one side labels.
        positive: the lowest relevant label of the old labels.
        relevant: the lowest relevant label of the new labels.
    """
    old_labels: dict[str, dict[str, float]] = {}
    for query_id, doc_id, value in iter_rows(old, "query_id", "doc_id", "relevance"):
        old_labels.setdefault(query_id, {})[doc_id] = value
    names = ["query_id", "doc_id", "relevance"]
    split = "ambiguous" in new.column_names
    rows: dict[str, list[tuple[str, float, bool]]] = {}
    for query_id, doc_id, value, *ambiguous in iter_rows(new, *names, *["ambiguous"] * split):
        if query_id in old_labels:
            rows.setdefault(query_id, []).append((doc_id, value, any(ambiguous)))
    by_query = [
        [*_of_query(query_id, old_labels[query_id], labels, positive, relevant)]
        for query_id, labels in rows.items()
    ]
    for chunk in by_query:
        chunk.sort(key=lambda row: (not row.best, -row.distance_from_cut(relevant), row.doc_id))

    def badness(rows: list[Contradiction]) -> tuple[bool, float, int, str]:
        steps = max(row.distance_from_cut(relevant) for row in rows)
        return not rows[0].best, -steps, -len(rows), rows[0].query_id

    return [row for group in sorted(filter(None, by_query), key=badness) for row in group]


def _of_query(
    query_id: str,
    labels: dict[str, float],
    rows: list[tuple[str, float, bool]],
    positive: float,
    relevant: float,
) -> Iterator[Contradiction]:
    top = max(value for _, value, _ in rows)
    first = {doc_id for doc_id, value, _ in rows if value == top}
    beaten = not any(labels.get(doc_id, positive - 1) >= positive for doc_id in first)
    for doc_id, value, ambiguous in rows:
        label = labels.get(doc_id, float("nan"))
        was, is_now = label >= positive, value >= relevant
        if was != is_now:
            kind: Kind = "positive" if was else "unjudged" if isnan(label) else "negative"
            best = beaten and doc_id in first and is_now
            yield Contradiction(query_id, doc_id, kind, label, value, best, ambiguous, "")
