"""Read the texts of the documents that people judge, from the pools of a bake-off."""

from collections.abc import Iterable, Mapping, Sequence

from zelo_ray.errors import InputError
from zelo_ray.formats.judgments.answers import Pair
from zelo_ray.formats.judgments.qrels import pools_file_of_truth
from zelo_ray.formats.pools import LineLimits, find_shards, read_lines
from zelo_ray.formats.shown_fields import ShownFields
from zelo_ray.options.bakeoff import BakeoffOptions
from zelo_ray.protocols.texts import shown_query

Texts = Mapping[Pair, tuple[str, str]]
"""By document, the text of its query and its own text."""


def pools_of_bakeoff(contest: BakeoffOptions) -> tuple[str, ...]:
    """Return the paths of the pools of a bake-off; none if it had none."""
    truth_pools = None if contest.pools else pools_file_of_truth(contest.truth)
    return contest.pools or ((truth_pools,) if truth_pools else ())


def read_document_texts(
    places: Sequence[str], wanted: Iterable[Pair], show: Sequence[str] = ()
) -> Texts:
    """Read the texts of some documents from pools, with more fields of their queries.

    Raises:
        InputError: a path does not exist, or cannot be read.
        OptionError: no query has one of the fields.
    """
    fields = ShownFields(show)
    by_query: dict[str, set[str]] = {}
    for query_id, doc_id in wanted:
        by_query.setdefault(query_id, set()).add(doc_id)
    texts: dict[Pair, tuple[str, str]] = {}
    for shard in find_shards(places) if places and by_query else ():
        for pool in (line.pool for line in read_lines(shard, LineLimits()) if line.pool):
            fields.count_fields(pool.about)
            for document in pool.documents:
                if document.id in by_query.get(pool.query_id, ()):
                    texts.setdefault(
                        (pool.query_id, document.id), (shown_query(pool, show), document.content)
                    )
    fields.refuse_unknown(", ".join(places))
    return texts


def refuse_missing_texts(lacking: Sequence[Pair], places: Sequence[str]) -> None:
    """Refuse documents without a text: people could not judge them.

    Raises:
        InputError: a document has no text.
    """
    if lacking:
        query_id, doc_id = lacking[0]
        more = f" (nor for {len(lacking) - 1:,} others)" if lacking[1:] else ""
        where = f"in {', '.join(places)}" if places else "where the bake-off's pools would be"
        raise InputError(
            f"no text for document {doc_id!r} of query {query_id!r}{more} {where}; name JSON "
            "lines with the documents by --pools"
        )
