"""Split queries into parts by a hash of their texts.

`convert train` makes train, dev and test of them, and `compare` two halves. Both use the same hash:
the end of its range, which is the test split of the one, always lies in the second half.
"""

import hashlib
from collections.abc import Sequence
from itertools import accumulate

SPLITS = ("train", "dev", "test")


def split_of(query: str, shares: Sequence[float]) -> str:
    """Return the split of a query by its text alone, without capitals and white space."""
    text = " ".join(query.casefold().split())
    digest = hashlib.sha256(text.encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64 * sum(shares)
    ends = accumulate(shares)
    return next((name for name, end in zip(SPLITS, ends, strict=True) if place < end), SPLITS[0])
