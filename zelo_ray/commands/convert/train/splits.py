"""Find documents that stand in several splits."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping

from zelo_ray.records import Pool


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
