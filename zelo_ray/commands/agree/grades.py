"""Measure biases in grades: severity, preference for length, and inconsistent repeats."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from zelo_ray.command_options import AgreeOptions
from zelo_ray.commands.agree.biases import Bias, make_bias
from zelo_ray.commands.agree.measured_tables import MeasuredTables
from zelo_ray.evaluation.agreement.counts import Floats
from zelo_ray.evaluation.agreement.estimates import estimate, estimate_share
from zelo_ray.evaluation.agreement.length_bias import length_slope, length_terms
from zelo_ray.evaluation.agreement.repeats import measure_repeats
from zelo_ray.files.collections import has_part, read_texts
from zelo_ray.files.inputs import holds_texts, read_pools
from zelo_ray.files.judges import HUMAN, OTHERS, AllJudgments
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.rows import open_source
from zelo_ray.files.storage import find_shards
from zelo_ray.files.tables import iter_rows, table_of
from zelo_ray.files.wording import counted
from zelo_ray.records import Document

_Item = tuple[str, str]


def measure_grading(verdicts: AllJudgments, options: AgreeOptions) -> MeasuredTables:
    """Measure severity, length bias and self-consistency of every judge that graded."""
    graded = _GradeMatrix(verdicts, options)
    biases = [bias for judge in verdicts.judges for bias in graded.biases_of(judge)]
    missing, notes = [*graded.skipped_lines], list[str]()
    if biases and graded.has_no_lengths:
        missing.insert(0, "--pools have no text of any graded document")
    elif biases and graded.without_length:
        documents = counted(graded.without_length, "document")
        notes.append(f"length: {documents} left out, as --pools have no text of them")
    return MeasuredTables({"grading": table_of(biases, Bias)}, missing, notes)


class _GradeMatrix:
    """Grades by judge and document, with the reference grades of people and of the panel."""

    def __init__(self, verdicts: AllJudgments, options: AgreeOptions) -> None:
        self._options = options
        rows = pa.concat_tables([verdicts.human, verdicts.grades])
        pairs = [*iter_rows(rows, "query_id", "doc_id")]
        self._items: dict[_Item, int] = {}
        for pair in pairs:
            self._items.setdefault(pair, len(self._items))
        places: dict[str, int] = {}
        for query_id, _ in self._items:
            places.setdefault(query_id, len(places))
        self._queries = len(places)
        self._query = np.array([places[query_id] for query_id, _ in self._items], np.int64)
        item = np.array([self._items[pair] for pair in pairs], np.int64)
        grade = rows["grade"].to_numpy().astype(np.float64)
        judge = np.array(rows["judge"].to_pylist(), dtype=object)
        self._rows = {name: (item[judge == name], grade[judge == name]) for name in set(judge)}
        # the mean of several grades of a judge for a document; NaN where there is none
        self._means = {name: self._mean(*arrays) for name, arrays in self._rows.items()}
        self._people = len(verdicts.human) > 0
        self._weights = np.ones(len(self._items))  # of what people graded
        if verdicts.weights:
            self._weights = np.array([verdicts.weights.get(item, 0.0) for item in self._items])
        self._panel = verdicts.panel
        judges = np.array([self._means[name] for name in self._panel])
        judges = judges.reshape(len(self._panel), len(self._items))  # also for an empty panel
        self._sums, self._counts = np.nansum(judges, axis=0), (~np.isnan(judges)).sum(axis=0)
        self.skipped_lines: list[str] = []
        self._lengths = self._known_lengths(options.pools)
        self.without_length = int(np.isnan(self._lengths).sum()) if options.pools else 0
        self.has_no_lengths = bool(options.pools) and self.without_length == len(self._items)

    def biases_of(self, judge: str) -> Iterator[Bias]:
        """Yield all biases of a judge that can be estimated."""
        item, grade = self._rows[judge]
        counts = measure_repeats(self._query[item], item, grade, self._queries)
        if counts[:, 0].any():
            items = int(counts[:, 0].sum())
            for name, part in (("repeats-equal", counts[:, 1]), ("repeats-apart", counts[:, 2])):
                yield make_bias(
                    judge,
                    name,
                    "",
                    estimate_share(part, counts[:, 0], **self._options.interval_settings),
                    items,
                )
        means = self._means[judge]
        if self._people:
            yield from self._compare_with(judge, HUMAN, means, self._means[HUMAN], leveled=True)
        counted_in = ~np.isnan(means) & (judge in self._panel)
        others = self._counts - counted_in
        sums = self._sums - np.where(counted_in, means, 0.0)
        mean = np.divide(sums, others, out=np.full_like(sums, np.nan), where=others > 0)
        yield from self._compare_with(judge, OTHERS, means, mean, leveled=False)

    def _compare_with(
        self, judge: str, whom: str, grades_a: Floats, grades_b: Floats, *, leveled: bool
    ) -> Iterator[Bias]:
        apart = grades_a - grades_b
        items = np.flatnonzero(~np.isnan(apart))
        if not items.size:
            return
        weights = self._weights[items] if whom == HUMAN else np.ones(len(items))
        sums = np.bincount(self._query[items], weights * apart[items], self._queries)
        counts = np.bincount(self._query[items], weights, self._queries)
        yield make_bias(
            judge,
            "leniency",
            whom,
            estimate_share(sums, counts, **self._options.interval_settings),
            len(items),
        )
        items = items[~np.isnan(self._lengths[items])]
        if items.size:
            level = grades_b[items].astype(np.int64) if leveled else None
            query, length = self._query[items], self._lengths[items]
            terms = length_terms(query, length, apart[items], self._queries, level)
            mask = np.bincount(query, minlength=self._queries) > 0
            slope = estimate(terms, mask, length_slope, **self._options.interval_settings)
            yield make_bias(judge, "length", whom, slope, len(items))

    def _mean(self, item: np.ndarray, grade: Floats) -> Floats:
        sums = np.bincount(item, grade, len(self._items))
        counts = np.bincount(item, minlength=len(self._items))
        return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)

    def _known_lengths(self, places: Sequence[str]) -> Floats:
        lengths, bad = _read_lengths(places, [*self._items])
        if bad:
            lines = counted(len(bad), "invalid line")
            self.skipped_lines = [f"--pools: skipped {lines}, the first: {bad[0]}"]
        return lengths


def _read_lengths(places: Sequence[str], items: Sequence[_Item]) -> tuple[Floats, list[str]]:
    """Return the lengths of documents in characters, NaN where no place has a text.

    Of places that have a document the first counts. Invalid input lines are skipped; where they are
    and why is returned, too.
    """
    characters, bad = dict[_Item, int](), list[str]()
    wanted = {doc_id for _, doc_id in items}
    for query_id, document in chain.from_iterable(_read_texts(url, wanted, bad) for url in places):
        characters.setdefault((query_id, document.id), len(document.content))
    lengths = (characters.get(item) or characters.get(("", item[1])) for item in items)
    return np.array([length or np.nan for length in lengths], dtype=np.float64), bad


def _read_texts(url: str, wanted: set[str], bad: list[str]) -> Iterator[tuple[str, Document]]:
    """Yield documents with the query id of their pool, or with "" if from a corpus."""
    source = open_source(url)
    is_lines = source.kind == "pools" and not source.unit
    if is_lines or (source.kind == "folder" and not has_part(source, "corpus")):
        for file in find_shards([url]):
            for line in read_lines(file, LineLimits()):
                if line.pool is None:
                    bad.append(f"{line.file}:{line.number}: {line.reason}")
                    continue
                yield from ((line.pool.query_id, document) for document in line.pool.documents)
    elif holds_texts(source):
        for pool in read_pools(url):
            yield from ((pool.query_id, document) for document in pool.documents)
    else:
        yield from (("", document) for document in read_texts(url, "corpus", wanted))
