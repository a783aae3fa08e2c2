"""Judgments of a protocol of the user's, as grades or votes that `agree` measures."""

from collections.abc import Iterable, Iterator

import pyarrow.parquet as pq

from zelo_ray.errors import InputError
from zelo_ray.formats.files import listing, record
from zelo_ray.formats.record import RUN, refuse_unfinished
from zelo_ray.formats.stored import parquet_table
from zelo_ray.options.places import split_name
from zelo_ray.own import is_own
from zelo_ray.protocols import Protocol, of_record


def readable(sources: Iterable[str], folder: str) -> Iterator[str]:
    """Yield the sources, with runs by the user's own protocols written out as files of judgments.

    Args:
        sources: as `agree` takes them.
        folder: where such files are written.

    Raises:
        InputError: a protocol compares and grades nothing.
    """
    for number, source in enumerate(sources):
        protocol = _own(split_name(source)[1])
        yield from [source] if protocol is None else _written(source, protocol, folder, number)


def _own(url: str) -> Protocol | None:
    """Return the protocol of a run, if it is the user's own; else None."""
    if RUN not in (listing(url) or ()):
        return None
    run_record = record(f"{url.rstrip('/')}/{RUN}")
    options = run_record.get("options")
    name = options.get("protocol", "") if isinstance(options, dict) else ""
    return of_record(run_record) if is_own(str(name)) else None


def _written(url: str, protocol: Protocol, folder: str, number: int) -> Iterator[str]:
    refuse_unfinished(url)
    kinds = {name: kind.as_votes or kind.as_grades for name, kind in protocol.counted.items()}
    if not any(kinds.values()):
        raise InputError(f"{url}: its protocol, {protocol.name}, gives neither grades nor votes")
    for name, read in kinds.items():
        if read:
            place = f"{folder}/{number}-{name}.parquet"
            kind = protocol.judgments[name]
            rows = parquet_table(f"{url.rstrip('/')}/{name}.parquet", [*kind.fields])
            pq.write_table(read(rows), place)
            yield place
