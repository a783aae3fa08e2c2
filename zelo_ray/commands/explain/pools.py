"""The texts of a query and its documents, found in the lines of a run, and names near a name."""

from collections.abc import Iterable, Iterator, Sequence

import orjson

from zelo_ray.errors import NothingToExplain
from zelo_ray.formats.files import lines, pieces
from zelo_ray.formats.pools import LineLimits, parse_line
from zelo_ray.options import meant
from zelo_ray.records import Pool

_FEW = 8  # names that a message lists


def pool_of(out: str, query_id: str) -> Pool | None:
    """Return a query with its documents from ``annotated.jsonl``; None where it is not there.

    Lines that cannot hold the id are passed over unread: a file may hold a million of them.
    """
    written = orjson.dumps(query_id)[1:-1], query_id.encode(errors="replace")
    for place, line in _lines_of(out):
        if any(form in line for form in written) and _id_in(line) == query_id:
            return parse_line(place, 0, line, LineLimits()).pool
    return None


def ids_in(places: Iterable[str]) -> list[str]:
    """Return the query ids in JSON lines files, each once; lines without any are left out."""
    ids = (_id_in(line) for place in places if pieces(place) for _, line in lines(place))
    return [*dict.fromkeys(found_id for found_id in ids if found_id)]


def meant_by(name: str, names: Sequence[str]) -> str:
    """Return the name itself, or the only known one that begins with it.

    Raises:
        NothingToExplain: several begin so.
    """
    begin = [candidate for candidate in names if candidate.startswith(name)]
    if name in names or not begin:
        return name
    if len(begin) > 1:
        more = f" and {len(begin) - _FEW:,} more" if len(begin) > _FEW else ""
        raise NothingToExplain(f"several begin with {name!r}: {', '.join(begin[:_FEW])}{more}")
    return begin[0]


def nearest(name: str, names: Iterable[str]) -> str:
    """Suggest what an unknown name may have meant, as the end of a line."""
    return meant(name, names)


def _lines_of(out: str) -> Iterator[tuple[str, bytes]]:
    place = f"{out.rstrip('/')}/annotated.jsonl"
    return lines(place) if pieces(place) else iter(())


def _id_in(line: bytes) -> str:
    try:
        return str(orjson.loads(line)["query"]["id"])
    except (ValueError, TypeError, KeyError):
        return ""
