"""Protocols at equal money: which way of judging agrees most with people, and for how much.

An item is a pair of documents on which people have a word. A protocol's word on it is which of the
two has the higher score in its ``scores.parquet``, whatever it asked; what it gave no scores is not
judged, and neither right nor wrong.
"""

from zelo_ray.trials.apart import told_apart
from zelo_ray.trials.costs import (
    Bill,
    bills_of,
    by_query,
    pools_in,
    requests_of,
    spent,
    spent_on,
)
from zelo_ray.trials.files import RECORD, write_outcome
from zelo_ray.trials.measured import measure, word, words_of
from zelo_ray.trials.outcome import Outcome, Trial
from zelo_ray.trials.people import Item, People, read_people
from zelo_ray.trials.plans import plans, unused_by_all
from zelo_ray.trials.terminal import terminal

__all__ = [
    "RECORD",
    "Bill",
    "Item",
    "Outcome",
    "People",
    "Trial",
    "bills_of",
    "by_query",
    "measure",
    "plans",
    "pools_in",
    "read_people",
    "requests_of",
    "spent",
    "spent_on",
    "terminal",
    "told_apart",
    "unused_by_all",
    "word",
    "words_of",
    "write_outcome",
]
