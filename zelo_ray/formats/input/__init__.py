"""What users bring: known by what it holds, and made into the JSON lines that all else reads."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import fsspec
import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.files import listing
from zelo_ray.formats.input import assistants, long, wide
from zelo_ray.formats.input.collection import (
    Collection,
    collection_at,
    lines_of,
    of_collection,
    of_runs,
    texts_at,
)
from zelo_ray.formats.input.columns import split_columns
from zelo_ray.formats.input.keeping import keep_lines, mark_of, remember, remembered
from zelo_ray.formats.input.kinds import Known, known, lacking
from zelo_ray.formats.input.long import Left, Pool
from zelo_ray.formats.input.sight import Sight, look
from zelo_ray.formats.interchange import mteb
from zelo_ray.formats.pools import SUFFIXES, find_shards
from zelo_ray.options.asking import AskingOptions

__all__ = ["Asked", "Brought", "bring", "brought", "pools_of"]

_PACKED = ("", ".gz", ".zst")
_DATA = (".csv", ".tsv", ".json", ".parquet", ".run", ".trec")
_VERSION = 1
Asking = TypeVar("Asking", bound=AskingOptions)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user said beside the input: where texts are, columns, and the command as it was."""

    corpus: str | None = None
    queries: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True, slots=True)
class Brought:
    """Where pools lie as JSON lines, and what there is to say of how they came there."""

    places: tuple[str, ...]
    told: tuple[str, ...] = ()


def brought(options: Asking, out: str, say: Callable[[str], None], name: str = "inputs") -> Asking:
    """The options of a command with its input as JSON lines of pools.

    Args:
        options: of the command.
        out: directory or URL below which what is made is kept.
        say: told what was made, in a line.
        name: of the option that holds the input.

    Raises:
        InputError: the input is of no known kind, or wrong.
        OptionError: it lacks texts, and no option says where they are.
    """
    given: tuple[str, ...] = getattr(options, name)
    if not given:
        return options
    asked = Asked(
        options.corpus, options.queries, split_columns(options.columns), options.typed(name)
    )
    found = bring(given, out, asked)
    for line in found.told:
        say(line)
    if found.places == given:
        return options
    plain = {"corpus": None, "queries": None, "columns": ()}
    return options.model_copy(update={name: found.places, **plain})


def bring(patterns: Sequence[str], out: str, asked: Asked) -> Brought:
    """Where the pools are that some places hold: JSON lines of pools as they are, others made.

    Args:
        patterns: paths, directories, globs and URLs.
        out: directory or URL of the results; what is made lies in ``input/`` below it.
        asked: what the user said beside.

    Raises:
        InputError: a place holds nothing that is known, or something wrong.
        OptionError: texts are missing.
    """
    folders, files = _places(patterns, out)
    first = look_or_broken(files[0]) if files else None
    if first and not folders and _is_pools(first, asked) and _all_lines(files[1:]):
        return Brought(tuple(patterns))
    sources = [*(folder.url for folder in folders), *files]
    beside = [each for each in (asked.corpus, asked.queries) if each]
    mark = mark_of([*sources, *beside], _VERSION, asked.corpus, asked.queries, asked.columns)
    if made := remembered(out, mark):
        return Brought((made[0],), tuple(made[1]))
    held = [known(look_or_broken(file), asked.columns) for file in files]
    if not folders and held and all(each.kind == "pools" for each in held):
        return Brought(tuple(patterns))
    left = Left()
    what, pools = _pools(folders, held, asked, left)
    place, queries, documents = keep_lines(out, pools)
    if not documents:
        raise InputError("; ".join([f"{sources[0]}: no query has a document", *left.told()]))
    told = [f"{what}: {long.counts(queries, documents)}; pools written to {place}", *left.told()]
    remember(out, mark, place, told)
    return Brought((place,), tuple(told))


def pools_of(patterns: Sequence[str], asked: Asked, left: Left) -> tuple[str, Iterator[Pool]]:
    """What places hold, in words, and the pools that they come to; nothing is written.

    Raises:
        InputError, OptionError: as `bring`.
    """
    folders, files = _places(patterns, "")
    held = [known(look_or_broken(file), asked.columns) for file in files]
    return _pools(folders, held, asked, left)


def look_or_broken(file: str) -> Sight:
    """What a file is; one that breaks off counts as lines of which some are bad."""
    try:
        return look(file)
    except InputError as error:
        if file.endswith(SUFFIXES) and "cannot be read" in str(error):
            return Sight(file, "broken")
        raise


def _places(patterns: Sequence[str], out: str) -> tuple[list[Collection], list[str]]:
    """The folders that are collections, and the files of all else."""
    folders, files = list[Collection](), dict[str, None]()
    for pattern in patterns:
        if found := collection_at(pattern):
            folders.append(found)
            continue
        names = _tables_in(pattern, out) or find_shards([pattern], out)
        files.update(dict.fromkeys(names))
    return folders, list(files)


def _tables_in(pattern: str, out: str) -> list[str]:
    """The tables of a directory that has no JSON lines, which come first."""
    if listing(pattern) is None:
        return []
    fs, path = fsspec.url_to_fs(pattern)
    own = fsspec.url_to_fs(out)[1].rstrip("/") + "/" if out else "\0"
    names = [name for name in sorted(fs.find(path)) if not name.startswith(own)]
    if any(name.endswith(SUFFIXES) for name in names):
        return []
    endings = tuple(kind + packed for kind in _DATA for packed in _PACKED)
    names = [name for name in names if name.endswith(endings)]
    return names if "file" in fs.protocol else [fs.unstrip_protocol(name) for name in names]


def _is_pools(sight: Sight, asked: Asked) -> bool:
    return known(sight, asked.columns).kind == "pools"


def _all_lines(files: Iterable[str]) -> bool:
    """Whether the other files are called as JSON lines are, so that one look tells of all."""
    return all(file.endswith(SUFFIXES) for file in files)


def _pools(
    folders: Sequence[Collection], held: Sequence[Known], asked: Asked, left: Left
) -> tuple[str, Iterator[Pool]]:
    kinds = {each.kind for each in held}
    runs = [each.sight.url for each in held if each.kind == "run"]
    judged = [each.sight.url for each in held if each.kind == "qrels"]
    texts = asked
    if folders:
        texts = Asked(asked.corpus or folders[0].url, asked.queries or folders[0].url)
    if held and kinds <= {"run", "qrels"} and len(folders) <= 1:
        _refuse_lacking(held[0], texts, asked.command)
        found = of_runs(runs, judged, texts.corpus or "", texts.queries or "")
        return (held[0].what, lines_of(found, left))
    if folders and not held:
        return "BEIR folder", chain.from_iterable(_of_folder(f, asked, left) for f in folders)
    if folders or len(kinds) > 1:
        one, other = ([each.url for each in folders] + [each.sight.url for each in held])[:2]
        one, other = _unlike(held) or (one, other)
        raise InputError(f"{one} and {other} are of different kinds: bring one kind at a time")
    return held[0].what, _of_files(held, asked, left)


def _unlike(held: Sequence[Known]) -> tuple[str, str] | None:
    others = [each for each in held if each.kind != held[0].kind]
    return (held[0].sight.url, others[0].sight.url) if others else None


def _of_folder(folder: Collection, asked: Asked, left: Left) -> Iterator[Pool]:
    if not folder.has_candidates:
        error = InputError(f"{folder.url}: nothing in it says which documents to judge")
        error.add_note(f"Give a run as well: {asked.command or folder.url} RUN")
        raise error
    yield from lines_of(of_collection(folder), left)


def _refuse_lacking(found: Known, asked: Asked, command: str) -> None:
    flags = tuple(flag for flag in found.lacks if not getattr(asked, flag))
    if flags:
        raise lacking(found, flags, command)


def _of_files(held: Sequence[Known], asked: Asked, left: Left) -> Iterator[Pool]:
    """The pools of files of one kind."""
    first = held[0]
    if first.kind == "mteb":
        for each in held:
            yield from lines_of(mteb.read_rows(each.sight.url)[0], left)
    elif first.kind == "assistants":
        yield from assistants.pools(chain.from_iterable(e.sight.rows() for e in held), left)
    elif first.kind in ("wide", "pools"):
        for each in held:
            name = each.columns.get("documents", "documents")
            yield from wide.pools(each.sight.rows(), name, each.columns, left)
    else:
        yield from _of_rows(held, asked, left)


def _of_rows(held: Sequence[Known], asked: Asked, left: Left) -> Iterator[Pool]:
    """The pools of rows of one document each, which may be spread over files."""
    columns = held[0].columns
    for each in held:
        _refuse_lacking(each, asked, asked.command)
        if each.columns.keys() != columns.keys():
            raise InputError(f"{each.sight.url}: has other columns than {held[0].sight.url}")
    tables = [long.gather(e.sight.rows([*e.columns.values()]), e.columns) for e in held]
    table = pa.concat_tables([each.select([*columns]) for each in tables])
    lacks = held[0].lacks
    texts = texts_at(
        asked.corpus if "corpus" in lacks else None,
        asked.queries if "queries" in lacks else None,
        dict.fromkeys(table["doc_id"].to_pylist()) if "corpus" in lacks else None,
    )
    yield from long.pools(table, held[0].sight.url, left, texts)
