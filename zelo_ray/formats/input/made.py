"""Make pools of the content of files and folders, by its kind."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.input import assistants, long, wide
from zelo_ray.formats.input.asked import InputOptions
from zelo_ray.formats.input.collection import (
    Collection,
    lines_of,
    of_collection,
    of_runs,
    texts_at,
)
from zelo_ray.formats.input.kinds import DetectedFile, Kind, lacking
from zelo_ray.formats.input.long import Left, Pool
from zelo_ray.formats.interchange import mteb
from zelo_ray.formats.own_query import without_own

RANKED: frozenset[Kind] = frozenset({"run", "qrels"})
"""Kinds that say which documents are candidates, and hold no texts."""


def made_of(
    folders: Sequence[Collection],
    held: Sequence[DetectedFile],
    input_options: InputOptions,
    notes: Left,
) -> tuple[str, Iterator[Pool]]:
    """Name the kind of folders and files, and make the pools of their content.

    Raises:
        InputError: a folder stands beside files of pools, or something in them is wrong.
        OptionError: texts are missing.
    """
    kinds = dict.fromkeys(file.kind for file in held)
    runs = [file.sight.url for file in held if file.kind == "run"]
    judged = [file.sight.url for file in held if file.kind == "qrels"]
    texts = input_options
    if folders:
        url = folders[0].url
        texts = replace(
            input_options, corpus=input_options.corpus or url, queries=input_options.queries or url
        )
    if held and kinds.keys() <= RANKED and len(folders) <= 1:
        _refuse_lacking(held[0], texts, input_options.command)
        texts.refuse_unfound([name for file in held for name in file.sight.names])
        candidates = of_runs(runs, judged, texts)
        return (held[0].what, lines_of(candidates, notes))
    if folders and not held:
        return "BEIR or MTEB folder", chain.from_iterable(
            _of_folder(f, input_options, notes) for f in folders
        )
    if folders:
        first, second = ([place.url for place in folders] + [place.sight.url for place in held])[:2]
        raise InputError(f"{first} and {second} are of different kinds: bring one kind at a time")
    what = " and ".join(dict.fromkeys(file.what for file in held))
    of_kinds = ([file for file in held if file.kind == kind] for kind in kinds)
    pools = chain.from_iterable(_of_files(files, input_options, notes) for files in of_kinds)
    return what, without_own(pools, notes.made)


def _of_folder(folder: Collection, input_options: InputOptions, notes: Left) -> Iterator[Pool]:
    if not folder.has_candidates:
        error = InputError(f"{folder.url}: nothing in it says which documents to judge")
        error.add_note(f"Give a run as well: {input_options.command or folder.url} RUN")
        raise error
    yield from lines_of(of_collection(folder), notes)


def _refuse_lacking(detected: DetectedFile, input_options: InputOptions, command: str) -> None:
    flags = tuple(flag for flag in detected.lacks if not getattr(input_options, flag))
    if flags:
        raise lacking(detected, flags, command)


def _of_files(
    held: Sequence[DetectedFile], input_options: InputOptions, notes: Left
) -> Iterator[Pool]:
    """Yield the pools of files of one kind."""
    first = held[0]
    if first.kind == "mteb":
        for file in held:
            yield from lines_of(mteb.read_rows(file.sight.url, input_options.show)[0], notes)
    elif first.kind == "assistants":
        rows = chain.from_iterable(e.sight.rows() for e in held)
        yield from assistants.pools(rows, notes, input_options.show)
    elif first.kind in ("wide", "pools"):
        for file in held:
            name = file.columns.get("documents", "documents")
            yield from wide.pools(file.sight.rows(), name, file.columns, notes, input_options.show)
    else:
        yield from _of_rows(held, input_options, notes)


def _of_rows(
    held: Sequence[DetectedFile], input_options: InputOptions, notes: Left
) -> Iterator[Pool]:
    """Yield the pools of rows with one document each, which several files may hold."""
    columns = held[0].columns
    for file in held:
        _refuse_lacking(file, input_options, input_options.command)
        if file.columns.keys() != columns.keys():
            raise InputError(f"{file.sight.url}: has other columns than {held[0].sight.url}")
    fields = long.field_columns(input_options.show)
    tables = []
    for file in held:
        wanted = {**file.columns, **fields}
        rows = file.sight.rows([*dict.fromkeys(wanted.values())])
        tables.append(long.gather(rows, wanted).select([*columns, *fields]))
    table = pa.concat_tables(tables)
    input_options.refuse_unfound([name for source in held for name in source.sight.names])
    more = (
        ("queries",)
        if input_options.show and input_options.queries and "query_id" in columns
        else ()
    )
    texts = texts_at(input_options, {*held[0].lacks, *more}, table, held[0].sight.url)
    yield from long.pools(table, held[0].sight.url, notes, texts)
