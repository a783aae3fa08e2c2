"""Split queries into parts to train, to choose and to test on, by a hash of their texts."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from zelo_ray.records import Pool

SPLITS = ("train", "dev", "test")


def split_of(query: str, shares: Sequence[float]) -> str:
    """Return the split of a query, which depends on nothing but its text.

    So equal queries, whatever their ids, are never in two splits, and more queries move none.

    Args:
        query: its text; case and white space do not matter.
        shares: how many of the queries go to each of ``SPLITS``, in any unit.
    """
    text = " ".join(query.casefold().split())
    digest = hashlib.sha256(text.encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64 * sum(shares)
    ends = accumulate(shares)
    return next((name for name, end in zip(SPLITS, ends, strict=True) if place < end), SPLITS[0])


def shared_documents(split_pools: Mapping[str, Iterable[Pool]]) -> dict[str, list[str]]:
    """Find documents whose text stands in more than one split.

    Returns:
        The splits, by the id of the first document of such a text.
    """
    splits: dict[bytes, dict[str, None]] = defaultdict(dict)
    first_ids: dict[bytes, str] = {}
    for name, pools in split_pools.items():
        for pool in pools:
            for document in pool.documents:
                digest = hashlib.sha256(document.content.encode()).digest()
                splits[digest][name] = None
                first_ids.setdefault(digest, document.id)
    return {first_ids[digest]: [*names] for digest, names in splits.items() if len(names) > 1}
