"""Read the texts of the documents that people judge, from the pools of a bake-off."""

from collections.abc import Iterable, Mapping, Sequence

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.errors import InputError
from zelo_ray.files.judgments import pools_file_of_truth
from zelo_ray.files.labels import DOCUMENT, PAIR, Ids
from zelo_ray.files.make_pools import Shown, ShownFields
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.storage import find_shards
from zelo_ray.protocols.texts import shown_query

Texts = Mapping[Ids, tuple[str, ...]]
"""By document or pair, the text of its query, and its own text or texts."""


def pools_of_bakeoff(contest: BakeoffOptions) -> tuple[str, ...]:
    """Return the paths of the pools of a bake-off; none if it had none."""
    truth_pools = None if contest.pools else pools_file_of_truth(contest.truth)
    return contest.pools or ((truth_pools,) if truth_pools else ())


def read_document_texts(
    places: Sequence[str], wanted: Iterable[Ids], show: Sequence[str] = ()
) -> Texts:
    """Read the texts of some documents or pairs from pools, with more fields of their queries.

    What has a text that is in no pool is left out.

    Raises:
        InputError: a path does not exist, or cannot be read.
        OptionError: no query has one of the fields.
    """
    fields = ShownFields(Shown(tuple(show)))
    wanted, by_query = [*wanted], dict[str, set[str]]()
    for query_id, *doc_ids in wanted:
        by_query.setdefault(query_id, set()).update(doc_ids)
    texts: dict[Ids, tuple[str, str]] = {}
    for shard in find_shards(places) if places and by_query else ():
        for pool in (line.pool for line in read_lines(shard, LineLimits()) if line.pool):
            fields.count(pool.about)
            for document in pool.documents:
                if document.id in by_query.get(pool.query_id, ()):
                    texts.setdefault(
                        (pool.query_id, document.id), (shown_query(pool, show), document.content)
                    )
    fields.check(", ".join(places))
    by_ids = dict[Ids, tuple[str, ...]]()
    for ids in wanted:
        pairs = [(ids[0], doc_id) for doc_id in ids[1:]]
        pool_texts = [texts[pair] for pair in pairs if pair in texts]
        if len(pool_texts) == len(pairs):
            by_ids[ids] = (pool_texts[0][0], *(text for _, text in pool_texts))
    return by_ids


def refuse_missing_texts(lacking: Sequence[Ids], places: Sequence[str]) -> None:
    """Refuse documents without a text: people could not judge them.

    Raises:
        InputError: a document has no text.
    """
    if lacking:
        more = f" (nor for {len(lacking) - 1:,} others)" if lacking[1:] else ""
        where = f"in {', '.join(places)}" if places else "where the bake-off's pools would be"
        unit = DOCUMENT if len(lacking[0]) == len(DOCUMENT.ids) else PAIR
        raise InputError(
            f"no text for {unit.name_ids(lacking[0])}{more} {where}; name JSON "
            "lines with the documents by --pools"
        )
