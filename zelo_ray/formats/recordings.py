"""Read recordings: opinions of judges on documents, which recorded judges give again.

A recording is a table in JSON lines or Parquet, packed or not. Each row is an opinion on one
document of a query, or on two; the votes and grades of a run are recordings, too. Rows that name a
``judge`` are that judge's.
"""

import difflib
import hashlib
import math
import os
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from zelo_ray.errors import InputError
from zelo_ray.files.storage import exists, file_stem, is_jsonl, list_directory, open_for_reading
from zelo_ray.formats.probe import probe
from zelo_ray.records import first_error

_HIGHEST = 3
_WEB = ("http://", "https://")  # which are not listed as folders
_TABLES = ("votes.parquet", "grades.parquet")
"""The tables of a run that are recordings."""


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Id = Annotated[str, BeforeValidator(_as_text)]
"""An id; whole numbers are converted to text, as in frames."""


class Opinion(BaseModel):
    """A row about one document: its relevance to the query."""

    model_config = ConfigDict(frozen=True, strict=True)

    doc_id: _Id
    worth: float | None = Field(None, ge=0, le=_HIGHEST, allow_inf_nan=False)
    grade: int | None = Field(None, ge=0, le=_HIGHEST)
    rationale: str = ""
    covered: list[str] = Field([], validation_alias=AliasChoices("covered", "facets_covered"))
    missing: list[str] = Field([], validation_alias=AliasChoices("missing", "facets_missing"))

    @model_validator(mode="after")
    def _says_something(self) -> "Opinion":
        if self.worth is None and self.grade is None:
            raise ValueError("has neither worth nor grade")
        return self

    @property
    def doc_ids(self) -> tuple[str, ...]:
        """Return the ids of the documents that the opinion is about: one."""
        return (self.doc_id,)

    @property
    def value(self) -> float:
        """Return the worth, or the grade where only that was recorded."""
        return self.worth if self.worth is not None else float(self.grade or 0)

    @property
    def rounded_grade(self) -> int:
        """Return the grade, or the worth rounded to a grade; halves round up."""
        return self.grade if self.grade is not None else math.floor(self.value + 0.5)

    @property
    def summary(self) -> str:
        """Return the opinion as a line of text that names the document."""
        return f"{self.doc_id}, worth {self.value:g} of {_HIGHEST}: {self.rationale}".rstrip(": ")


class RecordedComparison(BaseModel):
    """A row about two documents; below 0: A is better. ``swapped``: the judge saw B first."""

    model_config = ConfigDict(frozen=True, strict=True)

    doc_id_a: _Id
    doc_id_b: _Id
    preference: float = Field(ge=-1, le=1, allow_inf_nan=False)
    reasoning: str = ""
    swapped: bool = False

    @property
    def doc_ids(self) -> tuple[str, ...]:
        """Return the ids of the two documents in the order in which the judge saw them."""
        pair = self.doc_id_a, self.doc_id_b
        return pair[::-1] if self.swapped else pair

    @property
    def shown_preference(self) -> float:
        """Return the preference for the document shown second; below 0: for the first."""
        return -self.preference if self.swapped else self.preference


class _Row(BaseModel):
    """The other fields of a row. Rows with a ``key`` are of a run, which may ask repeatedly."""

    model_config = ConfigDict(strict=True)

    query_id: _Id
    judge: str = ""
    key: str = ""


Opinions = dict[tuple[str, ...], list[Opinion | RecordedComparison]]
"""One judge's opinions by query and document ids; several where it was asked repeatedly."""


def list_recordings(where: str) -> list[str]:
    """List the recordings of a folder; a file, or the results of a run, are one.

    Raises:
        InputError: there is no such file, or the folder has none. The messages of all functions
            here begin with the place.
    """
    names = _names_in_folder(where)
    if names is None and not where.startswith(_WEB) and not exists(where):
        raise InputError(f"{where}: no such file{_suggest_file(where)}")
    if names is None or "run.json" in names:
        return [where]
    recordings = [f"{where.rstrip('/')}/{name}" for name in names if is_jsonl(name)]
    if not recordings:
        raise InputError(f"{where}: this folder holds no recording (.jsonl or .ndjson)")
    return recordings


def hash_recording(source: str) -> str:
    """Hash the unpacked content of a recording.

    Raises:
        InputError: it does not exist, or cannot be read.
    """
    digest = hashlib.sha256()
    for table in _tables(source):
        with open_for_reading(table) as stream:
            while block := stream.read(2**20):
                digest.update(block)
    return digest.hexdigest()[:16]


@cache  # all judges of the panel share it, and reading it takes long
def read_recording(source: str, digest: str) -> dict[str, Opinions]:
    """Read the opinions of a recording by judge, under "" where rows name no judge.

    Raises:
        InputError: it cannot be read, a row is invalid, or the digest differs.
    """
    if hash_recording(source) != digest:
        raise InputError(f"{source}: has changed since the run began")
    opinions, first = defaultdict[str, Opinions](dict), dict[tuple[str, ...], str]()
    for table in _tables(source):
        for place, row in probe(table).rows():
            of, opinion = _row(place, row)
            about = (of.query_id, *opinion.doc_ids)
            if not of.key and first.setdefault((of.judge, *about), place) != place:
                what = f"{' and '.join(opinion.doc_ids)} of query {of.query_id}"
                earlier = first[of.judge, *about]
                raise InputError(f"{place}: a second opinion on {what}; the first is {earlier}")
            opinions[of.judge].setdefault(about, []).append(opinion)
    if not opinions:
        raise InputError(f"{source}: holds no opinion")
    return dict(opinions)


def absolute_source(source: str) -> str:
    """Return the absolute path of a recording; a URL as it is."""
    local = "://" not in source
    return os.path.abspath(os.path.expanduser(source)) if local else source  # noqa: PTH100, PTH111 - or a URL


def _tables(source: str) -> list[str]:
    """Return the files of one recording."""
    names = _names_in_folder(source)
    if names is None:
        return [source]
    if tables := [f"{source.rstrip('/')}/{name}" for name in _TABLES if name in names]:
        return tables
    raise InputError(f"{source}: this run has neither {' nor '.join(_TABLES)}")


def _suggest_file(where: str) -> str:
    """Suggest a file with a similar name, as the end of a message; "" if there is none."""
    folder, slash, name = where.rstrip("/").rpartition("/")
    try:
        siblings = list_directory(folder or slash or ".") or []
    except InputError:
        return ""
    places = {file_stem(sibling): f"{folder}{slash}{sibling}" for sibling in siblings}
    near = difflib.get_close_matches(file_stem(name), places, 1)
    return f" (did you mean {places[near[0]]!r}?)" if near else ""


def _names_in_folder(place: str) -> list[str] | None:
    """Return the names in a folder; None for a file. No request is made to web servers."""
    return None if is_jsonl(place) or place.endswith(".parquet") else list_directory(place)


def _row(place: str, row: Mapping[str, Any]) -> tuple[_Row, Opinion | RecordedComparison]:
    fields = {name: value for name, value in row.items() if value is not None}
    try:
        kind = RecordedComparison if "doc_id_a" in fields else Opinion
        return _Row.model_validate(fields), kind.model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{place}: {first_error(error)}") from None
