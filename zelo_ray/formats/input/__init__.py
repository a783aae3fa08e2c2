"""Recognise the input of users by its content, and turn it into JSON lines of pools."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from zelo_ray.errors import InputError, UnreadableFile
from zelo_ray.formats.input import assistants, long, wide
from zelo_ray.formats.input.asked import InputOptions
from zelo_ray.formats.input.collection import (
    Collection,
    lines_of,
    of_collection,
    of_runs,
    texts_at,
)
from zelo_ray.formats.input.columns import split_columns
from zelo_ray.formats.input.keeping import (
    keep_lines,
    mark_of,
    note_beside,
    note_left_out,
    remember,
    remembered,
)
from zelo_ray.formats.input.kinds import DetectedFile, Kind, known, lacking
from zelo_ray.formats.input.long import Left, Pool, watched
from zelo_ray.formats.input.places import Places, places_of
from zelo_ray.formats.input.sight import FileProbe, look
from zelo_ray.formats.interchange import mteb
from zelo_ray.formats.own_query import without_own
from zelo_ray.formats.pools import find_shards, is_lines
from zelo_ray.formats.shown_fields import ShownFields
from zelo_ray.options.asking import AskingOptions

RANKED: frozenset[Kind] = frozenset({"run", "qrels"})
"""Kinds that say which documents are candidates, and hold no texts."""
__all__ = ["Brought", "InputOptions", "bring", "brought", "pools_of"]
_VERSION = 2
Asking = TypeVar("Asking", bound=AskingOptions)


@dataclass(frozen=True, slots=True)
class Brought:
    """The places of pools as JSON lines, and messages on their conversion."""

    places: tuple[str, ...]
    told: tuple[str, ...] = ()
    made: str = ""
    """the file of converted pools, which the first message names; empty if there is none"""

    def lines(self, *, keep: bool = True) -> Iterator[str]:
        """Yield the messages, with the path of the file of pools if it is kept."""
        for number, line in enumerate(self.told):
            where = f"; pools written to {self.made}" if self.made and keep and not number else ""
            yield f"{line}{where}"


def brought(
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
    if not patterns:
        return options
    request = InputOptions(
        options.corpus,
        options.queries,
        split_columns(options.columns),
        options.typed(name),
        options.show_query,
    )
    pools = bring(patterns, out, request)
    for line in pools.lines(keep=keep):
        say(line)
    if pools.places == patterns:
        if unused := [f"--{n}" for n in ("corpus", "queries") if getattr(options, n)]:
            say(f"not used, since the input holds its texts: {', '.join(unused)}")
        return options
    plain = {"corpus": None, "queries": None, "columns": ()}
    return options.model_copy(update={name: pools.places, **plain})


def bring(patterns: Sequence[str], out: str, input_options: InputOptions) -> Brought:
    """Find the pools in some places; use JSON lines of pools as they are, and convert the rest.

    Args:
        patterns: paths, directories, globs and URLs.
        out: directory or URL of the results; converted pools are stored in ``input/`` below it.
        input_options: the options on the input.

    Raises:
        InputError: a place holds nothing that is known, or something wrong.
        OptionError: texts are missing, or what judges are to be shown.
    """
    places = places_of(patterns, out)
    shards, held = _looked_at(places, input_options)
    notes = places.told()
    note_left_out(out, notes)
    if not held and not places.folders:
        as_named = shards == find_shards(patterns, out)
        return Brought(tuple(patterns) if as_named else tuple(shards), tuple(notes))
    sources = [*(folder.url for folder in places.folders), *(file.sight.url for file in held)]
    texts = [url for url in (input_options.corpus, input_options.queries) if url]
    told_of = (
        _VERSION,
        input_options.corpus,
        input_options.queries,
        input_options.columns,
        *input_options.show,
    )
    mark = mark_of([*sources, *texts], out, *told_of)
    if made := remembered(out, mark):
        return Brought((*shards, made[0]), (*made[1], *notes), made[0])
    output = _make(places.folders, held, input_options, out, mark)
    return Brought((*shards, output[0]), (*output[1], *notes), output[0])


def _make(
    folders: Sequence[Collection],
    held: Sequence[DetectedFile],
    input_options: InputOptions,
    out: str,
    mark: str,
) -> tuple[str, list[str]]:
    """Write pools from input of other kinds; return their path, and messages."""
    notes, names = Left(), [name for file in held for name in file.sight.names]
    what, pools = made_of(folders, held, input_options, notes)
    source = [*(folder.url for folder in folders), *(file.sight.url for file in held)][0]
    pools = ShownFields(input_options.show).watched(watched(pools, notes), source, names)
    place, queries, documents = keep_lines(out, pools)
    if not documents:
        raise InputError("; ".join([f"{source}: no query has a document", *notes.told()]))
    messages = [f"{what}: {long.counts(queries, documents)}", *notes.told()]
    note_beside(place, messages[1:])
    remember(out, mark, place, messages)
    return place, messages


def pools_of(
    patterns: Sequence[str], asked: InputOptions, left: Left
) -> tuple[str, Iterator[Pool]]:
    """Return the kind of input in some places, in words, and its pools; write nothing.

    Raises:
        InputError, OptionError: as `bring`.
    """
    places = places_of(patterns, "")
    held = _without_ranked(_known(list(places.files), asked, places), places)
    left.made |= dict.fromkeys(places.told())
    return made_of(places.folders, held, asked, left)


def look_or_broken(file: str) -> FileProbe:
    """Probe a file; take a truncated one for JSON lines of which some are invalid."""
    try:
        return look(file)
    except UnreadableFile:
        if is_lines(file):
            return FileProbe(file, "broken")
        raise


def _looked_at(places: Places, input_options: InputOptions) -> tuple[list[str], list[DetectedFile]]:
    """Return the files that are JSON lines of pools, and what the other files hold.

    Raises:
        InputError: a file that was named holds nothing that is known, or another kind.
    """
    files = list(places.files)
    shards = list[str]()
    first = next((file for file in files if is_lines(file) or not places.files[file]), "")
    if (
        first and not places.folders and _is_pools(first, input_options)
    ):  # one look tells of all shards
        shards = [file for file in files if file == first or is_lines(file)]
    held = _known([file for file in files if file not in {*shards}], input_options, places)
    if places.folders:
        return [], held
    held = _without_ranked(held, places, shards)
    shards += [file.sight.url for file in held if file.kind == "pools"]
    return sorted(shards, key=files.index), [file for file in held if file.kind != "pools"]


def _without_ranked(
    held: Sequence[DetectedFile], places: Places, shards: Sequence[str] = ()
) -> list[DetectedFile]:
    """Leave out the runs and judgments found in folders, if other files hold pools.

    Raises:
        InputError: such a file was named.
    """
    of_pools = [*shards, *(source.sight.url for source in held if source.kind not in RANKED)]
    files = list[DetectedFile]()
    for file in held:
        if not of_pools or file.kind not in RANKED:
            files.append(file)
            continue
        url = file.sight.url
        if not places.files[url]:
            others = f"{url} and {of_pools[0]} are of different kinds"
            raise InputError(f"{others}; give one kind at a time")
        places.leave(InputError(f"{url}: is {file.what}, and other files there hold pools"), url)
    return files


def _is_pools(file: str, input_options: InputOptions) -> bool:
    try:
        return _held(look_or_broken(file), input_options).kind == "pools"
    except InputError:
        return False


def _held(sight: FileProbe, input_options: InputOptions) -> DetectedFile:
    return known(sight, input_options.of_input(sight.names))


def _refuse_empty(sight: FileProbe) -> None:
    if sight.form == "broken" and not is_lines(sight.url):
        raise InputError(f"{sight.url}: holds nothing that can be read")


def _known(files: Sequence[str], input_options: InputOptions, places: Places) -> list[DetectedFile]:
    """Return what files hold; leave out files of folders whose content is not known.

    JSON lines of nothing known that were named beside pools count as lines that are bad.
    """
    held, strange = list[DetectedFile](), dict[str, InputError]()
    for file in files:
        form = ""
        try:
            sight = look_or_broken(file)
            form = sight.form
            if places.files[file]:
                _refuse_empty(sight)
            held.append(_held(sight, input_options))
        except InputError as error:
            if places.files[file]:
                places.leave(error, file)
            elif form == "lines":
                held.append(DetectedFile(sight, "pools", {}))
                strange[file] = error
            else:
                raise
    if strange and not any(e.kind == "pools" and e.sight.url not in strange for e in held):
        raise next(iter(strange.values()))
    places.refuse_none()
    return held


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
        raise InputError(f"{first} and {second} are of different kinds; give one kind at a time")
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
