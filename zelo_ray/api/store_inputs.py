"""Write data that callers hold in memory to files below the results, for later runs.

The name of a file is a hash of its content: the same call writes the same file.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from zelo_ray.api.frames import convert_pools, is_dataset, is_frame
from zelo_ray.api.settings import is_place
from zelo_ray.errors import InputError
from zelo_ray.files.schema import split_columns
from zelo_ray.formats.input.stored_inputs import store_input, write_notes
from zelo_ray.options.asking import AskingOptions
from zelo_ray.records import Pool

Asking = TypeVar("Asking", bound=AskingOptions)


def given_paths(given: Any) -> tuple[str, ...] | None:
    """Return paths and URLs as texts; None for anything else."""
    if is_place(given):
        return (os.fspath(given),)
    if not isinstance(given, list | tuple | set | frozenset):
        return None
    if not given:
        raise InputError("inputs: must not be empty")
    texts = tuple(os.fspath(place) for place in given if is_place(place))
    if texts and len(texts) < len(given):
        raise InputError("inputs: cannot mix paths and pools; write all of them to files, or none")
    return texts or None


def store_pools(
    given: Any,
    out: str,
    columns: tuple[str, ...] = (),
    say: Callable[[str], None] = lambda _: None,
    *,
    show: Sequence[str] = (),
    show_metadata: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the paths of pools: the given ones, or that of the file to which they are written.

    Args:
        given: paths, globs and URLs; a frame or a list of dicts, of rows or of pools; a list of
            `Pool`; or a data set with ``docs_iter`` and the like.
        out: directory or URL of the results.
        columns: columns with other names, as ``ROLE=NAME``.
        say: called with each note on what was left out or made up.
        show: fields of queries that judges are shown.
        show_metadata: fields of documents that judges are shown.

    Raises:
        InputError: it is none of these, or cannot be written as pools.
        OptionError: no query has a field that is to be shown.
    """
    places = given_paths(given)
    if places is not None:
        return places
    is_tabular = is_frame(given) or is_dataset(given) or type(given).__name__ == "Series"
    if not (is_tabular or isinstance(given, Mapping | Pool | list | tuple)):
        kind = type(given).__name__
        raise InputError(f"inputs: cannot be a {kind}; write paths, dicts, or a data frame")
    data, notes = convert_pools(given, split_columns(columns), show, show_metadata)
    for line in notes:
        say(line)
    place = store_input(out, "pools", ".jsonl", data)
    write_notes(place, notes)
    return (place,)


def with_pools(
    settings: Asking, name: str, given: Any, out: str, say: Callable[[str], None]
) -> Asking:
    """Return options in which one option names the pools of a caller.

    Args:
        settings: the options.
        name: of the option.
        given: paths, or pools in memory; None leaves the options unchanged.
        out: directory or URL below which pools in memory are written.
        say: called with each note on what was left out or made up.

    Raises:
        InputError, OptionError: as `pools_in`.
    """
    if given is None:  # the config file or a variable may name them
        return settings
    shown = {"show": settings.show_query, "show_metadata": settings.show_metadata}
    paths = store_pools(given, out, settings.columns, say, **shown)
    columns = settings.columns if given_paths(given) else ()
    return settings.model_copy(update={name: paths, "columns": columns})


def store_table(out: str, name: str, table: pa.Table) -> str:
    """Write a table below the results; return its path."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return store_input(out, name, ".parquet", sink.getvalue().to_pybytes())
