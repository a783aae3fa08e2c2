"""Recognise public test collections by the texts of their queries and the ids of their documents.

``public_queries.txt`` has a line a collection: its name, a tab, and short hashes of the texts of
its queries, from which no text can be read. Ids that are plain numbers recognise nothing.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

FEWEST_QUERIES, FEWEST_DOCUMENTS = 3, 5
"""Of fewer, equal texts or ids may be chance."""
QUERY_SHARE, DOCUMENT_SHARE = 0.1, 0.5
"""Of a smaller share, the input is about something else."""
_HASH = 10  # hexadecimal digits: of 400 hashes, one text in 2.7 billion meets one by chance

DOCUMENT_IDS: Mapping[str, str] = {
    "MS MARCO": r"msmarco_(passage|doc)_\d{2}_\d+|msmarco_v2\.1_doc_\S+",
    "ClueWeb": r"clueweb(09|12)-\w+-\w+-\w+|clueweb22-\w+-\w+-\w+",
    "GOV2": r"GX\d{3}-\d{2}-\d{5,}",
    "NFCorpus": r"MED-\d+",
    "TREC Robust": r"(FBIS[34]-\d+|FT\d{3}-\d+|FR94\d{4}-\d-\d+|LA\d{6}-\d{4})",
    "WT10g": r"WTX\d{3}-B\d{2}-\d+",
    "TREC newswire": r"(AP|WSJ|SJMN)\d{2,6}-\d{3,}",
}
"""By collection, the form of its documents' ids; a copy of a probe may have more after ``~``."""
_PATTERNS = {
    name: re.compile(rf"(?:{pattern})(?:~.*)?", re.DOTALL) for name, pattern in DOCUMENT_IDS.items()
}


@dataclass(frozen=True, slots=True)
class PublicCollection:
    """A public collection that an input seems to be of.

    ``matched`` of ``total`` queries have a text of it, or documents an id of its form.
    """

    name: str
    by: Literal["queries", "documents"]
    matched: int
    total: int


class CollectionRecogniser:
    """Counts queries and documents that look like those of public collections."""

    def __init__(self) -> None:
        self._queries, self._documents = Counter[str](), Counter[str]()
        self._query_total = self._document_total = 0

    def add(self, query: str, doc_ids: Iterable[str]) -> None:
        """Count a query and its documents."""
        self._query_total += 1
        self._queries.update(_collections_by_hash().get(hash_query(query), ()))
        for doc_id in doc_ids:
            self._document_total += 1
            self._documents.update(
                name for name, pattern in _PATTERNS.items() if pattern.fullmatch(doc_id)
            )

    @property
    def collections(self) -> list[PublicCollection]:
        """Return the collections that were recognised, by queries first."""
        by_text = [
            PublicCollection(name, "queries", count, self._query_total)
            for name, count in self._queries.most_common()
            if count >= max(FEWEST_QUERIES, QUERY_SHARE * self._query_total)
        ]
        by_id = [
            PublicCollection(name, "documents", count, self._document_total)
            for name, count in self._documents.most_common()
            if count >= max(FEWEST_DOCUMENTS, DOCUMENT_SHARE * self._document_total)
        ]
        return by_text + by_id


def hash_query(text: str) -> str:
    """Return the short hash of a query's words, whatever its case, spaces and punctuation."""
    words = " ".join(re.findall(r"\w+", text.casefold()))
    return hashlib.sha256(words.encode("utf-8", "backslashreplace")).hexdigest()[:_HASH]


@cache
def _collections_by_hash() -> dict[str, tuple[str, ...]]:
    """Return the names of collections by the hash of each of their queries."""
    text = files(__package__).joinpath("public_queries.txt").read_text(encoding="utf-8")
    by_hash = dict[str, tuple[str, ...]]()
    for name, _, hashes in (line.partition("\t") for line in text.splitlines()):
        for digest in hashes.split():
            by_hash[digest] = (*by_hash.get(digest, ()), name)
    return by_hash
