"""The truth of a bake-off: qrels, with ids encoded once for all runs."""

from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.evaluation.measures.columns import Ints, read_numbers, read_texts
from zelo_ray.evaluation.measures.lists import Floats


class Truth:
    """Qrels whose rows can be found by query and document.

    Attributes:
        query_ids: in the order of their first appearance.
        relevance: float64 [rows], as in the table.
        std_error: float64 [rows], NaN where it is not known.
        query: for each row, the place of its query in ``query_ids``.
    """

    def __init__(self, qrels: pa.Table) -> None:
        """Encode a table with the columns of `records.Qrel`; it may lack standard errors.

        Raises:
            InputError: a column is missing, a pair occurs twice, or a relevance is not finite.
        """
        queries, self.doc_ids = (
            read_texts(qrels, name, InputError) for name in ("query_id", "doc_id")
        )
        self.relevance: Floats = read_numbers(qrels, "relevance", InputError)
        self.std_error: Floats = np.full(len(self.relevance), np.nan)
        if "std_error" in qrels.column_names:
            self.std_error = read_numbers(qrels, "std_error", InputError)
        encoded = queries.dictionary_encode()
        self.query_ids: list[str] = encoded.dictionary.to_pylist()
        self.query: Ints = encoded.indices.to_numpy().astype(np.int64)
        documents = self.doc_ids.dictionary_encode()
        self._documents = documents.dictionary
        keys = self._keys(self.query, documents.indices.to_numpy())
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        twice = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if twice.size:
            raise InputError(f"{self._name(int(self._order[twice[0] + 1]))} is judged twice")
        strange = np.flatnonzero(~np.isfinite(self.relevance))
        if strange.size:
            row = int(strange[0])
            raise InputError(f"{self._name(row)} has the relevance {self.relevance[row]}")

    @cached_property
    def kind(self) -> Literal["scores", "grades", "binary"]:
        """Return the kind: scores have negative fractions, or go below -2, TREC's lowest grade."""
        below = self.relevance[self.relevance < 0]
        if (below != np.floor(below)).any() or (below < -2).any():
            return "scores"
        is_integer = (self.relevance == np.floor(self.relevance)).all()
        return "binary" if is_integer and self.relevance.max(initial=0) <= 1 else "grades"

    def labels(self, query: int) -> dict[str, float]:
        """Return the relevance of the judged documents of a query, for the query's place."""
        rows = np.flatnonzero(self.query == query)
        names = self.doc_ids.take(pa.array(rows)).to_pylist()
        return dict(zip(names, self.relevance[rows].tolist(), strict=True))

    def queries_of(self, query_ids: pa.Array) -> Ints:
        """Return the places of queries in ``query_ids``; -1 where the truth lacks one."""
        places = pc.index_in(query_ids, value_set=pa.array(self.query_ids, query_ids.type))
        return np.asarray(places.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)

    def rows_of(self, query: Ints, doc_codes: Ints, doc_ids: pa.Array) -> Ints:
        """Return the rows in which documents are judged for queries; -1 where they are not.

        Args:
            query: places of queries in ``query_ids``.
            doc_codes: places of documents in ``doc_ids``.
            doc_ids: distinct ids.
        """
        codes = pc.index_in(doc_ids, value_set=self._documents).fill_null(-1)
        documents = codes.to_numpy(zero_copy_only=False)[doc_codes]
        if not len(self._sorted):
            return np.full(len(query), -1, np.int64)
        keys = self._keys(query, documents)
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        judged = (self._sorted[at] == keys) & (documents >= 0)
        return np.where(judged, self._order[at], -1)

    def _keys(self, query: Ints, documents: Ints) -> Ints:
        return query * max(1, len(self._documents)) + documents

    def _name(self, row: int) -> str:
        query_id = self.query_ids[self.query[row]]
        return f"document {self.doc_ids[row].as_py()!r} of query {query_id!r}"
