"""Collect what ways are compared on: pairs that people judged, and the pools that hold them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from types import MappingProxyType

import pyarrow as pa

from zelo_ray.command_options import CompareOptions
from zelo_ray.engine.count_input import InputCount, count_input
from zelo_ray.engine.job import Watch
from zelo_ray.engine.preflight import files_to_judge
from zelo_ray.errors import InputError
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
    """People's judgments by query id: verdicts on pairs of documents, or grades; one is empty."""

    verdicts: Mapping[str, Mapping[tuple[str, str], int]]
    grades: Mapping[str, Mapping[str, float]]
    weights: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """see `judges.people_weights`"""
    notes: tuple[str, ...] = ()

    @property
    def query_ids(self) -> set[str]:
        """Return the queries that people judged."""
        return {*self.verdicts, *self.grades}

    @property
    def judgment_count(self) -> int:
        """Count the pairs that people voted on, or the documents that they graded."""
        return sum(map(len, (self.verdicts or self.grades).values()))

    def count_judgments(self, query_id: str, doc_ids: Sequence[str]) -> int:
        """Count people's judgments of these documents of a query."""
        ids = {*doc_ids}
        graded = ids.intersection(self.grades.get(query_id, ()))
        return sum(ids.issuperset(pair) for pair in self.verdicts.get(query_id, {})) + len(graded)

    def items(self, query_id: str, doc_ids: Sequence[str]) -> Iterator[Item]:
        """Yield the pairs of a query's documents that people judged.

        The document with the higher grade is the better one; A comes first in the pool. Pairs with
        equal grades are left out.
        """
        ids = {*doc_ids}
        for pair, verdict in self.verdicts.get(query_id, {}).items():
            if ids.issuperset(pair):
                weight = self.weights.get((query_id, *sorted(pair)), 1.0)
                yield Item(query_id, *pair, verdict, weight)
        grades = self.grades.get(query_id, {})
        for a, b in combinations([doc_id for doc_id in doc_ids if doc_id in grades], 2):
            if grades[a] != grades[b]:
                weight = self.weigh(query_id, a) * self.weigh(query_id, b)
                verdict = A_BETTER if grades[a] > grades[b] else B_BETTER
                yield Item(query_id, a, b, verdict, weight)

    def weigh(self, query_id: str, doc_id: str) -> float:
        """Return how many documents a graded one stands for."""
        return self.weights.get((query_id, doc_id), 1.0)


def read_people(
    url: str,
    pattern: str | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
) -> People:
    """Read people's judgments from a file: votes on pairs, grades by row, or qrels of any kind.

    Several people's votes on a pair become one verdict, as in `agree`; several grades of a
    document become their mean.

    Args:
        url: where it is.
        pattern: use only people whose name matches it.
        columns: by role, the name of a column that is not called as is usual.

    Raises:
        InputError: its format is unknown, a row is invalid, or there is no judgment.
    """
    part = judges.read_people(url, pattern, columns)
    weights, notes = judges.people_weights(part), part.notes
    if weights:
        how = "labels, drawn with unequal chances, count 1 / probability in figures of agreement"
        notes += (
            f"{url}: {how}; numbers of pairs, and the cost of a correct one, are plain counts",
        )
    if part.votes:
        return People(_read_verdicts(judges.votes_of(part)), {}, weights, notes)
    by_query: dict[str, dict[str, list[float]]] = {}
    for row in part.table.select(["query_id", "doc_id", "grade"]).to_pylist():
        by_query.setdefault(row["query_id"], {}).setdefault(row["doc_id"], []).append(row["grade"])
    grades = {
        query_id: {doc_id: fmean(values) for doc_id, values in by_doc.items()}
        for query_id, by_doc in by_query.items()
    }
    return People({}, grades, weights, notes)


def _read_verdicts(table: pa.Table) -> dict[str, dict[tuple[str, str], int]]:
    votes = encode_votes(table)
    orientation = find_orientation(votes, table)
    ratings = verdict_ratings(votes, judge_verdicts(reduce_repeats(votes)), orientation)
    doc_ids = sorted({*table["doc_id_a"].to_pylist(), *table["doc_id_b"].to_pylist()})
    verdicts: dict[str, dict[tuple[str, str], int]] = {}
    pairs = zip(votes.pairs.tolist(), orientation.tolist(), *ratings.grades.tolist(), strict=True)
    for (query, *places), direction, verdict in pairs:
        a, b = [doc_ids[place - 1] for place in places][::direction]
        verdicts.setdefault(votes.query_ids[query], {})[a, b] = verdict
    return verdicts


@dataclass(slots=True)
class Part:
    """All labelled queries, or a half of them: the file of their pools, and people's pairs."""

    pools: str
    items: list[Item] = field(default_factory=list)
    queries: int = 0


@dataclass(frozen=True, slots=True)
class Labelled:
    """What all ways judge, by `ALL`, or by `CHOICE` and `TEST`; and what was left out."""

    people: People
    parts: Mapping[str, Part]
    judgments: int
    """people's judgments of documents of the input"""
    rejected: int
    """invalid lines of the input"""
    notes: Sequence[str]

    @property
    def items(self) -> list[Item]:
        """Return the pairs of all parts."""
        return [item for part in self.parts.values() for item in part.items]

    @property
    def queries(self) -> int:
        """Return how many queries have pairs."""
        return sum(part.queries for part in self.parts.values())


def half_of(query: str) -> str:
    """Return the half of a query, which depends on nothing but its text; see `split_of`."""
    return CHOICE if split_of(query, (1.0, 0.0, 1.0)) == SPLITS[0] else TEST


def collect_items(
    options: CompareOptions, folder: str, watch: Watch, shown: frozenset[str]
) -> Labelled:
    """Write the pools that people labelled to files of a folder; only these are judged.

    Args:
        options: of the command.
        folder: the directory or URL to write to.
        watch: gets messages.
        shown: queries of the worked examples that judges see: they measure none.

    Raises:
        InputError: there is no pair; or, for halves, there are fewer than two labelled queries, or
            all are in the same half.
    """
    columns = split_columns(options.columns)
    people = read_people(options.human, options.people, columns)
    options, _ = resolve_inputs(options, folder, watch.say, columns=columns)
    columns.refuse_unused()
    shards = find_shards(options.inputs, options.out)
    shards, rejected = files_to_judge(options.model_copy(update={"out": folder}), shards, watch)
    keep = options.blocks == "query"  # otherwise invalid lines were reported before
    census = count_input(shards, {}, folder, keep=keep, show=options.show_query)
    for message in (*census.reports, *census.own):
        watch.say(message)
    names = (CHOICE, TEST) if options.halves else (ALL,)
    parts = {name: Part(f"{folder.rstrip('/')}/pools-{name}.jsonl") for name in names}
    judgments = left_out = 0
    labelled, found = people.query_ids, list[str]()
    with ExitStack() as files:
        opened = {n: files.enter_context(open_for_writing(part.pools)) for n, part in parts.items()}
        for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
            if not line.pool or (line.file, line.number) in census.repeated:
                continue
            query_id = line.pool.query_id
            doc_ids = [document.id for document in line.pool.documents[: options.document_limit]]
            judgments += people.count_judgments(query_id, doc_ids)
            found += [query_id] if query_id in labelled else []
            pairs = [*people.items(query_id, doc_ids)]
            if query_id in shown:
                left_out += len(pairs)
            elif pairs:
                name = half_of(line.pool.query) if options.halves else ALL
                parts[name].items += pairs
                parts[name].queries += 1
                opened[name].write(line.raw + b"\n")
    notes, rejected = [f"{note}." for note in people.notes], rejected + census.rejected
    if without := people.judgment_count - judgments:
        what = "pairs" if people.verdicts else "documents"
        some = f"among the first {options.document_limit} documents of a query"
        where = some if options.document_limit else "in the input"
        many = f"{without:,} of {people.judgment_count:,} {what} in {options.human}"
        notes.append(f"{many} are not {where}.")
    if left_out:
        notes.append(f"{counted(left_out, 'pair')} of the query of the worked examples left out.")
    if rejected:
        notes.append(f"Rejected {counted(rejected, 'invalid input line')}: rejected.parquet.")
    labels = Labelled(people, parts, judgments, rejected, notes)
    if not labels.items:
        raise InputError(_no_item(options, people, found, census, left_out))
    if not all(part.queries for part in parts.values()):
        raise InputError(
            f"--halves: people labelled {counted(labels.queries, 'query', 'queries')} of the input"
            ", all in the same half, which follows from the texts; it takes one to choose on and "
            "one to test on, so label more"
        )
    return labels


def _no_item(
    options: CompareOptions,
    people: People,
    found: Sequence[str],
    census: InputCount,
    left_out: int,
) -> str:
    """Say why there is no item; ``found`` are people's queries that the input has."""
    if left_out:
        return f"{options.human}: the input has labels of queries of the worked examples alone"
    about = f"the {counted(len(people.query_ids), 'query', 'queries')} with labels"
    if found:
        return (
            f"{options.human}: of {about} {len(found):,} (such as {found[0]!r}) are in the "
            "input, but none of them has a pair of documents that people judged"
        )
    ids = (query_id for _, _, query_id in census.places)
    why = explain_mismatch(options.human, people.query_ids, "the input", ids)
    return f"{options.human}: none of {about} is among the {census.pools:,} of the input: {why}"
