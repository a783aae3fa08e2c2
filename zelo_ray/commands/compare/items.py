"""Collect what ways are compared on: pairs that people judged, and the pools that hold them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from statistics import fmean

import numpy as np
import pyarrow as pa

from zelo_ray.command_options import CompareOptions
from zelo_ray.engine.count_input import count_input
from zelo_ray.engine.job import Watch
from zelo_ray.engine.preflight import files_to_judge
from zelo_ray.errors import InputError
from zelo_ray.evaluation.pairs import LabelledPairs
from zelo_ray.evaluation.votes import (
    A_BETTER,
    B_BETTER,
    encode_votes,
    find_orientation,
    judge_verdicts,
    reduce_repeats,
    verdict_ratings,
)
from zelo_ray.files import judges
from zelo_ray.files.candidates import explain_mismatch
from zelo_ray.files.inputs import resolve_inputs
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.schema import split_columns
from zelo_ray.files.splits import SPLITS, split_of
from zelo_ray.files.storage import find_shards, open_for_writing
from zelo_ray.files.wording import counted

ALL, CHOICE, TEST = "all", "choose", "test"
"""All labelled queries; or the half to choose on, and the half to test on."""


@dataclass(frozen=True, slots=True)
class Item:
    """A pair of documents with people's verdict: `A_BETTER`, `TIE` or `B_BETTER`.

    ``weight``: how many pairs it stands for, where people's labels were drawn with unequal chances.
    """

    query_id: str
    doc_id_a: str
    doc_id_b: str
    verdict: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class People:
    """People's judgments by query id: verdicts by two documents, or grades by one.

    ``weights`` are as in `judges.people_weights`, by query id and sorted documents.
    """

    judgments: Mapping[str, Mapping[tuple[str, ...], float]]
    weights: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def count(self, query_id: str, doc_ids: Sequence[str]) -> int:
        """Count people's judgments of these documents of a query."""
        return sum(map({*doc_ids}.issuperset, self.judgments.get(query_id, ())))

    def items(self, query_id: str, doc_ids: Sequence[str]) -> Iterator[Item]:
        """Yield the pairs of a query's documents that people judged.

        The document with the higher grade is the better one; A comes first in the pool. Pairs with
        equal grades are left out.
        """
        ids, judged = {*doc_ids}, self.judgments.get(query_id, {})
        weigh = self.weights.get
        for place, verdict in judged.items():
            if len(place) > 1 and ids.issuperset(place):
                a, b = place
                weight = weigh((query_id, *sorted(place)), 1.0)
                yield Item(query_id, a, b, int(verdict), weight)
        graded = [doc_id for doc_id in doc_ids if (doc_id,) in judged]
        for a, b in combinations(graded, 2):
            if difference := judged[a,] - judged[b,]:
                weight = weigh((query_id, a), 1.0) * weigh((query_id, b), 1.0)
                yield Item(query_id, a, b, A_BETTER if difference > 0 else B_BETTER, weight)


def read_people(
    url: str, pattern: str | None = None, columns: Mapping[str, str] | None = None
) -> People:
    """Read people's judgments from a file: votes on pairs, grades by row, or qrels of any kind.

    Several people's votes on a pair become one verdict, as in `agree`; several grades of a
    document become their mean. ``pattern`` names the people to use, and ``columns`` by role those
    that are not called as is usual.
    """
    part = judges.read_people(url, pattern, columns or {})
    weights, notes = judges.people_weights(part), part.notes
    if weights:
        how = "labels, drawn with unequal chances, count 1 / probability in figures of agreement"
        notes += (
            f"{url}: {how}; numbers of pairs, and the cost of a correct one, are plain counts",
        )
    if part.votes:
        return People(_read_verdicts(judges.votes_of(part)), weights, notes)
    grades: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for row in part.table.select(["query_id", "doc_id", "grade"]).to_pylist():
        by_doc = grades.setdefault(row["query_id"], {})
        by_doc.setdefault((row["doc_id"],), []).append(row["grade"])
    means = {q: {doc: fmean(each) for doc, each in by.items()} for q, by in grades.items()}
    return People(means, weights, notes)


def _read_verdicts(table: pa.Table) -> dict[str, dict[tuple[str, ...], float]]:
    votes = encode_votes(table)
    orientation = find_orientation(votes, table)
    ratings = verdict_ratings(votes, judge_verdicts(reduce_repeats(votes)), orientation)
    doc_ids = sorted({*table["doc_id_a"].to_pylist(), *table["doc_id_b"].to_pylist()})
    verdicts: dict[str, dict[tuple[str, ...], float]] = {}
    pairs = zip(votes.pairs.tolist(), orientation.tolist(), *ratings.grades.tolist(), strict=True)
    for (query, *places), direction, verdict in pairs:
        a, b = [doc_ids[place - 1] for place in places][::direction]
        verdicts.setdefault(votes.query_ids[query], {})[a, b] = verdict
    return verdicts


@dataclass
class Part:
    """All labelled queries, or a half of them: the file of their pools, and people's pairs."""

    pools: str
    items: list[Item] = field(default_factory=list)
    queries: int = 0

    @cached_property
    def pairs(self) -> LabelledPairs:
        """Return the items as arrays."""
        return pairs_of(self.items)


def pairs_of(items: Sequence[Item]) -> LabelledPairs:
    """Return items as arrays."""
    query_ids, queries = np.unique([item.query_id for item in items], return_inverse=True)
    verdicts = np.array([item.verdict for item in items], np.int64)
    weights = np.array([item.weight for item in items], np.float64)
    return LabelledPairs(verdicts, weights, query_ids.tolist(), queries.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Labelled:
    """What all ways judge, by `ALL`, or by `CHOICE` and `TEST`; and what was left out.

    ``judgments`` counts people's judgments of documents of the input, and ``rejected`` its invalid
    lines.
    """

    people: People
    parts: Mapping[str, Part]
    judgments: int
    rejected: int
    notes: Sequence[str]


def half_of(query: str) -> str:
    """Return the half of a query, which depends on nothing but its text; see `split_of`."""
    return CHOICE if split_of(query, (1.0, 0.0, 1.0)) == SPLITS[0] else TEST


def collect_items(
    options: CompareOptions, folder: str, watch: Watch, shown: frozenset[str]
) -> Labelled:
    """Write the pools that people labelled to files of a folder; only these are judged."""
    columns = split_columns(options.columns)
    people = read_people(options.human, options.people, columns)
    options, _ = resolve_inputs(options, folder, watch.say, columns=columns)
    columns.refuse_unused()
    shards = find_shards(options.inputs, options.out)
    shards, rejected = files_to_judge(options.model_copy(update={"out": folder}), shards, watch)
    keep = options.blocks == "query"  # otherwise invalid lines were reported before
    input_count = count_input(shards, lambda _: {}, folder, keep=keep, show=options.show_query)
    for message in input_count.own:
        watch.say(message)
    names = (CHOICE, TEST) if options.halves else (ALL,)
    parts = {name: Part(f"{folder.rstrip('/')}/pools-{name}.jsonl") for name in names}
    judgments, left_out, labelled = 0, 0, ""
    with ExitStack() as files:
        opened = {n: files.enter_context(open_for_writing(part.pools)) for n, part in parts.items()}
        for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
            if not line.pool or (line.file, line.number) in input_count.repeated:
                continue
            query_id = line.pool.query_id
            doc_ids = [document.id for document in line.pool.documents[: options.document_limit]]
            judgments += people.count(query_id, doc_ids)
            labelled = labelled or (query_id if query_id in people.judgments else "")
            pairs = [*people.items(query_id, doc_ids)]
            if query_id in shown:
                left_out += len(pairs)
            elif pairs:
                name = half_of(line.pool.query) if options.halves else ALL
                parts[name].items += pairs
                parts[name].queries += 1
                opened[name].write(line.raw + b"\n")
    if not any(part.items for part in parts.values()):
        ids = (query_id for _, _, query_id in input_count.places)
        why = explain_mismatch(options.human, {*people.judgments}, "the input", ids)
        if labelled:
            why = f"of labelled queries, such as {labelled!r}, it has no two documents that people "
            why += "judged as unequal, or it is a query of the worked examples"
        raise InputError(f"{options.human}: people judged no pair of the input: {why}")
    if not all(part.items for part in parts.values()):
        raise InputError(
            "--halves: all labelled queries of the input are in the same half, which follows from "
            "their texts; it takes one to choose on and one to test on, so label more"
        )
    rejected, people_pairs = (
        rejected + input_count.rejected,
        sum(map(len, people.judgments.values())),
    )
    what = f"{people_pairs:,} judgments in {options.human}"
    where = f"the first {options.document_limit} documents" if options.document_limit else "input"
    notes = {
        f"{people_pairs - judgments:,} of {what} are not of the {where}.": people_pairs > judgments,
        f"{counted(left_out, 'pair')} of the query of the worked examples left out.": left_out,
        f"Rejected {counted(rejected, 'invalid input line')}: rejected.parquet.": rejected,
    }
    said = [f"{note}." for note in people.notes] + [note for note, holds in notes.items() if holds]
    return Labelled(people, parts, judgments, rejected, said)
