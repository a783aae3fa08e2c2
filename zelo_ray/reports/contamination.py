"""Warn of judges that may have read the collection that they judge, with its labels."""

from collections.abc import Iterator, Sequence
from itertools import islice

from zelo_ray.formats.pools import LineLimits, parse_line
from zelo_ray.formats.public_collections import CollectionRecogniser
from zelo_ray.formats.wording import counted
from zelo_ray.reports.source import Source
from zelo_ray.reports.warning import ResultWarning
from zelo_ray.reports.warning_codes import WarningCode

POOLS = 100
"""How many pools are looked at: the first ones."""
_UNREAD = ("offline", "simulated")
"""Providers whose judges have read nothing."""


def warn_of_public_data(
    source: Source, file: str, judges: Sequence[str], section: str
) -> Iterator[ResultWarning]:
    """Yield a warning for each public collection that the input seems to be of.

    Args:
        source: of the results.
        file: the lines of pools that were judged.
        judges: names of all judges; without a model among them nothing is said.
        section: the page's section.
    """
    models = [name for name in judges if ":" in name and name.partition(":")[0] not in _UNREAD]
    if not (models and source.has(file)):
        return
    recogniser = CollectionRecogniser()
    for line in islice(source.lines(file), POOLS):
        if pool := parse_line(file, 0, line, LineLimits()).pool:
            recogniser.add(pool.query, [document.id for document in pool.documents])
    for collection in recogniser.collections:
        matched = f"{collection.matched:,} of {collection.total:,}"
        evidence = (
            f"{matched} queries have its words"
            if collection.by == "queries"
            else f"{matched} documents have ids as there"
        )
        yield ResultWarning(
            WarningCode.COLLECTION_IS_PUBLIC,
            {
                "judges": models[0] if len(models) == 1 else counted(len(models), "model"),
                "collection": collection.name,
                "evidence": evidence,
                "section": section,
            },
        )
