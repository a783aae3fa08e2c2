"""Compare protocols at equal cost: which agrees most with people, and what it costs.

An item is a pair of documents that people judged. A protocol's verdict on it is which of the two
has the higher score in its ``scores.parquet``, whatever it asked; an item without scores is not
judged, and neither right nor wrong.
"""

from zelo_ray.commands.compare_protocols.costs import (
    Bill,
    bills_by_query,
    bills_of,
    pools_in,
    requests_of,
    spending_of_protocol,
    sum_spending,
)
from zelo_ray.commands.compare_protocols.measured import (
    measure,
    read_verdicts,
    verdict_on,
    write_outcome,
)
from zelo_ray.commands.compare_protocols.outcome import ProtocolsOutcome, ProtocolTrial
from zelo_ray.commands.compare_protocols.people import Item, People, read_people
from zelo_ray.commands.compare_protocols.plans import (
    make_plans,
    protocols_to_compare,
    unused_by_all,
)
from zelo_ray.commands.compare_protocols.significance import sort_by_significance

__all__ = [
    "Bill",
    "Item",
    "People",
    "ProtocolTrial",
    "ProtocolsOutcome",
    "bills_by_query",
    "bills_of",
    "make_plans",
    "measure",
    "pools_in",
    "protocols_to_compare",
    "read_people",
    "read_verdicts",
    "requests_of",
    "sort_by_significance",
    "spending_of_protocol",
    "sum_spending",
    "unused_by_all",
    "verdict_on",
    "write_outcome",
]
