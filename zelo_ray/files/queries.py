"""Find a query of a run by its id, the beginning of it, or a part of its text.

What is not found, or more than once, is a `NotFoundError`.
"""

from collections.abc import Iterable, Iterator, Sequence

from zelo_ray.errors import NotFoundError
from zelo_ray.files.pools import LineLimits, parse_line, query_in
from zelo_ray.files.storage import exists, list_directory, read_placed_lines
from zelo_ray.files.tables import parquet_table
from zelo_ray.names import did_you_mean
from zelo_ray.records import Pool


def complete_name(name: str, names: Sequence[str]) -> str:
    """Return the name itself, or the only known name that begins with it."""
    begin = [candidate for candidate in names if candidate.startswith(name)]
    if name in names or not begin:
        return name
    return _only(begin, f"several begin with {name!r}")


def find_by_text(given: str, places: Iterable[str]) -> str:
    """Return the id of the only query with, or containing, this text; "" if there is none."""
    texts = {id_: _plain(text) for id_, text in queries_in(places) if _plain(given) in _plain(text)}
    found = [id_ for id_, text in texts.items() if text == _plain(given)] or [*texts]
    return _only(found, f"{given!r} is in the text of several queries") if found else ""


def _only(names: Sequence[str], several: str) -> str:
    if names[1:]:
        raise NotFoundError(f"{several}: {', '.join(names[:8])}{' ...' if names[8:] else ''}")
    return names[0]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def queries_in(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each query in JSON lines files."""
    for place in filter(exists, places):
        yield from (query for _, line in read_placed_lines(place) if (query := query_in(line))[0])


def list_queries(out: str) -> dict[str, str]:
    """Return the texts of the queries of a run by id, in their order; "" where it is not known."""
    texts = dict(queries_in([f"{out.rstrip('/')}/annotated.jsonl"]))
    if not texts and exists(f"{out}/scores.parquet"):
        scores = parquet_table(f"{out}/scores.parquet", ["query_id"])
        texts = dict.fromkeys(map(str, scores["query_id"].to_pylist()), "")
    if not texts:
        is_gone = list_directory(out) is None
        what = "there is no such directory" if is_gone else "it has no queries"
        raise NotFoundError(f"{out}: {what}; name the --out of annotate")
    return texts


def find_query(out: str, given: str) -> str:
    """Return the id of the query of a run that is meant."""
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
