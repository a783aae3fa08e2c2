"""``convert train``: examples to train rerankers and embedders on, from judgments with texts."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import isnan, sqrt
from random import Random
from typing import Any, NamedTuple, TypeVar

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
T = TypeVar("T")


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
class LabelledQuery:
    """A query with its judged documents, in the order of the pool, and what was said of them.

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

    def texts(self, **documents: str) -> Example:
        """Return the texts of the query and of some documents, by the names of their fields."""
        texts = {field: self.documents[doc_id].content for field, doc_id in documents.items()}
        return {"query": self.pool.query, **texts}


class ExampleMaker:
    """Makes the examples of one query; each form is a method."""

    def __init__(self, options: ConvertOptions, qrels: pa.Table, battles: Battles) -> None:
        errors = qrels["std_error"].to_numpy()
        self.gap_in_errors = bool(np.isfinite(errors).any() and (errors > 0).any())
        usual = 2.0 if self.gap_in_errors else 1.0
        self.min_gap = usual if options.min_gap is None else options.min_gap
        self.per_query, self.seed, self.has_battles = options.per_query, options.seed, bool(battles)
        self.scale = _find_scale(options.source, qrels)
        self.spread = pc.stddev(qrels["relevance"]).as_py() or 0.0
        self.make: Callable[[LabelledQuery], Iterator[Example]] = getattr(self, options.form)

    def rows(self, query: LabelledQuery) -> Iterator[Example]:
        """Yield each judged document with its relevance, as it was judged."""
        for doc_id in query.documents:
            relevance, error = query.relevance[doc_id], query.errors[doc_id]
            yield {
                "query_id": query.pool.query_id,
                "doc_id": doc_id,
                **query.texts(document=doc_id),
                "score": relevance,
                "target": self.scale.target(relevance),
                "std_error": None if isnan(error) else error,
                "weight": self._weight(error),
            }

    def pairs(self, query: LabelledQuery) -> Iterator[Example]:
        """Yield pairs of documents with the chance ``p`` that A is the better one.

        They are the battles of the judges; or, where a run has none, all pairs, by relevance.
        """
        pairs = list(combinations(query.documents, 2))
        if self.has_battles:
            pairs = [pair for pair in query.battles if {*pair} <= query.documents.keys()]
        for a, b in self._draw(pairs, query):
            gap, error = query.gap(a, b)
            battle = query.battles.get((a, b))
            yield {
                "query_id": query.pool.query_id,
                "doc_id_a": a,
                "doc_id_b": b,
                **query.texts(document_a=a, document_b=b),
                "p": battle.p if battle else self.scale.chance(gap, error),
                "votes": battle.votes if battle else 0,
                "margin": gap,
                "weight": self._weight(battle.error, 0.5) if battle else self._weight(error),
            }

    def lists(self, query: LabelledQuery) -> Iterator[Example]:
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

    def triplets(self, query: LabelledQuery) -> Iterator[Example]:
        """Yield a better and a worse document wherever the gap between them is large enough."""
        sure = [pair for pair in permutations(query.documents, 2) if self._is_sure(query, *pair)]
        for better, worse in self._draw(sure, query):
            gap, error = query.gap(better, worse)
            yield {
                "query_id": query.pool.query_id,
                "doc_id_positive": better,
                "doc_id_negative": worse,
                **query.texts(positive=better, negative=worse),
                "margin": gap,
                "gap_in_errors": None if isnan(error) or not error else gap / error,
                "weight": self._weight(error),
            }

    def _is_sure(self, query: LabelledQuery, better: str, worse: str) -> bool:
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

    def _draw(self, items: Sequence[T], query: LabelledQuery) -> Sequence[T]:
        """Return as many of one query's items as are wanted, drawn by chance, in their order."""
        if not self.per_query or len(items) <= self.per_query:
            return items
        rng = Random(f"{self.seed}:{query.pool.query_id}")
        return [items[i] for i in sorted(rng.sample(range(len(items)), self.per_query))]


def write_training_data(
    options: ConvertOptions, pools: Sequence[Pool], qrels: pa.Table
) -> tuple[int, list[str]]:
    """Write examples in the form that the options ask for; return their number, and lines on it.

    A file holds all examples. A directory holds a file for each split, a card, and the pools of
    the test split, on which a bake-off measures what was learned.

    Raises:
        InputError: no example can be made, or the directory holds other files.
    """
    battles = read_battles(options.source)
    maker, queries = ExampleMaker(options, qrels, battles), _label(pools, qrels, battles)
    root = options.out.rstrip("/")
    if root.endswith(_FILES):
        _, made = _write_examples(root, queries, maker)
        _refuse_none(options, maker, made)
        return made, [f"{counted(made, 'example')}: {root}"]
    ours = {_CARD, _TEST_POOLS, *(f"{name}.jsonl" for name in SPLITS)}
    earlier = {*(list_directory(root) or ())}
    if others := sorted(earlier - ours):
        how = "name a folder of its own"
        raise InputError(f"{root}: holds other files, such as {others[0]}; {how}")
    by_split: dict[str, list[LabelledQuery]] = {name: [] for name in SPLITS}
    for query in queries:
        by_split[split_of(query.pool.query, options.splits)].append(query)
    counts = {
        name: _write_examples(f"{root}/{name}.jsonl", part, maker)
        for name, part in by_split.items()
        if part
    }
    examples = sum(made for _, made in counts.values())
    _refuse_none(options, maker, examples)
    earlier |= {f"{name}.jsonl" for name in counts}
    counts = {name: count for name, count in counts.items() if count[1]}  # no library reads others
    written = {_CARD, *(f"{name}.jsonl" for name in counts)}
    if test := by_split["test"]:
        write_lines(f"{root}/{_TEST_POOLS}", (to_line(pool_row(query.pool)) for query in test))
        written.add(_TEST_POOLS)
    shared = _shared_documents(by_split)
    _write_card(options, maker.scale.formula, counts, shared)
    for name in earlier - written:
        remove_file(f"{root}/{name}")
    numbers = ", ".join(f"{name} {made:,}" for name, (_, made) in counts.items())
    lines = [f"{counted(examples, 'example')} ({numbers}) and a card: {root}"]
    if shared:
        some = ", ".join([*shared][:3])
        lines.append(f"{counted(len(shared), 'document')} in more than one split, such as {some}")
    return examples, lines


def _label(pools: Sequence[Pool], qrels: pa.Table, battles: Battles) -> list[LabelledQuery]:
    """Join pools with what is known of their documents; leave out those of unknown queries."""
    relevance: dict[str, dict[str, float]] = defaultdict(dict)
    errors: dict[str, dict[str, float]] = defaultdict(dict)
    for query_id, doc_id, value, error in iter_rows(qrels, *qrels.column_names):
        relevance[query_id][doc_id], errors[query_id][doc_id] = value, error
    queries = list[LabelledQuery]()
    for pool in pools:
        if known := relevance.get(pool.query_id):
            judged = {document.id: document for document in pool.documents if document.id in known}
            said = (known, errors[pool.query_id], battles.get(pool.query_id, {}))
            queries.append(LabelledQuery(pool, judged, *said))
    return queries


def _write_examples(
    url: str, queries: Sequence[LabelledQuery], maker: ExampleMaker
) -> tuple[int, int]:
    """Write the examples of some queries; return how many queries have any, and their number."""
    having = set[int]()

    def lines() -> Iterator[bytes]:
        for number, query in enumerate(queries):
            for example in maker.make(query):
                having.add(number)
                yield orjson.dumps(example)

    examples = write_lines(url, lines())
    return len(having), examples


def _refuse_none(options: ConvertOptions, maker: ExampleMaker, made: int) -> None:
    if not made:
        unit = "standard errors" if maker.gap_in_errors else "points of relevance"
        gap = f"{maker.min_gap:g} {unit}"
        why = {
            "triplets": f"no two documents of a query are {gap} apart: lower --min-gap",
            "pairs": "no query has two judged documents with a text",
        }.get(options.form, "no judged document has a text")
        raise InputError(f"{options.source}: gives no example: {why}")


def _shared_documents(by_split: Mapping[str, Sequence[LabelledQuery]]) -> dict[str, list[str]]:
    """Find documents whose text stands in several splits: these, by the id of the first one."""
    splits: dict[str, dict[str, None]] = defaultdict(dict)
    first_ids: dict[str, str] = {}
    for name, queries in by_split.items():
        for document in (document for query in queries for document in query.pool.documents):
            splits[document.content][name] = None
            first_ids.setdefault(document.content, document.id)
    return {first_ids[text]: [*names] for text, names in splits.items() if len(names) > 1}


def _write_card(
    options: ConvertOptions,
    formula: str,
    counts: Mapping[str, tuple[int, int]],
    shared: Mapping[str, Sequence[str]],
) -> None:
    """Write ``README.md``, whose head tells `datasets.load_dataset` which file is which split.

    Args:
        options: of ``convert train``.
        formula: how a relevance becomes a target from 0 to 1.
        counts: queries and examples of each split.
        shared: splits by the id of a document that stands in more than one.
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
    if shared:
        some = ", ".join(f"`{doc}` ({', '.join(names)})" for doc, names in [*shared.items()][:10])
        documents = counted(len(shared), "document")
        lines += ["", f"{documents} of equal text in more than one split: {some}."]
    if "test" in counts:
        measured = ("--truth", options.source, "--pools", f"{root}/{_TEST_POOLS}", "--rerankers")
        command = command_of("bakeoff", *measured, "BEFORE", "AFTER", "--out", "contest")
        lines += ["", f"To measure on the test split: `{command}`"]
    write_text(root, _CARD, "\n".join(lines) + "\n")
