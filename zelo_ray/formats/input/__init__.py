"""Recognise the input of users by its content, and turn it into JSON lines of pools."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import pyarrow as pa
from fsspec.core import has_magic

from zelo_ray.errors import InputError, UnreadableFile
from zelo_ray.formats.columns import split_columns
from zelo_ray.formats.files import list_directory
from zelo_ray.formats.input import assistants, long, wide
from zelo_ray.formats.input.collection import (
    Collection,
    make_collection_pools,
    make_run_pools,
    pools_as_lines,
    read_missing_texts,
)
from zelo_ray.formats.input.input_options import InputOptions
from zelo_ray.formats.input.kinds import DetectedFile, Kind, detect_kind, missing_texts_error
from zelo_ray.formats.input.long import ConversionNotes, Pool, note_single_documents
from zelo_ray.formats.input.places import Places, find_places
from zelo_ray.formats.input.public_collections import note_public
from zelo_ray.formats.input.row_places import RowPlaces
from zelo_ray.formats.input.stored_inputs import (
    find_conversion,
    hash_sources,
    pool_to_line,
    record_conversion,
    store_pools,
    write_folder_notes,
    write_notes,
)
from zelo_ray.formats.interchange import mteb
from zelo_ray.formats.interchange.texts import FilledPools
from zelo_ray.formats.judgments.grades import NO_COLUMNS
from zelo_ray.formats.judgments.qrels import read_judged_pools
from zelo_ray.formats.own_query import drop_own_queries
from zelo_ray.formats.pools import find_shards, is_jsonl, parse_pool
from zelo_ray.formats.probe import FileProbe, is_dataset_name, probe, refuse_unused_columns
from zelo_ray.formats.shown_fields import ShownFields
from zelo_ray.names import split_name
from zelo_ray.options import AskingOptions

RANKED: frozenset[Kind] = frozenset({"run", "qrels"})
"""Kinds that say which documents are candidates, and hold no texts."""
__all__ = [
    "ConvertedInputs",
    "InputOptions",
    "convert_inputs",
    "pools_of",
    "read_pools",
    "resolve_inputs",
]
_VERSION = 3
_JUDGMENTS = ("truth", "human", "runs")
"""The options that name files beside the pools, whose columns may be named, too."""
Asking = TypeVar("Asking", bound=AskingOptions)


@dataclass(frozen=True, slots=True)
class ConvertedInputs:
    """The places of pools as JSON lines, and messages on their conversion."""

    places: tuple[str, ...]
    notes: tuple[str, ...] = ()
    made_file: str = ""
    """the file of converted pools, which the first message names; empty if there is none"""

    def lines(self, *, keep: bool = True) -> Iterator[str]:
        """Yield the messages, with the path of the file of pools if it is kept."""
        for number, line in enumerate(self.notes):
            where = (
                f"; pools written to {self.made_file}"
                if self.made_file and keep and not number
                else ""
            )
            yield f"{line}{where}"


def resolve_inputs(
    options: Asking,
    out: str,
    say: Callable[[str], None],
    name: str = "inputs",
    *,
    keep: bool = True,
) -> Asking:
    """Convert the input of a command to JSON lines of pools; return options that name these.

    Args:
        options: of the command.
        out: directory or URL below which converted pools are stored.
        say: called with each message.
        name: of the option that holds the input.
        keep: whether the converted pools are kept.

    Raises:
        InputError: the input is of no known kind, or invalid.
        OptionError: it lacks texts and no option names them, or it lacks a field to be shown.
    """
    patterns: tuple[str, ...] = getattr(options, name)
    others = [place for name in _JUDGMENTS for place in _places(getattr(options, name, None))]
    columns = split_columns(options.columns)
    files = find_places(patterns, out).files if patterns and columns else ()
    if others := [*others, *(files if len(files) > 1 else ())]:
        texts = [place for place in (options.corpus, options.queries) if place]
        refuse_unused_columns(columns, dict.fromkeys([*others, *files, *texts]))
    if not patterns:
        return options
    request = InputOptions(
        options.corpus,
        options.queries,
        columns,
        options.command_line(name),
        options.show_query,
        options.show_metadata,
        beside_others=bool(others),
    )
    pools = convert_inputs(patterns, out, request)
    for line in pools.lines(keep=keep):
        say(line)
    if pools.places == patterns and (
        unused := [f"--{n}" for n in ("corpus", "queries") if getattr(options, n)]
    ):
        say(f"not used, since the input holds its texts: {', '.join(unused)}")
    if pools.places == patterns:
        return options
    return options.model_copy(update={name: pools.places, "corpus": None, "queries": None})


def _places(option: str | Sequence[str] | None) -> list[str]:
    """Return the places that an option names, without their names."""
    places = [option] if isinstance(option, str) else [*(option or ())]
    return [place if list_directory(place) else split_name(place)[1] for place in places]


def convert_inputs(
    patterns: Sequence[str], out: str, input_options: InputOptions
) -> ConvertedInputs:
    """Find the pools in some places; use JSON lines of pools as they are, and convert the rest.

    Args:
        patterns: paths, directories, globs and URLs.
        out: directory or URL of the results; converted pools are stored in ``input/`` below it.
        input_options: the options on the input.

    Raises:
        InputError: a place holds nothing that is known, or something wrong.
        OptionError: texts are missing, or what judges are to be shown.
    """
    places = find_places(patterns, out)
    shards, held = _probe_places(places, input_options)
    kept = [*(folder.url for folder in places.folders), *(file.probe.place for file in held)]
    notes = [*places.describe_left_out(), *note_public([*patterns, *kept])]
    write_folder_notes(out, notes)
    if not held and not places.folders:
        as_named = shards == find_shards(patterns, out)
        return ConvertedInputs(tuple(patterns) if as_named else tuple(shards), tuple(notes))
    sources = [*(folder.url for folder in places.folders), *(file.probe.place for file in held)]
    texts = [url for url in (input_options.corpus, input_options.queries) if url]
    told_of = (
        _VERSION,
        input_options.corpus,
        input_options.queries,
        input_options.columns,
        input_options.show,
        input_options.show_metadata,
    )
    mark = hash_sources([*sources, *texts], out, *told_of)
    if made := find_conversion(out, mark):
        return ConvertedInputs((*shards, made[0]), (*made[1], *notes), made[0])
    output = _write_pools(places.folders, held, input_options, out, mark)
    return ConvertedInputs((*shards, output[0]), (*output[1], *notes), output[0])


def _write_pools(
    folders: Sequence[Collection],
    held: Sequence[DetectedFile],
    input_options: InputOptions,
    out: str,
    mark: str,
) -> tuple[str, list[str]]:
    """Write pools from input of other kinds; return their path, and messages."""
    notes, names = ConversionNotes(), [name for file in held for name in file.probe.names]
    what, pools = make_pools(folders, held, input_options, notes)
    source = [*(folder.url for folder in folders), *(file.probe.place for file in held)][0]
    pools = ShownFields(input_options.show).count_passing(
        note_single_documents(pools, notes), source, names
    )
    place, queries, documents = store_pools(out, pools)
    if not documents:
        raise InputError("; ".join([f"{source}: no query has a document", *notes.to_lines()]))
    messages = [f"{what}: {long.describe_counts(queries, documents)}", *notes.to_lines()]
    write_notes(place, messages[1:])
    record_conversion(out, mark, place, messages)
    return place, messages


def read_pools(place: str, columns: Mapping[str, str] = NO_COLUMNS) -> FilledPools:
    """Read the pools of a place of any kind that holds texts, in memory.

    Args:
        place: judgments with texts, or an input of `annotate`.
        columns: by role, the name of a column that is not called as is usual.

    Raises:
        InputError: it holds no texts, or something in it is wrong.
        OptionError: its texts are in other files.
    """
    if not has_magic(place) and (judged := read_judged_pools(probe(place))) is not None:
        return judged
    notes = ConversionNotes()
    pools = [
        parse_pool(f"{place}: pool {number}", pool_to_line(pool))
        for number, pool in enumerate(pools_of([place], InputOptions(columns=columns), notes)[1], 1)
    ]
    return FilledPools(pools, notes.to_lines())


def pools_of(
    patterns: Sequence[str], asked: InputOptions, left: ConversionNotes
) -> tuple[str, Iterator[Pool]]:
    """Return the kind of input in some places, in words, and its pools; write nothing.

    Raises:
        InputError, OptionError: as `convert_inputs`.
    """
    places = find_places(patterns, "")
    held = _without_ranked(_detect_files(list(places.files), asked, places), places)
    left.made_up |= dict.fromkeys(places.describe_left_out())
    return make_pools(places.folders, held, asked, left)


def probe_or_broken(file: str) -> FileProbe:
    """Probe a file; take a truncated one for JSON lines of which some are invalid."""
    try:
        return probe(file)
    except UnreadableFile:
        if is_jsonl(file):
            return FileProbe(file, "broken", "broken")
        raise


def _probe_places(
    places: Places, input_options: InputOptions
) -> tuple[list[str], list[DetectedFile]]:
    """Return the files that are JSON lines of pools, and what the other files hold.

    Raises:
        InputError: a file that was named holds nothing that is known, or another kind.
    """
    files = list(places.files)
    shards = list[str]()
    first = next((file for file in files if is_jsonl(file) or not places.files[file]), "")
    if (
        first and not places.folders and _is_pools(first, input_options)
    ):  # one look tells of all shards
        shards = [file for file in files if file == first or is_jsonl(file)]
    held = _detect_files([file for file in files if file not in {*shards}], input_options, places)
    if places.folders:
        return [], held
    held = _without_ranked(held, places, shards)
    shards += [file.probe.place for file in held if file.kind == "pools"]
    return sorted(shards, key=files.index), [file for file in held if file.kind != "pools"]


def _without_ranked(
    held: Sequence[DetectedFile], places: Places, shards: Sequence[str] = ()
) -> list[DetectedFile]:
    """Leave out the runs and judgments found in folders, if other files hold pools.

    Raises:
        InputError: such a file was named.
    """
    of_pools = [*shards, *(source.probe.place for source in held if source.kind not in RANKED)]
    files = list[DetectedFile]()
    for file in held:
        if not of_pools or file.kind not in RANKED:
            files.append(file)
            continue
        url = file.probe.place
        if not places.files[url]:
            others = f"{url} and {of_pools[0]} are of different kinds"
            raise InputError(f"{others}; give one kind at a time")
        places.leave(InputError(f"{url}: holds {file.kind_name}, and other files there pools"), url)
    return files


def _is_pools(file: str, input_options: InputOptions) -> bool:
    try:
        return _detect_file(probe_or_broken(file), input_options).kind == "pools"
    except InputError:
        return False


def _detect_file(source: FileProbe, input_options: InputOptions) -> DetectedFile:
    return detect_kind(source, input_options.columns_of_input(source))


def _refuse_empty(source: FileProbe) -> None:
    if source.form == "broken" and not is_jsonl(source.place):
        raise InputError(f"{source.place}: holds nothing that can be read")


def _detect_files(
    files: Sequence[str], input_options: InputOptions, places: Places
) -> list[DetectedFile]:
    """Return what files hold; leave out files of folders whose content is not known.

    JSON lines of nothing known that were named beside pools count as lines that are bad.
    """
    held, strange = list[DetectedFile](), dict[str, InputError]()
    for file in files:
        form = ""
        try:
            source = probe_or_broken(file)
            form = source.form
            if places.files[file]:
                _refuse_empty(source)
            held.append(_detect_file(source, input_options))
        except InputError as error:
            if places.files[file]:
                places.leave(error, file)
            elif form == "lines":
                held.append(DetectedFile(source, "pools", {}))
                strange[file] = error
            else:
                raise
    if strange and not any(e.kind == "pools" and e.probe.place not in strange for e in held):
        raise next(iter(strange.values()))
    places.refuse_if_empty()
    return held


def make_pools(
    folders: Sequence[Collection],
    held: Sequence[DetectedFile],
    input_options: InputOptions,
    notes: ConversionNotes,
) -> tuple[str, Iterator[Pool]]:
    """Name the kind of folders and files, and make the pools of their content.

    Raises:
        InputError: a folder stands beside files of pools, or something in them is wrong.
        OptionError: texts are missing.
    """
    kinds = dict.fromkeys(file.kind for file in held)
    runs = [file.probe.place for file in held if file.kind == "run"]
    judged = [file.probe.place for file in held if file.kind == "qrels"]
    texts = input_options
    if folders:
        url = folders[0].url
        texts = replace(
            input_options, corpus=input_options.corpus or url, queries=input_options.queries or url
        )
    if held and kinds.keys() <= RANKED and len(folders) <= 1:
        _refuse_lacking(held[0], texts, input_options.command)
        texts.refuse_missing_columns([name for file in held for name in file.probe.names])
        candidates = make_run_pools(runs, judged, texts)
        return (held[0].kind_name, pools_as_lines(candidates, notes))
    if folders and not held:
        named = all(is_dataset_name(folder.url) for folder in folders)
        what = "data set of ir_datasets" if named else "BEIR or MTEB folder"
        return what, chain.from_iterable(_pools_of_folder(f, input_options, notes) for f in folders)
    if folders:
        first, second = ([place.url for place in folders] + [place.probe.place for place in held])[
            :2
        ]
        raise InputError(f"{first} and {second} are of different kinds; give one kind at a time")
    what = " and ".join(dict.fromkeys(file.kind_name for file in held))
    of_kinds = ([file for file in held if file.kind == kind] for kind in kinds)
    pools = chain.from_iterable(_pools_of_files(files, input_options, notes) for files in of_kinds)
    return what, drop_own_queries(pools, notes.made_up)


def _pools_of_folder(
    folder: Collection, input_options: InputOptions, notes: ConversionNotes
) -> Iterator[Pool]:
    if not folder.has_candidates:
        error = InputError(f"{folder.url}: nothing in it says which documents to judge")
        error.add_note(f"Give a run as well: {input_options.command or folder.url} RUN")
        raise error
    yield from pools_as_lines(make_collection_pools(folder), notes)


def _refuse_lacking(detected: DetectedFile, input_options: InputOptions, command: str) -> None:
    flags = tuple(flag for flag in detected.missing_options if not getattr(input_options, flag))
    if flags:
        raise missing_texts_error(detected, flags, command)


def _pools_of_files(
    held: Sequence[DetectedFile], input_options: InputOptions, notes: ConversionNotes
) -> Iterator[Pool]:
    """Yield the pools of files of one kind."""
    first = held[0]
    if first.kind == "mteb":
        for number, file in enumerate(held, 1):
            prefix = f"{number}-" if held[1:] else ""
            pools = mteb.read_rows(file.probe, input_options.show, prefix)[0]
            yield from pools_as_lines(pools, notes)
    elif first.kind == "assistants":
        rows = chain.from_iterable(e.probe.rows() for e in held)
        yield from assistants.make_assistant_pools(rows, notes, input_options.show)
    elif first.kind in ("wide", "pools"):
        for file in held:
            name = file.columns.get("documents", "documents")
            yield from wide.make_wide_pools(
                file.probe.rows(),
                name,
                file.columns,
                notes,
                input_options.show,
                show_metadata=input_options.show_metadata,
            )
    else:
        yield from _pools_of_rows(held, input_options, notes)


def _pools_of_rows(
    held: Sequence[DetectedFile], input_options: InputOptions, notes: ConversionNotes
) -> Iterator[Pool]:
    """Yield the pools of rows with one document each, which several files may hold."""
    columns = held[0].columns
    for file in held:
        _refuse_lacking(file, input_options, input_options.command)
        if file.columns.keys() != columns.keys():
            raise InputError(f"{file.probe.place}: has other columns than {held[0].probe.place}")
    fields = long.query_field_columns(input_options.show)
    tables, places = [], RowPlaces()
    for file in held:
        shown = [name for name in input_options.show_metadata if name in file.probe.names]
        wanted = {**file.columns, **fields, **long.document_field_columns(shown)}
        rows = file.probe.rows([*dict.fromkeys(wanted.values())])
        form = {
            "are_cells": file.probe.texts_alone,
            "has_commas": file.probe.has_decimal_commas,
        }
        tables.append(long.gather_columns(rows, wanted, places, notes, **form))
    table = pa.concat_tables(tables, promote_options="default")
    input_options.refuse_missing_columns([name for source in held for name in source.probe.names])
    more = (
        ("queries",)
        if input_options.show and input_options.queries and "query_id" in columns
        else ()
    )
    texts = read_missing_texts(
        input_options, {*held[0].missing_options, *more}, table, held[0].probe.place
    )
    yield from long.make_long_pools(table, places, notes, texts)
