"""Find queries of a run by id or text, with their documents, or among the rejected lines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from zelo_ray.commands.explain.paragraphs import first_words
from zelo_ray.errors import NotFoundError
from zelo_ray.files.pools import LineLimits, parse_line, query_in
from zelo_ray.files.storage import exists, list_directory, read_placed_lines
from zelo_ray.files.tables import StoredTable
from zelo_ray.files.wording import counted
from zelo_ray.records import Pool

_LISTED = 10
_FEW = 8  # names that a message lists


def read_pool(out: str, query_id: str) -> Pool | None:
    """Read a query with its documents from ``annotated.jsonl``; None if it is not there.

    Lines without the id are skipped unparsed, as there may be a million.
    """
    written = orjson.dumps(query_id)[1:-1], query_id.encode(errors="replace")
    for place, line in _lines([f"{out.rstrip('/')}/annotated.jsonl"]):
        if any(form in line for form in written) and query_in(line)[0] == query_id:
            return parse_line(place, 0, line, LineLimits()).pool
    return None


def ids_in(places: Iterable[str]) -> list[str]:
    """Return the distinct query ids in JSON lines files; lines without one are skipped."""
    return [*dict.fromkeys(query_id for query_id, _ in _texts(places))]


def complete_name(name: str, names: Sequence[str]) -> str:
    """Return the name itself, or the only known name that begins with it.

    Raises:
        NotFoundError: several begin so.
    """
    begin = [candidate for candidate in names if candidate.startswith(name)]
    if name in names or not begin:
        return name
    if len(begin) > 1:
        more = f" and {len(begin) - _FEW:,} more" if len(begin) > _FEW else ""
        raise NotFoundError(f"several begin with {name!r}: {', '.join(begin[:_FEW])}{more}")
    return begin[0]


def list_queries(out: str) -> dict[str, str]:
    """Return the texts of the queries of a run by id, in their order; "" where it is not known.

    Raises:
        NotFoundError: it holds none.
    """
    texts = dict(_texts([f"{out.rstrip('/')}/annotated.jsonl"]))
    if not texts and exists(f"{out}/scores.parquet"):
        texts = dict.fromkeys(map(str, StoredTable(f"{out}/scores.parquet").query_ids()), "")
    if not texts:
        gone = list_directory(out) is None
        what = "there is no such directory" if gone else "it has no queries"
        raise NotFoundError(f"{out}: {what}; name the --out of annotate")
    return texts


def describe_queries(out: str, texts: Mapping[str, str]) -> list[str]:
    """Return lines on the first queries of a run, of which there is at least one."""
    shown = [*texts.items()][:_LISTED]
    wide = max(len(query_id) for query_id, _ in shown)
    rows = [f"  {query_id:{wide}}  {first_words(text)}".rstrip() for query_id, text in shown]
    more = [f"  … {len(texts) - _LISTED:,} more"] if len(texts) > _LISTED else []
    head = f"{out} has {counted(len(texts), 'query', 'queries')}; name one by id or text:"
    return [head, *rows, *more]


def find_by_text(given: str, places: Iterable[str]) -> str:
    """Return the id of the only query with, or containing, this text; empty if there is none.

    Raises:
        NotFoundError: there are several.
    """
    sought, exact, parts = _plain(given), dict[str, None](), dict[str, None]()
    for query_id, text in _texts(places):
        wording = _plain(text)
        if wording == sought:
            exact[query_id] = None
        elif sought in wording:
            parts[query_id] = None
    if len(matches := [*(exact or parts)]) > 1:
        few = ", ".join(matches[:_LISTED]) + (" …" if matches[_LISTED:] else "")
        raise NotFoundError(f"{given!r} is in the text of several queries: {few}")
    return matches[0] if matches else ""


def known_ids(out: str) -> list[str]:
    """Return the ids of the queries of a finished run."""
    scored = StoredTable(f"{out}/scores.parquet").query_ids()
    return [*dict.fromkeys([*ids_in([f"{out.rstrip('/')}/annotated.jsonl"]), *scored])]


def _texts(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    return (query for _, line in _lines(places) if (query := query_in(line))[0])


def _lines(places: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for place in places:
        yield from read_placed_lines(place) if exists(place) else ()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
