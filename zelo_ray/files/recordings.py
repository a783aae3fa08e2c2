"""Read recordings: opinions of judges on documents, which recorded judges give again.

A recording is JSON lines, or the votes and grades of a run. Each row is an opinion on one document
of a query, or on two; rows that name a ``judge`` are that judge's.
"""

import hashlib
import math
from collections import defaultdict
from functools import cache
from typing import Annotated, Any, Self

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
from zelo_ray.files.rows import open_source
from zelo_ray.files.storage import (
    is_jsonl,
    list_directory,
    open_for_reading,
)
from zelo_ray.records import first_error

_HIGHEST = 3


def _id_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Id = Annotated[str, BeforeValidator(_id_text)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    query_id: _Id
    judge: str = ""
    key: str = ""
    """of a run, which may ask repeatedly"""


class Opinion(_Row):
    """A row about one document: its relevance to the query."""

    doc_id: _Id
    worth: float | None = Field(None, ge=0, le=_HIGHEST, allow_inf_nan=False)
    grade: int | None = Field(None, ge=0, le=_HIGHEST)
    rationale: str = ""
    covered: list[str] = Field([], validation_alias=AliasChoices("covered", "facets_covered"))
    missing: list[str] = Field([], validation_alias=AliasChoices("missing", "facets_missing"))

    @model_validator(mode="after")
    def _says_something(self) -> Self:
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


class RecordedComparison(_Row):
    """A row about two documents; below 0: A is better. ``swapped``: the judge saw B first."""

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


Opinions = dict[tuple[str, ...], list[Opinion | RecordedComparison]]
"""One judge's opinions by query and document ids; several where it was asked repeatedly."""


def list_recordings(where: str) -> list[str]:
    """List the recordings of a folder; a file, or the results of a run, are one."""
    names = ["run.json"] if _is_file(where) else list_directory(where)
    if names is None:
        raise InputError(f"{where}: no such file of JSON lines (.jsonl or .ndjson), and no folder")
    if "run.json" in names:
        return [where]
    recordings = [f"{where.rstrip('/')}/{name}" for name in names if is_jsonl(name)]
    if not recordings:
        raise InputError(f"{where}: this folder holds no recording (.jsonl or .ndjson)")
    return recordings


def hash_recording(source: str) -> str:
    """Hash the unpacked content of a recording."""
    digest = hashlib.sha256()
    for file in _files(source):
        with open_for_reading(file) as stream:
            while block := stream.read(2**20):
                digest.update(block)
    return digest.hexdigest()[:16]


@cache  # all judges of the panel share it, and reading it takes long
def read_recording(source: str, digest: str) -> dict[str, Opinions]:
    """Read the opinions of a recording by judge, under "" where rows name no judge."""
    if hash_recording(source) != digest:
        raise InputError(f"{source}: has changed since the run began")
    opinions, first = defaultdict[str, Opinions](dict), dict[tuple[str, ...], str]()
    for file in _files(source):
        rows = open_source(file)
        for number, row in rows.rows():
            place = rows.where(number)
            given = {name: value for name, value in row.items() if value is not None}
            kind = RecordedComparison if "doc_id_a" in given else Opinion
            try:
                opinion = kind.model_validate(given)
            except ValidationError as error:
                raise InputError(f"{place}: {first_error(error)}") from None
            about = (opinion.query_id, *opinion.doc_ids)
            earlier = first.setdefault((opinion.judge, *about), place)
            if earlier != place and not opinion.key:
                what = f"{' and '.join(opinion.doc_ids)} of query {opinion.query_id}"
                raise InputError(f"{place}: a second opinion on {what}; the first is {earlier}")
            opinions[opinion.judge].setdefault(about, []).append(opinion)
    if not opinions:
        raise InputError(f"{source}: holds no opinion")
    return dict(opinions)


def _is_file(source: str) -> bool:
    return is_jsonl(source) or source.endswith(".parquet")


def _files(source: str) -> list[str]:
    if _is_file(source):
        return [source]
    names = list_directory(source) or ()
    tables = [name for name in ("votes.parquet", "grades.parquet") if name in names]
    if not tables:
        raise InputError(f"{source}: this run has neither votes.parquet nor grades.parquet")
    return [f"{source.rstrip('/')}/{name}" for name in tables]
