"""MTEB's reranking rows of old: ``{"query": text or texts, "positive": [...], "negative": [...]}``.

Their documents have neither ids nor grades. What MTEB has used since its version 2 is a directory:
see `zelo_ray.formats.interchange.beir`.
"""

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange.pooling import make_qrels
from zelo_ray.formats.interchange.query_fields import DESCRIBED, select_fields
from zelo_ray.formats.interchange.texts import (
    FilledPools,
    describe_left_out,
    has_visible_text,
)
from zelo_ray.formats.probe import FileProbe
from zelo_ray.records import Document, Pool


def read_rows(
    source: FileProbe, show: Sequence[str] = (), prefix: str = ""
) -> tuple[FilledPools, pa.Table]:
    """Read the rows of a file as pools, and their truth: 1 or 0.

    A row's query is called ``query1`` and so on, its documents ``query1-00001``; their order is
    drawn by chance, the same each time, so that neither place nor id tells which are the positive
    ones. Several wordings of a query are lines of one text. Blank documents are left out, and so
    are rows with a blank query, and both are noted.

    Args:
        source: the file, probed.
        show: further columns to keep of the query; its description and narrative are kept anyway.
        prefix: what ids begin with, to tell several files apart.

    Raises:
        InputError: a row is not of this kind.
    """
    pools, judged, odd, blank = [], [], [], []
    for number, (place, row) in enumerate(source.rows(), 1):
        query_id = f"{prefix}query{number}"
        query = "\n".join(_texts(place, row, "query"))
        graded = [(text, 1.0) for text in _texts(place, row, "positive")]
        graded += [(text, 0.0) for text in _texts(place, row, "negative")]
        if not has_visible_text(query):
            odd.append(query_id)
            continue
        pairs = [pair for pair in graded if has_visible_text(pair[0])]
        blank += [query_id] * (len(graded) - len(pairs))
        Random(f"0:{query_id}").shuffle(pairs)
        documents = [Document(f"{query_id}-{i:05}", text) for i, (text, _) in enumerate(pairs, 1)]
        about = select_fields(row, (*DESCRIBED, *show))
        pools.append(Pool(query_id, query, tuple(documents), about=about))
        judged += [
            (query_id, document.id, relevance, math.nan)
            for document, (_, relevance) in zip(documents, pairs, strict=True)
        ]
    notes = [
        describe_left_out("rows with an empty query", odd),
        describe_left_out("empty documents of rows", blank),
    ]
    return FilledPools(pools, [line for line in notes if line]), make_qrels(source.place, judged)


def _texts(place: str, row: dict[str, Any], name: str) -> list[str]:
    value = row.get(name)
    texts = [value] if isinstance(value, str) and name == "query" else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{place}: {name} is not a list of texts")
    return texts
