"""Warn of what new labels change that a decision may hang on."""

from collections.abc import Iterator, Mapping

from zelo_ray.commands.compare_labels.report.results import Relabelling
from zelo_ray.formats.wording import counted
from zelo_ray.report.warning import RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.report.warning_codes import Value, WarningCode

CONTRADICTED = 0.1
"""Above this share of its queries, two sets of labels measure different things."""


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


def rank_of_relabelling(relabelling: Relabelling) -> RankedWarnings:
    """Rank the warnings of ``compare-labels``."""
    rows, record = relabelling.standings, relabelling.record
    leaders = None
    if rows:
        leaders = min(rows, key=lambda row: row["old_rank"])["run"], rows[0]["run"]
    missing, uncut = record.get("missing") or {}, record.get("uncut")
    return rank_warnings(
        warn_of_labels(record["counts"], leaders, missing, cut=not uncut),
        "the order of the runs, their leader, and contradicted queries were looked at",
    )
