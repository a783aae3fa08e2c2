"""``convert train``: examples to train rerankers and embedders on, from judgments with texts."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import isnan, sqrt
from random import Random
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import scipy

from zelo_ray.command_options import ConvertOptions
from zelo_ray.errors import InputError
from zelo_ray.files.judges import read_judgments
from zelo_ray.files.judgments import has_grades, has_logits, read_absolute
from zelo_ray.files.pools import pool_row, to_line, write_lines
from zelo_ray.files.splits import SPLITS, split_of
from zelo_ray.files.storage import list_directory, open_for_reading, remove_file, write_text
from zelo_ray.files.tables import iter_rows
from zelo_ray.files.wording import counted
from zelo_ray.records import Document, Pool
from zelo_ray.report.command_lines import command_of

_FILES = (".jsonl", ".ndjson", ".json", ".gz", ".zst")
_CARD, _TEST_POOLS = "README.md", "test-pools.jsonl"
_VOTES = ("votes.parquet", "contests.parquet", "verdicts.parquet")
_SPLIT_NAMES = {"train": "train", "dev": "validation", "test": "test"}
"""What Hugging Face calls the splits."""
Example = dict[str, Any]
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TargetScale:
    """A scale of relevance, and in words how it becomes a target from 0 to 1.

    Relevance in logits becomes the chance to beat a document of 0; any other its place between
    ``low`` and ``high``.
    """

    formula: str
    in_logits: bool
    low: float = 0.0
    high: float = 1.0

    def target(self, relevance: float) -> float:
        """Return the target of a relevance, from 0 to 1."""
        if self.in_logits:
            return float(scipy.special.expit(relevance))
        return min(max((relevance - self.low) / (self.high - self.low), 0.0), 1.0)

    def chance(self, gap: float, error: float) -> float:
        """Return the chance that the document whose relevance is greater by ``gap`` is better.

        The gap of two scores in logits is itself the logit of it (Bradley and Terry 1952). Of
        grades the error of the gap counts; where it is unknown (NaN), the sign of the gap decides.
        """
        if self.in_logits:
            return float(scipy.special.expit(gap))
        if isnan(error) or not error:
            return 0.5 if not gap else float(gap > 0)
        return float(scipy.special.ndtr(gap / error))


def _find_scale(place: str, qrels: pa.Table) -> TargetScale:
    """Return the scale of the judgments that were read from a place."""
    if read_absolute(place) is not None:
        return TargetScale("logistic(absolute_score)", in_logits=True)
    if has_grades(place):
        return TargetScale("mean grade / 3", in_logits=False, high=3.0)
    if has_logits(place):
        return TargetScale("logistic(score), whose 0 is each query's mean", in_logits=True)
    extremes = pc.min_max(qrels["relevance"]).as_py()
    low, high = min(0.0, extremes["min"]), extremes["max"]
    high = high if high > low else low + 1.0
    formula = f"(relevance + {-low:g}) / {high - low:g}" if low else f"relevance / {high:g}"
    return TargetScale(formula, in_logits=False, low=low, high=high)


class Battle(NamedTuple):
    """The votes of all judges on a pair: the mean chance that A beats B, and their number."""

    p: float
    votes: int

    @property
    def error(self) -> float:
        """Return the standard error of ``p``, with one win added for each side (Laplace)."""
        p = (self.p * self.votes + 1) / (self.votes + 2)
        return float((p * (1 - p) / self.votes) ** 0.5)


Battles = Mapping[str, Mapping[Pair, Battle]]
"""By query and pair, A first."""


def read_battles(place: str) -> Battles:
    """Read what all judges of a run voted on each pair; nothing where it has no votes.

    Both orders of a pair count for the order that sorts first.
    """
    votes: dict[str, dict[Pair, list[float]]] = defaultdict(lambda: defaultdict(list))
    names = list_directory(place) or ()
    for name in (name for name in _VOTES if name in names):
        table = read_judgments(f"{place.rstrip('/')}/{name}", "panel").table
        rows = iter_rows(table, "query_id", "doc_id_a", "doc_id_b", "preference")
        for query_id, a, b, preference in rows:
            chance = (1 - preference) / 2
            pair, p = ((a, b), chance) if a <= b else ((b, a), 1 - chance)
            votes[query_id][pair].append(p)
    return {
        query_id: {pair: Battle(sum(p) / len(p), len(p)) for pair, p in sorted(pairs.items())}
        for query_id, pairs in votes.items()
    }


@dataclass(frozen=True, slots=True)
class _Query:
    """A query with its judged documents in the order of the pool, and what was said of them.

    An error is NaN where it is unknown.
    """

    pool: Pool
    documents: Mapping[str, Document]
    relevance: Mapping[str, float]
    errors: Mapping[str, float]
    battles: Mapping[Pair, Battle]

    def gap(self, a: str, b: str) -> tuple[float, float]:
        """Return by how much A is more relevant than B, and the standard error of that."""
        error = sqrt(self.errors[a] * self.errors[a] + self.errors[b] * self.errors[b])
        return self.relevance[a] - self.relevance[b], error

    def example(self, ids: Mapping[str, str], texts: Sequence[str], **values: Any) -> Example:
        """Return an example about documents by the names of their ids, with texts so named."""
        named = zip(texts, ids.values(), strict=True)
        contents = {name: self.documents[doc_id].content for name, doc_id in named}
        query = {"query": self.pool.query, **contents}
        return {"query_id": self.pool.query_id, **ids, **query, **values}


class _Maker:
    """Makes the examples of one query; each form is a method."""

    def __init__(self, options: ConvertOptions, qrels: pa.Table, battles: Battles) -> None:
        errors = qrels["std_error"].to_numpy()
        self.gap_in_errors = bool(np.isfinite(errors).any() and (errors > 0).any())
        usual = 2.0 if self.gap_in_errors else 1.0
        self.min_gap = usual if options.min_gap is None else options.min_gap
        self.options, self.has_battles = options, bool(battles)
        self.scale = _find_scale(options.source, qrels)
        self.spread = pc.stddev(qrels["relevance"]).as_py() or 0.0

    def rows(self, query: _Query) -> Iterator[Example]:
        """Yield each judged document with its relevance, as it was judged."""
        for doc_id, error in ((doc_id, query.errors[doc_id]) for doc_id in query.documents):
            relevance = query.relevance[doc_id]
            yield query.example(
                {"doc_id": doc_id},
                ["document"],
                score=relevance,
                target=self.scale.target(relevance),
                std_error=None if isnan(error) else error,
                weight=self._weight(error),
            )

    def pairs(self, query: _Query) -> Iterator[Example]:
        """Yield pairs of documents with the chance ``p`` that A is the better one.

        They are the battles of the judges; or, where a run has none, all pairs, by relevance.
        """
        pairs = list(combinations(query.documents, 2))
        if self.has_battles:
            pairs = [pair for pair in query.battles if {*pair} <= query.documents.keys()]
        for a, b in self._draw(pairs, query):
            (gap, error), battle = query.gap(a, b), query.battles.get((a, b))
            yield query.example(
                {"doc_id_a": a, "doc_id_b": b},
                ["document_a", "document_b"],
                p=battle.p if battle else self.scale.chance(gap, error),
                votes=battle.votes if battle else 0,
                margin=gap,
                weight=self._weight(battle.error, 0.5) if battle else self._weight(error),
            )

    def lists(self, query: _Query) -> Iterator[Example]:
        """Yield the query with all of its judged documents and their targets from 0 to 1."""
        if query.documents:
            yield {
                "query_id": query.pool.query_id,
                "doc_ids": [*query.documents],
                "query": query.pool.query,
                "documents": [document.content for document in query.documents.values()],
                "labels": [self.scale.target(query.relevance[doc]) for doc in query.documents],
                "weights": [self._weight(query.errors[doc]) for doc in query.documents],
                "scale": self.scale.formula,
            }

    def triplets(self, query: _Query) -> Iterator[Example]:
        """Yield a better and a worse document wherever the gap between them is large enough."""
        sure = [pair for pair in permutations(query.documents, 2) if self._is_sure(query, *pair)]
        for better, worse in self._draw(sure, query):
            gap, error = query.gap(better, worse)
            yield query.example(
                {"doc_id_positive": better, "doc_id_negative": worse},
                ["positive", "negative"],
                margin=gap,
                gap_in_errors=None if isnan(error) or not error else gap / error,
                weight=self._weight(error),
            )

    def _is_sure(self, query: _Query, better: str, worse: str) -> bool:
        gap, error = query.gap(better, worse)
        if not self.gap_in_errors or gap <= 0:
            return gap >= self.min_gap
        return bool(error) and gap / error >= self.min_gap  # not where the error is NaN

    def _weight(self, error: float, spread: float | None = None) -> float:
        """Return the share of a number's variance that is no error; 1 where that is unknown.

        ``spread`` is the standard deviation of such numbers; by default that of relevance.
        """
        unit = (self.spread if spread is None else spread) ** 2
        return 1.0 if isnan(error) or not unit else unit / (unit + error * error)

    def _draw(self, pairs: Sequence[Pair], query: _Query) -> Sequence[Pair]:
        """Return as many of one query's pairs as are wanted, drawn by chance, in their order."""
        wanted = self.options.per_query or len(pairs)
        if len(pairs) <= wanted:
            return pairs
        rng = Random(f"{self.options.seed}:{query.pool.query_id}")
        return [pairs[i] for i in sorted(rng.sample(range(len(pairs)), wanted))]

    def write(self, url: str, queries: Sequence[_Query]) -> tuple[int, int]:
        """Write the examples of some queries; return how many of these have any, and how many."""
        make, having = getattr(self, self.options.form), set[str]()

        def lines() -> Iterator[bytes]:
            for query in queries:
                for example in make(query):
                    having.add(query.pool.query_id)
                    yield orjson.dumps(example)

        examples = write_lines(url, lines())
        return len(having), examples


def write_training_data(
    options: ConvertOptions, pools: Sequence[Pool], qrels: pa.Table
) -> tuple[int, list[str]]:
    """Write examples in the form that the options ask for; return their number, and lines on it.

    A file holds all examples. A directory holds a file for each split, a card, and the pools of
    the test split, on which a bake-off measures what was learned.
    """
    battles, root = read_battles(options.source), options.out.rstrip("/")
    maker, queries = _Maker(options, qrels, battles), _label(pools, qrels, battles)
    is_file = root.endswith(_FILES)
    earlier = set[str]() if is_file else {*(list_directory(root) or ())}
    if others := sorted(earlier - {_CARD, _TEST_POOLS, *(f"{name}.jsonl" for name in SPLITS)}):
        raise InputError(
            f"{root}: holds other files, such as {others[0]}; name a folder of its own"
        )
    by_split: dict[str, list[_Query]] = {}
    for query in queries:
        name = "" if is_file else split_of(query.pool.query, options.splits)
        by_split.setdefault(name, []).append(query)
    counts = dict[str, tuple[int, int]]()
    for name in (name for name in ("", *SPLITS) if name in by_split):
        counts[name] = maker.write(f"{root}/{name}.jsonl" if name else root, by_split[name])
    if not (examples := sum(made for _, made in counts.values())):
        why = "a query needs two judged documents with a text (one for rows and lists)"
        if options.form == "triplets":
            unit = "standard errors" if maker.gap_in_errors else "points of relevance"
            why = f"no two documents of a query are {maker.min_gap:g} {unit} apart: lower --min-gap"
        raise InputError(f"{options.source}: gives no example: {why}")
    if is_file:
        return examples, [f"{counted(examples, 'example')}: {root}"]
    earlier |= {f"{name}.jsonl" for name in counts}
    counts = {name: count for name, count in counts.items() if count[1]}  # no library reads others
    written = {_CARD, *(f"{name}.jsonl" for name in counts)}
    if test := by_split.get("test"):
        write_lines(f"{root}/{_TEST_POOLS}", (to_line(pool_row(query.pool)) for query in test))
        written.add(_TEST_POOLS)
    _write_card(options, maker.scale.formula, counts)
    for name in earlier - written:
        remove_file(f"{root}/{name}")
    numbers = ", ".join(f"{name} {made:,}" for name, (_, made) in counts.items())
    return examples, [f"{counted(examples, 'example')} ({numbers}) and a card: {root}"]


def _label(pools: Sequence[Pool], qrels: pa.Table, battles: Battles) -> list[_Query]:
    """Join pools with what is known of their documents; leave out those of unknown queries."""
    relevance: dict[str, dict[str, float]] = defaultdict(dict)
    errors: dict[str, dict[str, float]] = defaultdict(dict)
    for query_id, doc_id, value, error in iter_rows(qrels, *qrels.column_names):
        relevance[query_id][doc_id], errors[query_id][doc_id] = value, error
    queries = list[_Query]()
    for pool in pools:
        if relevances := relevance.get(pool.query_id):
            judged = {
                document.id: document for document in pool.documents if document.id in relevances
            }
            said = (relevances, errors[pool.query_id], battles.get(pool.query_id, {}))
            queries.append(_Query(pool, judged, *said))
    return queries


def _write_card(
    options: ConvertOptions, formula: str, counts: Mapping[str, tuple[int, int]]
) -> None:
    """Write ``README.md``, whose head tells `datasets.load_dataset` which file is which split.

    ``formula`` says how a relevance becomes a target; ``counts`` are queries and examples.
    """
    root, digest = options.out.rstrip("/"), hashlib.sha256()
    for name in counts:
        with open_for_reading(f"{root}/{name}.jsonl") as file:
            digest.update(file.read())
    # The cache of the library goes by this name, and not by what the files hold.
    lines = ["---", "configs:", f"- config_name: {options.form}-{digest.hexdigest()[:12]}"]
    lines.append("  data_files:")
    for name in counts:
        lines += [f"  - split: {_SPLIT_NAMES[name]}", f"    path: {name}.jsonl"]
    lines += ["---", "", f"# Training data: {options.form}", ""]
    lines += [f"Made by zelo-ray of `{options.source}`. The scale from 0 to 1: {formula}.", ""]
    lines += ["| split | queries | examples |", "|---|---|---|"]
    lines += [f"| {name} | {queries:,} | {made:,} |" for name, (queries, made) in counts.items()]
    if "test" in counts:
        measured = ("--truth", options.source, "--pools", f"{root}/{_TEST_POOLS}", "--rerankers")
        command = command_of("bakeoff", *measured, "BEFORE", "AFTER", "--out", "contest")
        lines += ["", f"To measure on the test split: `{command}`"]
    write_text(root, _CARD, "\n".join(lines) + "\n")
