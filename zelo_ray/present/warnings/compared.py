"""Warn of what a decision may hang on where labels, or ways of judging, are compared."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.formats.wording import counted
from zelo_ray.present.warnings.sentences import Value, WarningCode
from zelo_ray.present.warnings.warning import ResultWarning

CONTRADICTED = 0.1
"""Above this share of its queries, two sets of labels measure different things."""
MOST = 0.9
"""Protocols that judged fewer of the items stand below the others, as these may be easier ones."""


def warn_of_labels(
    counts: Mapping[str, int],
    leaders: tuple[str, str] | None,
    missing: Mapping[str, int],
    *,
    cut: bool = True,
) -> Iterator[ResultWarning]:
    """Yield a warning for what new labels change that a decision may hang on.

    Args:
        counts: of ``compare.json``.
        leaders: the first run by the old labels and by the new ones; None without runs.
        missing: by run, the queries that it did not rank.
        cut: whether it is known from which label on a document is relevant. Scores in logits are
            on no scale that says so.
    """
    if turned := counts.get("turned", 0):
        pairs = counted(turned, "pair of runs is", "pairs of runs are")
        yield ResultWarning(WarningCode.PAIRS_TURNED, {"pairs": pairs})
    if leaders and leaders[0] != leaders[1]:
        yield ResultWarning(WarningCode.LEADER_CHANGED, {"old": leaders[0], "new": leaders[1]})
    queries, contradicted = counts.get("queries", 0), counts.get("queries_contradicted", 0)
    if cut and queries and contradicted > CONTRADICTED * queries:
        of_queries = counted(queries, "query", "queries")
        values: dict[str, Value] = {"contradicted": contradicted, "queries": of_queries}
        yield ResultWarning(WarningCode.LABELS_CONTRADICT, values)
    for run, count in missing.items():
        lacking = counted(count, "query", "queries")
        yield ResultWarning(WarningCode.RUN_LACKS_QUERIES, {"run": run, "queries": lacking})


def warn_of_protocols(
    rows: Sequence[Mapping[str, Any]], alike: Sequence[str], others: int
) -> Iterator[ResultWarning]:
    """Yield a warning for what a comparison of protocols cannot tell.

    Args:
        rows: a row a protocol, the closest to people first: protocol, judged, items.
        alike: those that are not told apart from the first.
        others: how many were compared with it.
    """
    if others and len(alike) == others:
        yield ResultWarning(WarningCode.PROTOCOLS_ALIKE, {"protocol": rows[0]["protocol"]})
    for row in rows:
        if row["judged"] < MOST * row["items"]:
            values = {name: row[name] for name in ("protocol", "judged")}
            values["items"] = counted(row["items"], "item")
            share = 1 - row["judged"] / max(row["items"], 1)
            yield ResultWarning(WarningCode.FEW_ITEMS_JUDGED, values, share)
