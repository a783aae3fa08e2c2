"""Compare protocols at equal cost: which agrees most with people, and what it costs.

An item is a pair of documents that people judged. A protocol's verdict on it is which of the two
has the higher score in its ``scores.parquet``, whatever it asked; an item without scores is not
judged, and neither right nor wrong.
"""

from zelo_ray.commands.compare_protocols.costs import (
    Bill,
    bills_of,
    by_query,
    pools_in,
    requests_of,
    spent,
    spent_on,
)
from zelo_ray.commands.compare_protocols.measured import measure, word, words_of, write_outcome
from zelo_ray.commands.compare_protocols.outcome import ProtocolsOutcome, ProtocolTrial
from zelo_ray.commands.compare_protocols.people import Item, People, read_people
from zelo_ray.commands.compare_protocols.plans import compared, plans, unused_by_all
from zelo_ray.commands.compare_protocols.significance import sort_by_significance

__all__ = [
    "Bill",
    "Item",
    "People",
    "ProtocolTrial",
    "ProtocolsOutcome",
    "bills_of",
    "by_query",
    "compared",
    "measure",
    "plans",
    "pools_in",
    "read_people",
    "requests_of",
    "sort_by_significance",
    "spent",
    "spent_on",
    "unused_by_all",
    "word",
    "words_of",
    "write_outcome",
]
