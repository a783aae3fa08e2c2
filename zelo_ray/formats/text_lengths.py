"""Read how long documents are, from pools or a corpus."""

from collections.abc import Iterator, Sequence
from itertools import chain
from math import nan

import numpy as np
from numpy.typing import NDArray

from zelo_ray.files.storage import find_shards
from zelo_ray.formats.input import read_pools
from zelo_ray.formats.interchange.texts import read_texts
from zelo_ray.formats.judgments.qrels import has_pools
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.probe import probe
from zelo_ray.records import Document

Item = tuple[str, str]
"""The ids of a query and of a document."""


def read_lengths(
    places: Sequence[str], items: Sequence[Item]
) -> tuple[NDArray[np.float64], list[str]]:
    """Return the lengths of documents in characters, and where invalid lines are.

    Args:
        places: input lines, results of annotate, BEIR and MTEB folders, or corpora by document id;
            the first that has a document counts.
        items: the documents.

    Returns:
        Lengths, of shape [items], NaN where no place has the text or it is empty; and the place and
        error of each invalid line, which is skipped.

    Raises:
        InputError: a place cannot be read.
    """
    wanted = {doc_id for _, doc_id in items}
    characters: dict[Item, int] = {}
    bad: list[str] = []
    for query_id, document in chain.from_iterable(_read_texts(url, wanted, bad) for url in places):
        characters.setdefault((query_id, document.id), len(document.content))
    lengths = (characters.get(item) or characters.get(("", item[1])) for item in items)
    return np.array([length or nan for length in lengths], dtype=np.float64), bad


def _read_texts(url: str, wanted: set[str], bad: list[str]) -> Iterator[tuple[str, Document]]:
    """Yield documents with the query id of their pool, or with "" if from a corpus."""
    source = probe(url)
    has_corpus = any(name.split(".")[0] == "corpus" for name in source.names)
    is_lines = source.kind == "broken" or (source.kind == "pools" and source.form == "lines")
    if is_lines or (source.kind == "folder" and not has_corpus):
        yield from _read_pool_texts(url, bad)
    elif has_pools(source) or source.kind in ("wide", "pools"):
        for pool in read_pools(url).pools:
            yield from ((pool.query_id, document) for document in pool.documents)
    else:
        yield from (("", document) for document in read_texts(url, "corpus", wanted))


def _read_pool_texts(url: str, bad: list[str]) -> Iterator[tuple[str, Document]]:
    """Yield the documents of input lines; add place and error of invalid lines to ``bad``."""
    for line in chain.from_iterable(read_lines(file, LineLimits()) for file in find_shards([url])):
        if line.pool is None:
            bad.append(f"{line.file}:{line.number}: {line.reason}")
            continue
        yield from ((line.pool.query_id, document) for document in line.pool.documents)
