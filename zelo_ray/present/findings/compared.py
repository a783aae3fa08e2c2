"""What stands out where labels, or ways of judging, are compared."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.formats.wording import counted
from zelo_ray.present.findings.finding import Finding

CONTRADICTED = 0.1
"""Above this share of its queries, two sets of labels measure different things."""
MOST = 0.9
"""Protocols that judged fewer of the items stand below the others, as these may be easier ones."""


def of_labels(
    counts: Mapping[str, int],
    leaders: tuple[str, str] | None,
    missing: Mapping[str, int],
    *,
    cut: bool = True,
) -> Iterator[Finding]:
    """What new labels change that a decision may hang on.

    Args:
        counts: of ``compare.json``.
        leaders: the first run by the old labels and by the new ones; None without runs.
        missing: by run, the queries that it did not rank.
        cut: whether it is known from which label on a document is relevant. Scores in logits are
            on no scale that says so.
    """
    turned = counts.get("turned", 0)
    if turned:
        yield Finding(
            76,
            f"{counted(turned, 'pair of runs is', 'pairs of runs are')} significantly different "
            "under both labels, and the other way round",
            "which labels are right decides which run is better",
            "Let people label the queries that the last section names: zelo-ray label",
            "siblings",
        )
    if leaders and leaders[0] != leaders[1]:
        yield Finding(
            56,
            f"{leaders[0]} leads by the old labels, and {leaders[1]} by the new ones",
            "the choice of a run depends on the labels",
            "See whether the two are significantly different before you choose",
            "leaderboards",
        )
    known = counts.get("queries", 0)
    against = counts.get("queries_contradicted", 0)
    if cut and known and against > CONTRADICTED * known:
        yield Finding(
            54,
            f"The new labels contradict the old ones in {against:,} of "
            f"{counted(known, 'query', 'queries')}",
            "one of the two is wrong about documents that decide the measure",
            "Read the first of them in the section, or let people judge them: zelo-ray label",
            "contradictions",
        )
    for run, lost in missing.items():
        yield Finding(
            60,
            f"{run} did not rank {counted(lost, 'query', 'queries')}",
            "they count as 0 in its means",
            "Run it on these queries as well",
            "leaderboards",
        )


def of_protocols(
    rows: Sequence[Mapping[str, Any]], alike: Sequence[str], known: int
) -> Iterator[Finding]:
    """What a comparison of protocols cannot tell.

    Args:
        rows: a row a protocol, the closest to people first: protocol, judged, items.
        alike: those that are not told apart from the first.
        known: how many were compared with it.
    """
    if known and len(alike) == known:
        yield Finding(
            70,
            f"{rows[0]['protocol']} stands first, but agrees with people not "
            "significantly more than any other",
            "agreement is no reason to pay for a dearer one",
            "Take the cheapest, or let people judge more pairs",
            "protocols",
        )
    for row in rows:
        if row["judged"] < MOST * row["items"]:
            yield Finding(
                62 + 1 - row["judged"] / max(row["items"], 1),
                f"{row['protocol']} judged {row['judged']:,} of {counted(row['items'], 'item')}",
                "its figures may be of easier ones, and it stands below the others",
                "Run the same command again, with a larger --max-usd if that was its end",
                "protocols",
            )
