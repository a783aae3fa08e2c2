"""Read the pools of the truth's queries, and write them with the rankers' scores."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.engine.count_input import Count, InputCount, count_input
from zelo_ray.engine.job import Watch
from zelo_ray.errors import OptionError
from zelo_ray.files.inputs import holds_texts
from zelo_ray.files.judgments import pools_file_of_truth
from zelo_ray.files.own_queries import find_collection, find_own_queries, without_own_queries
from zelo_ray.files.pools import Line, LineLimits, annotate_line, read_lines
from zelo_ray.files.rows import open_source
from zelo_ray.files.storage import find_shards, open_for_writing
from zelo_ray.files.wording import counted
from zelo_ray.rerankers.ranking import query_fields

_ODD = re.compile(r"[^\w.+-]+")


@dataclass(slots=True)
class Pools:
    """The files of the pools, what they hold of the truth's queries, and the fields of these.

    ``count`` is None where nothing needs the pools.
    """

    shards: list[str] = field(default_factory=list)
    count: InputCount | None = None
    fields: dict[str, dict[str, str]] = field(default_factory=dict)

    def lines(self) -> Iterator[Line]:
        """Yield all lines."""
        return (line for shard in self.shards for line in read_lines(shard, LineLimits()))

    def ranked_lines(self) -> Iterator[Line]:
        """Yield the lines of the truth's queries."""
        places = {place[:2] for place in self.count.places} if self.count else set()
        return (line for line in self.lines() if (line.file, line.number) in places)


def with_pools_of_truth(options: BakeoffOptions) -> BakeoffOptions:
    """Take the truth as pools, if pools are needed and it holds texts in another format.

    Raises:
        OptionError: nothing is to be ranked, or an option says how to read pools without any.
    """
    if not options.rerankers and not options.runs:
        raise OptionError("no rankers: name --rerankers, such as original bm25, or --runs FILE")
    lacks = _needs_pools(options) and not options.pools and not pools_file_of_truth(options.truth)
    if lacks and holds_texts(open_source(options.truth)):
        options = options.model_copy(update={"pools": (options.truth,)})
    for name in ("corpus", "queries"):
        if getattr(options, name) and not options.pools:
            raise OptionError(f"--{name} needs --pools; name some, or leave it out")
    return options


def _needs_pools(options: BakeoffOptions) -> bool:
    return bool(options.rerankers or options.pools or options.slices or options.write_annotated)


def count_pools(
    truth: pa.Table, counts: Mapping[str, Count], options: BakeoffOptions, watch: Watch
) -> tuple[Pools, pa.Table]:
    """Find the pools; if they are needed, count those of the truth's queries, and say so.

    Returns:
        The pools, and the rows of the truth for queries that have one.
    """
    places = options.pools or tuple(filter(None, [pools_file_of_truth(options.truth)]))
    if _needs_pools(options) and not places:
        raise OptionError(f"--pools: name the documents to rank; {options.truth} has none")
    pools = Pools(find_shards(places) if places else [])
    if not _needs_pools(options):
        return pools, truth
    query_ids = set(pc.unique(truth["query_id"]).to_pylist())

    def is_judged(line: Line) -> bool:
        if line.pool is None or line.pool.query_id not in query_ids:
            return False
        if options.slices:
            pools.fields[line.pool.query_id] = query_fields(line)
        return True

    pools.count = count = count_input(
        *(pools.shards, counts, options.out),
        only=is_judged,
        show=options.show_query,
        metadata=options.show_metadata,
    )
    names = sorted({name for record in pools.fields.values() for name in record})
    if unknown := [name for name in options.slices if name not in names]:
        has = f"they have {', '.join(names)}" if names else "they have none"
        raise OptionError(f"--slices {unknown[0]}: no query has this field; {has}")
    requests = ", ".join(f"{name} {n:,}" for name, n in count.planned.items()) or "none"
    sizes = f"{counted(count.pools, 'query', 'queries')}, {counted(count.documents, 'document')}"
    for line in (f"{sizes}; requests: {requests}", *count.own):
        watch.say(line)
    if count.rejected:
        bad = counted(count.rejected, "invalid input line")
        watch.say(f"Rejected {bad}; see rejected.parquet.")
    if (lost := len(query_ids) - count.pools) > 0:
        watch.say(f"{lost:,} queries of the truth have no pool, and are left out")
    ids = pa.array([query_id for *_, query_id in count.places], pa.string())
    return pools, truth.filter(pc.is_in(truth["query_id"], ids))


def without_own(
    truth: pa.Table, runs: Mapping[str, pa.Table], pools: Pools, given: BakeoffOptions
) -> tuple[pa.Table, dict[str, pa.Table], list[dict[str, Any]]]:
    """Remove queries that are their own candidates; return what a reader has to know of it."""
    query_ids = pc.unique(truth["query_id"]).to_pylist()
    collection = find_collection(given.truth)
    if given.corpus and given.queries:
        collection = given.corpus, given.queries
    same, others = find_own_queries([truth, *runs.values()], query_ids, pools.lines(), collection)
    doubts = [
        {"code": code, "run": "", "queries": len(found), "of_queries": len(query_ids)}
        for code, found in (("own_query", same), ("own_id", others))
        if found
    ]
    kept = {name: without_own_queries(table, same) for name, table in runs.items()}
    return without_own_queries(truth, same), kept, doubts


def write_annotated(out: str, lines: Iterable[Line], runs: Mapping[str, pa.Table]) -> None:
    """Write the pools once for each ranker, with its score on each document that it ranked.

    Scores that were in the input are kept as ``input_score``.
    """
    scores: dict[str, dict[str, dict[str, dict[str, float]]]] = {name: {} for name in runs}
    for name, table in runs.items():
        for row in table.select(["query_id", "doc_id", "score"]).to_pylist():
            documents = scores[name].setdefault(row["query_id"], {})
            documents[row["doc_id"]] = {"score": row["score"]}
    with ExitStack() as stack:
        places = (f"{out.rstrip('/')}/annotated/{name}.jsonl" for name in file_names(runs))
        files = [stack.enter_context(open_for_writing(place)) for place in places]
        for line in lines:
            query_id = line.pool.query_id if line.pool else ""
            for file, by_query in zip(files, scores.values(), strict=True):
                file.write(annotate_line(line.raw, by_query.get(query_id, {}), "score") + b"\n")


def file_names(names: Iterable[str]) -> Sequence[str]:
    """Return a distinct file name for each name; names may hold any characters."""
    found = dict[str, str]()  # by lower case, which some file systems do not distinguish
    for name in names:
        plain = file_name = _ODD.sub("_", name).lstrip(".") or "_"
        while file_name.lower() in found:
            file_name = f"{plain}-{len(found) + 1}"
        found[file_name.lower()] = file_name
    return [*found.values()]
