"""``convert train``: examples to train rerankers and embedders on, from judgments with texts."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import fsspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import ConvertOptions
from zelo_ray.commands.convert.train.card import (
    CARD,
    TEST_POOLS,
    WrittenSplit,
    write_card,
)
from zelo_ray.commands.convert.train.examples import (
    FORMS,
    BattleCount,
    Example,
    ExampleOptions,
    LabelledPool,
)
from zelo_ray.commands.convert.train.splits import shared_documents
from zelo_ray.commands.convert.train.target_scale import find_target_scale
from zelo_ray.errors import InputError
from zelo_ray.files.judges import read_judgments
from zelo_ray.files.pools import pool_row, to_line, write_lines
from zelo_ray.files.splits import SPLITS, split_of
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import iter_rows
from zelo_ray.files.wording import counted
from zelo_ray.records import Pool

_FILES = (".jsonl", ".ndjson", ".json", ".gz", ".zst")
_MIN_ERRORS, _MIN_POINTS = 2.0, 1.0
_BATTLES = ("votes.parquet", "contests.parquet", "verdicts.parquet")

Battles = Mapping[str, Mapping[tuple[str, str], BattleCount]]


def write_training_data(
    options: ConvertOptions, pools: Sequence[Pool], qrels: pa.Table
) -> tuple[int, list[str]]:
    """Write examples in the form that the options ask for; return their number, and lines on it.

    A file holds all examples. A directory holds a file for each split, a card, and the pools of
    the test split, on which a bake-off measures what was learned.

    Args:
        options: of ``convert train``.
        pools: the texts.
        qrels: the columns of `records.Qrel`.

    Raises:
        InputError: no example can be made, or the directory holds other files.
    """
    battles = read_battles(options.source)
    example_options = choose_example_options(options, qrels, has_battles=bool(battles))
    labelled = label_pools(pools, qrels, battles)
    if options.out.endswith(_FILES):
        split = _write_examples(options.out, labelled, options.form, example_options)
        _refuse_nothing(options, example_options, split.examples)
        return split.examples, [f"{counted(split.examples, 'example')}: {options.out}"]
    by_split: dict[str, list[LabelledPool]] = {name: [] for name in SPLITS}
    for query in labelled:
        by_split[split_of(query.pool.query, options.splits)].append(query)
    root = options.out.rstrip("/")
    earlier = _list_earlier_files(root)
    splits = {
        name: _write_examples(f"{root}/{name}.jsonl", queries, options.form, example_options)
        for name, queries in by_split.items()
        if queries
    }
    examples = sum(split.examples for split in splits.values())
    _refuse_nothing(options, example_options, examples)
    for name in [name for name, split in splits.items() if not split.examples]:
        del splits[name]  # its file has no columns, which no library reads
        earlier.add(f"{name}.jsonl")
    shared = shared_documents(
        {name: [query.pool for query in queries] for name, queries in by_split.items()}
    )
    test_pools = [query.pool for query in by_split["test"]]
    if test_pools:
        write_lines(f"{root}/{TEST_POOLS}", map(to_line, map(pool_row, test_pools)))
    write_card(options, example_options.scale.formula, splits, shared)
    kept = {CARD, *(f"{name}.jsonl" for name in splits), *([TEST_POOLS] if test_pools else ())}
    fs, folder = fsspec.url_to_fs(root)
    for name in earlier - kept:
        fs.rm(f"{folder}/{name}")
    counts = ", ".join(f"{name} {split.examples:,}" for name, split in splits.items())
    lines = [f"{counted(examples, 'example')} ({counts}) and a card: {root}"]
    if shared:
        some = ", ".join([*shared][:3])
        lines.append(f"{counted(len(shared), 'document')} in more than one split, such as {some}")
    return examples, lines


def _list_earlier_files(root: str) -> set[str]:
    """Return the names of the files that an earlier conversion wrote to a folder.

    Raises:
        InputError: it holds other files, too.
    """
    ours = {CARD, TEST_POOLS, *(f"{name}.jsonl" for name in SPLITS)}
    names = {*(list_directory(root) or ())}
    if others := sorted(names - ours):
        raise InputError(
            f"{root}: holds other files, such as {others[0]}; name a folder of its own"
        )
    return names


def read_battles(place: str) -> Battles:
    """Read by query and pair what all judges of a run voted; nothing where it has no votes.

    Both orders of a pair count for the order that sorts first.
    """
    names = list_directory(place) or []
    votes: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in _BATTLES:
        if name not in names:
            continue
        table = read_judgments(f"{place.rstrip('/')}/{name}", "panel").table
        rows = iter_rows(table, "query_id", "doc_id_a", "doc_id_b", "preference")
        for query_id, a, b, preference in rows:
            chance = (1 - preference) / 2
            pair, p = ((a, b), chance) if a <= b else ((b, a), 1 - chance)
            votes[query_id][pair].append(p)
    return {
        query_id: {pair: BattleCount(sum(p) / len(p), len(p)) for pair, p in sorted(pairs.items())}
        for query_id, pairs in votes.items()
    }


def label_pools(pools: Sequence[Pool], qrels: pa.Table, battles: Battles) -> list[LabelledPool]:
    """Join pools with what is known of their documents; pools without a judged one are left out.

    Args:
        pools: the texts.
        qrels: the columns of `records.Qrel`.
        battles: votes by query and pair.
    """
    relevance: dict[str, dict[str, float]] = defaultdict(dict)
    errors: dict[str, dict[str, float]] = defaultdict(dict)
    for query_id, doc_id, value, error in iter_rows(qrels, *qrels.column_names):
        relevance[query_id][doc_id], errors[query_id][doc_id] = value, error
    return [
        LabelledPool(
            pool,
            relevance[pool.query_id],
            errors[pool.query_id],
            battles.get(pool.query_id, {}),
        )
        for pool in pools
        if pool.query_id in relevance
    ]


def choose_example_options(
    options: ConvertOptions, qrels: pa.Table, *, has_battles: bool
) -> ExampleOptions:
    """Fill in what the options leave open, from what the judgments have."""
    errors = qrels["std_error"].to_numpy()
    has_errors = bool(np.isfinite(errors).any() and (errors > 0).any())
    usual = _MIN_ERRORS if has_errors else _MIN_POINTS
    return ExampleOptions(
        scale=find_target_scale(options.source, qrels),
        spread=pc.stddev(qrels["relevance"]).as_py() or 0.0,
        min_gap=usual if options.min_gap is None else options.min_gap,
        gap_in_errors=has_errors,
        has_battles=has_battles,
        per_query=options.per_query,
        seed=options.seed,
    )


def _write_examples(
    url: str, queries: Iterable[LabelledPool], form: str, options: ExampleOptions
) -> WrittenSplit:
    """Write the examples of some queries to a file; return their counts."""
    split = WrittenSplit()

    def examples() -> Iterator[Example]:
        for query in queries:
            before = split.examples
            for example in FORMS[form](query, options):
                split.examples += 1
                yield example
            split.queries += split.examples > before

    write_lines(url, map(orjson.dumps, examples()))
    return split


def _refuse_nothing(options: ConvertOptions, example_options: ExampleOptions, made: int) -> None:
    if made:
        return
    gap = f"{example_options.min_gap:g} " + (
        "standard errors" if example_options.gap_in_errors else "points of relevance"
    )
    why = {
        "triplets": f"no two documents of a query are {gap} apart: lower --min-gap",
        "pairs": "no query has two judged documents with a text",
    }.get(options.form, "no judged document has a text")
    raise InputError(f"{options.source}: gives no example: {why}")
