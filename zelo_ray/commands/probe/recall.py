"""Ask judges for documents by their queries, and compare what they write with the documents.

What a judge writes for a query is compared with that query's documents, and with those of one other
query, which is drawn: the next one in a random cycle over all queries. A judge that remembers none
repeats either equally often, so that the difference is a shift as those of other probes are. What
both queries have counts for the judge's own alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from zelo_ray.commands.probe.measured import ShiftedJudgment, read_rows
from zelo_ray.commands.probe.sample import (
    LARGEST_LINE,
    ProbedPair,
    ProbeSample,
    count_documents,
    draw_documents,
    pool_line,
    read_chosen_pools,
)
from zelo_ray.errors import InputError
from zelo_ray.evaluation.recitation import Repeated, find_repeated
from zelo_ray.formats.files import open_for_writing
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.wording import counted
from zelo_ray.options import ProbeOptions
from zelo_ray.protocols.recitation import TABLE, Recitation
from zelo_ray.records import Document, Pool

RECALL = "recall"


@dataclass(frozen=True, slots=True)
class RepeatedPassage:
    """A document that a judge repeated word for word, without being shown it.

    ``words`` is how many words of its answer stand in runs of thirteen or more that the document
    has, too, and ``share`` their share of the answer; ``run`` is the longest run, as the judge
    wrote it. ``key`` is of the reply.
    """

    judge: str
    query_id: str
    doc_id: str
    words: int
    share: float
    run: str
    key: str


def draw_queries(options: ProbeOptions, shards: Sequence[str], folder: str) -> ProbeSample:
    """Draw queries with all of their documents, and write their pools to a file of a folder.

    Raises:
        InputError: fewer than two queries have documents.
    """
    counts, rejected = count_documents(shards, options.document_limit)
    chosen = draw_documents(counts, options.documents, options.seed)
    place, documents, written = f"{folder.rstrip('/')}/pools.jsonl", 0, list[str]()
    with open_for_writing(place) as file:
        for pool in read_chosen_pools(shards, chosen):
            own = pool.documents[: options.document_limit]
            line = json.dumps(pool_line(pool, pool.query_id, own), ensure_ascii=False).encode()
            if len(line) > LARGEST_LINE:
                continue
            file.write(line + b"\n")
            documents += len(own)
            written.append(pool.query_id)
    if len(written) < 2:
        raise InputError(
            "the probe recall takes two queries with documents or more (--documents), as answers "
            "to one are compared with the documents of another"
        )
    long = len(chosen) - len(written)
    cycle = sorted(written)
    Random(f"{options.seed}:probe:{RECALL}").shuffle(cycle)
    return ProbeSample(
        pairs=[
            ProbedPair(RECALL, query_id, "", query_id, original_id=other, changed_id=query_id)
            for query_id, other in pairwise([*cycle, cycle[0]])
        ],
        place=place,
        queries=len(written),
        documents=documents,
        rejected=rejected,
        notes=[f"{counted(long, 'query', 'queries')} left out, with too long texts"]
        if long
        else [],
    )


class Recitations:
    """Answers of judges, compared with documents; ``repeated`` collects what they repeated."""

    def __init__(self, judged: str, pools: str) -> None:
        columns = ("judge", "query_id", "text", "key")
        rows = read_rows(judged, TABLE, columns, Recitation)
        self._written = {(judge, query_id): (text, key) for judge, query_id, text, key in rows}
        self._pools: Mapping[str, Pool] = {
            line.pool.query_id: line.pool for line in read_lines(pools, LineLimits()) if line.pool
        }
        self.repeated = list[RepeatedPassage]()

    def of_pair(self, judge: str, pair: ProbedPair) -> ShiftedJudgment | None:
        """Return how much a judge's answer repeats of its query's documents and of another's."""
        if (written := self._written.get((judge, pair.pool_id))) is None:
            return None
        text, key = written
        pool = self._pools[pair.pool_id]
        shared = {document.content for document in pool.documents}
        others = self._pools[pair.original_id].documents
        others = tuple(document for document in others if document.content not in shared)
        _, by_chance = _compare(text, pool.query, others)
        doc_id, repeated = _compare(text, pool.query, pool.documents)
        if repeated.words:
            self.repeated.append(
                RepeatedPassage(
                    judge, pair.query_id, doc_id, repeated.words, repeated.share, repeated.run, key
                )
            )
        names = (judge, pair.probe, pair.query_id, doc_id)
        shift = repeated.share - by_chance.share
        return ShiftedJudgment(*names, by_chance.share, repeated.share, shift, (key,))


def _compare(text: str, query: str, documents: Sequence[Document]) -> tuple[str, Repeated]:
    """Return the document of which an answer repeats most, and what it repeats; "" if nothing."""
    none = ("", find_repeated(text, ""))
    every = ((each.id, find_repeated(text, each.content, query)) for each in documents)
    return max((none, *every), key=lambda entry: entry[1].words)
