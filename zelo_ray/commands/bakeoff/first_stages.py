"""Cross first stages with rerankers: unite their pools, and name a ranker for each pair."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zelo_ray.engine.job import Watch, absolute_place
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.files import list_directory, open_for_writing
from zelo_ray.formats.input import resolve_inputs
from zelo_ray.formats.input.stored_inputs import pool_to_line
from zelo_ray.formats.pools import LineLimits, find_shards, read_lines
from zelo_ray.formats.wording import counted
from zelo_ray.options import AnnotateOptions, BakeoffOptions
from zelo_ray.options.places import split_name
from zelo_ray.protocols.first_stages import FIRST_STAGES, name_staged
from zelo_ray.rerankers import ENCODERS, BakeoffRanker

RankerWithOptions = tuple[BakeoffRanker, AnnotateOptions]
_FILE = "first-stages.jsonl"


@dataclass(frozen=True, slots=True)
class Grid:
    """Rankers of a bake-off, each a first stage with a reranker, and who is asked for them."""

    rankers: Mapping[str, RankerWithOptions]
    asked: Mapping[str, RankerWithOptions]
    """by the name of the reranker, asked once for all first stages"""
    pairs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """by the name of a ranker, its first stage and its reranker; empty without first stages"""

    def reranker_of(self, ranker: str) -> str:
        """Return the reranker that was asked for a ranker."""
        return self.pairs[ranker][1] if ranker in self.pairs else ranker

    def count_rankers(self, reranker: str) -> int:
        """Count the rankers that one reranker was asked for."""
        return sum(self.reranker_of(name) == reranker for name in self.rankers)


def name_pair(stage: str, reranker: str) -> str:
    """Return the name of the ranker that a first stage and a reranker make."""
    return f"{stage} > {reranker}"


def unite_first_stages(
    options: BakeoffOptions, watch: Watch
) -> tuple[BakeoffOptions, tuple[str, ...]]:
    """Unite the pools of first stages, if ``pools`` names some as ``NAME=place``.

    Returns:
        The options, with the united pools, and the names of the first stages, if there are any.

    Raises:
        OptionError: only some pools have a name, or a name cannot be used.
        InputError: a first stage cannot be read, or two have one document with different texts.
    """
    places: dict[str, list[str]] = {}
    for place in options.pools:
        name, plain = ("", place) if list_directory(place) else split_name(place)
        places.setdefault(name, []).append(plain if name else place)
    if not any(places):
        return options, ()
    if "" in places:
        raise OptionError(f"--pools: {places[''][0]} has no name; write NAME={places[''][0]}")
    if bad := [name for name in places if ":" in name or ">" in name]:
        raise OptionError(f"--pools: the name {bad[0]} must not hold : or >")
    united: dict[str, dict[str, Any]] = {}
    for stage, patterns in places.items():
        out = absolute_place(options.out)
        stage_options = options.model_copy(update={"pools": tuple(patterns)})
        pools = resolve_inputs(stage_options, out, watch.say, "pools").pools
        _add_stage(united, stage, find_shards(pools), watch)
    place = f"{absolute_place(options.out).rstrip('/')}/input/{_FILE}"
    with open_for_writing(place) as file:
        for pool in united.values():
            file.write(pool_to_line(pool))
    resolved = {"corpus": None, "queries": None}  # by the pools
    return options.model_copy(update={"pools": (place,), **resolved}), tuple(places)


def _add_stage(
    united: dict[str, dict[str, Any]], stage: str, shards: Sequence[str], watch: Watch
) -> None:
    """Add the pools of one first stage to the united ones, by query id."""
    rejected = documents = 0
    for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
        if line.pool is None:
            rejected += 1
            continue
        pool = json.loads(line.raw)
        united_pool = united.setdefault(line.pool.query_id, {**pool, "documents": []})
        by_id = {str(document["id"]): document for document in united_pool["documents"]}
        for place, document in enumerate(pool["documents"]):
            documents += 1
            held = by_id.get(str(document["id"]))
            if held is None:
                metadata = {**(document.get("metadata") or {}), FIRST_STAGES: {}}
                held = {**document, "metadata": metadata}
                united_pool["documents"].append(held)
            elif held["content"] != document["content"]:
                raise InputError(
                    f"query {line.pool.query_id}, document {document['id']}: its text in {stage} "
                    "is not that of another first stage; give documents of one id one text"
                )
            held["metadata"][FIRST_STAGES].setdefault(stage, place)
    watch.say(f"First stage {stage}: {counted(documents, 'document')}")
    if rejected:
        watch.say(f"Rejected {counted(rejected, 'invalid line')} of first stage {stage}")


def build_grid(rerankers: Mapping[str, RankerWithOptions], stages: Sequence[str]) -> Grid:
    """Build the rankers of a bake-off: every first stage with every reranker."""
    if not stages:
        return Grid(rerankers, rerankers)
    asked = {name: _asked(*pair) for name, pair in rerankers.items()}
    made = [*_pairs(rerankers, stages)]
    return Grid(
        {ranker.name: (ranker, options) for ranker, options, _ in made},
        asked,
        {ranker.name: pair for ranker, _, pair in made},
    )


def _pairs(
    rerankers: Mapping[str, RankerWithOptions], stages: Sequence[str]
) -> Iterator[tuple[BakeoffRanker, AnnotateOptions, tuple[str, str]]]:
    for stage in stages:
        for name, (ranker, options) in rerankers.items():
            view = "cut-to-stage" if _scores_alone(ranker) else "of-stage"
            protocol = (
                name_staged(view, ranker.protocol, stage) if ranker.judge else ranker.protocol
            )
            pair = replace(
                ranker,
                name=name_pair(stage, name),
                protocol=protocol,
                stage=stage,
                is_united=_scores_alone(ranker),
            )
            yield pair, options.model_copy(update={"protocol": protocol}), (stage, name)


def _asked(ranker: BakeoffRanker, options: AnnotateOptions) -> RankerWithOptions:
    if ranker.judge is None:
        return ranker, options
    view = "of-union" if _scores_alone(ranker) else "of-each-stage"
    protocol = name_staged(view, ranker.protocol)
    return replace(ranker, protocol=protocol), options.model_copy(update={"protocol": protocol})


def _scores_alone(ranker: BakeoffRanker) -> bool:
    """Return whether a pool goes in one request, and yet no score depends on other documents."""
    return ranker.judge is not None and ranker.judge.provider in ENCODERS
