"""Collect the items to compare protocols on: pools that people labelled, and their judgments."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zelo_ray.command_options import CompareProtocolsOptions, TuneOptions
from zelo_ray.commands.compare_protocols.people import Item, People, read_people
from zelo_ray.engine.count_input import InputCount, count_input
from zelo_ray.engine.job import Watch
from zelo_ray.engine.preflight import files_to_judge
from zelo_ray.errors import InputError
from zelo_ray.files.candidates import explain_mismatch
from zelo_ray.files.inputs import resolve_inputs
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import find_shards, open_for_writing
from zelo_ray.files.wording import counted
from zelo_ray.protocols import load_protocol
from zelo_ray.protocols.anchors import USUAL, example_query_ids


@dataclass(frozen=True, slots=True)
class LabelledItems:
    """Items and pools that all protocols are asked about."""

    people: People
    items: list[Item]
    pools: str
    judgments_in_input: int
    """the number of people's judgments of documents of the input"""
    queries: int
    rejected: int
    """invalid lines of the input"""
    left_out: str
    """a note on left out queries of worked examples; empty if there are none"""


def describe_left_out(items: LabelledItems, human: str, limit: int | None) -> Iterator[str]:
    """Yield what people's labels and the input have that was not judged.

    Args:
        items: what was judged.
        human: where the labels are.
        limit: how many documents of a query took part; None: all.
    """
    people = items.people
    yield from people.notes
    if alone := people.judgment_count - items.judgments_in_input:
        what = "pairs" if people.kind == "votes" else "documents"
        where = f"among the first {limit} documents of a query" if limit else "in the input"
        yield f"{alone:,} of {people.judgment_count:,} {what} in {human} are not {where}"
    if items.left_out:
        yield items.left_out
    if items.rejected:
        yield f"rejected {counted(items.rejected, 'invalid input line')}; see rejected.parquet"


def collect_items(
    options: CompareProtocolsOptions | TuneOptions,
    folder: str,
    watch: Watch,
    protocols: Iterable[str],
    more_examples: Iterable[str] = (),
) -> LabelledItems:
    """Write the pools that people labelled to a file of a folder; only these are judged.

    A query that worked examples are taken from is left out for all protocols.

    Args:
        options: of the command.
        folder: the directory to write to.
        watch: gets messages.
        protocols: names of all that judge these items.
        more_examples: texts of further worked examples that judges are shown.
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
    shown = set[str]()
    if any("anchors" in load_protocol(name).options.model_fields for name in protocols):
        shown |= example_query_ids(getattr(options, "anchors", USUAL))
        shown.update(*map(example_query_ids, more_examples))
    items: list[Item] = []
    known_count = queries = without = 0
    query_ids, labelled = list[str](), people.query_ids
    with open_for_writing(pools_file(folder)) as file:
        for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
            if not line.pool or (line.file, line.number) in census.repeated:
                continue
            query_id = line.pool.query_id
            doc_ids = [document.id for document in line.pool.documents[: options.document_limit]]
            known_count += people.count_judgments(query_id, doc_ids)
            query_ids += [query_id] if query_id in labelled else []
            pairs = [*people.items(query_id, doc_ids)]
            if query_id in shown:
                without += len(pairs)
            elif pairs:
                items += pairs
                queries += 1
                file.write(line.raw + b"\n")
    left_out = ""
    if without:
        left_out = f"{counted(without, 'pair')} of the query of the worked examples left out"
        watch.say(left_out)
    if not items:
        raise InputError(_no_item(options, people, query_ids, census, left_out))
    place, bad = pools_file(folder), rejected + census.rejected
    return LabelledItems(people, items, place, known_count, queries, bad, left_out)


def _no_item(
    options: CompareProtocolsOptions | TuneOptions,
    people: People,
    met_pairs: Sequence[str],
    census: InputCount,
    left_out: str,
) -> str:
    """Say why there is no item; ``met_pairs`` are people's queries that the input has."""
    if left_out:
        return f"{options.human}: {left_out}; the input has no others"
    about = f"the {counted(len(people.query_ids), 'query', 'queries')} with labels"
    if met_pairs:
        return (
            f"{options.human}: of {about} {len(met_pairs):,} (such as {met_pairs[0]!r}) are in the "
            "input, but none of them has a pair of documents that people judged"
        )
    ids = (query_id for _, _, query_id in census.places)
    why = explain_mismatch(options.human, people.query_ids, "the input", ids)
    return f"{options.human}: none of {about} is among the {census.pools:,} of the input: {why}"


def pools_file(folder: str) -> str:
    """Return the place of the pools that people labelled."""
    return f"{folder.rstrip('/')}/pools.jsonl"
