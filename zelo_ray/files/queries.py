"""Find a query of a run by its id, the beginning of it, or a part of its text."""

from collections.abc import Iterable, Iterator, Sequence

from zelo_ray.errors import NotFoundError
from zelo_ray.files.pools import LineLimits, parse_line, query_in
from zelo_ray.files.storage import exists, list_directory, read_placed_lines
from zelo_ray.files.tables import StoredTable
from zelo_ray.names import did_you_mean
from zelo_ray.records import Pool

_FEW = 8  # names that a message lists


def complete_name(name: str, names: Sequence[str]) -> str:
    """Return the name itself, or the only known name that begins with it.

    Raises:
        NotFoundError: several begin so.
    """
    begin = [candidate for candidate in names if candidate.startswith(name)]
    if name in names or not begin:
        return name
    return _only(begin, f"several begin with {name!r}")


def find_by_text(given: str, places: Iterable[str]) -> str:
    """Return the id of the only query with, or containing, this text; empty if there is none.

    Raises:
        NotFoundError: there are several.
    """
    wanted, same, parts = _plain(given), list[str](), list[str]()
    for query_id, text in queries_in(places):
        if _plain(text) == wanted:
            same.append(query_id)
        elif wanted in _plain(text):
            parts.append(query_id)
    found = [*dict.fromkeys(same or parts)]
    return _only(found, f"{given!r} is in the text of several queries") if found else ""


def _only(names: Sequence[str], several: str) -> str:
    if len(names) > 1:
        more = f" and {len(names) - _FEW:,} more" if len(names) > _FEW else ""
        raise NotFoundError(f"{several}: {', '.join(names[:_FEW])}{more}")
    return names[0]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def queries_in(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each query in JSON lines files."""
    for place in places:
        for _, line in read_placed_lines(place) if exists(place) else ():
            if (query := query_in(line))[0]:
                yield query


def list_queries(out: str) -> dict[str, str]:
    """Return the texts of the queries of a run by id, in their order; "" where it is not known.

    Raises:
        NotFoundError: it holds none.
    """
    texts = dict(queries_in([f"{out.rstrip('/')}/annotated.jsonl"]))
    if not texts and exists(f"{out}/scores.parquet"):
        texts = dict.fromkeys(map(str, StoredTable(f"{out}/scores.parquet").query_ids()), "")
    if not texts:
        gone = list_directory(out) is None
        what = "there is no such directory" if gone else "it has no queries"
        raise NotFoundError(f"{out}: {what}; name the --out of annotate")
    return texts


def find_query(out: str, given: str) -> str:
    """Return the id of the query of a run that is meant.

    Raises:
        NotFoundError: there is none, or several.
    """
    texts = list_queries(out)
    query_id = complete_name(given, [*texts])
    if query_id not in texts:
        query_id = find_by_text(given, [f"{out.rstrip('/')}/annotated.jsonl"])
    if not query_id:
        raise NotFoundError(f"{out} has no query {given!r}{did_you_mean(given, texts)}")
    return query_id


def read_pool(out: str, query_id: str) -> Pool | None:
    """Read a query with its documents from ``annotated.jsonl``; None if it is not there."""
    place = f"{out.rstrip('/')}/annotated.jsonl"
    for _, line in read_placed_lines(place) if exists(place) else ():
        if query_in(line)[0] == query_id:
            return parse_line(place, 0, line, LineLimits()).pool
    return None
