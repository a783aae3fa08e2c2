"""Judges that replay recorded opinions, without cost or key (docs/sizing.md).

A recorded comparison of the pair takes precedence. Without one, two documents are compared by their
values: the preference is the tanh of the difference. Without an opinion the request fails. The
digest of its recording is part of a judge's options, and so of every key.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
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

from zelo_ray.errors import InputError, PanelError
from zelo_ray.files.rows import open_source
from zelo_ray.files.schema import to_id
from zelo_ray.files.storage import is_jsonl, list_directory, open_for_reading
from zelo_ray.providers import Fatal, Provider, Refused
from zelo_ray.records import (
    RECORDING,
    Answer,
    Request,
    SyntheticFeatures,
    Usage,
    first_error,
    synthesize_answer,
)

_MARK, _PLACE = "#", "file"
_HIGHEST = 3
_TABLES = ("votes.parquet", "grades.parquet")
_COVERED, _MISSING = ("covered", "facets_covered"), ("missing", "facets_missing")

_Opinions = dict[tuple[str, ...], list[SyntheticFeatures]]
"""One judge's opinions by query and document ids; several where it was asked repeatedly."""


class Recorded:
    """A connection that answers from recordings, each of which is read once."""

    async def send(self, request: Request) -> Answer:
        """Return a recorded opinion."""
        judge = request.judge
        if not request.query_id:
            raise Refused("the protocol passes no query_id to its Request", name=judge.name)
        try:
            opinions = read_recording(judge.options[_PLACE], judge.options[RECORDING])
        except InputError as error:
            raise Fatal(
                f"{error}; every node must see the recording, unchanged during the run: name a "
                "URL, or a path that all nodes share",
                name=judge.name,
            ) from None
        features = _features(request, opinions[judge.model.partition(_MARK)[2]])
        try:
            text = synthesize_answer(request, features)
        except ValueError:
            raise Refused(
                "recorded opinions compare two documents, grade one or score some, and cannot "
                "answer this",
                name=judge.name,
            ) from None
        return Answer("ok", text, Usage(), model=judge.model)

    async def aclose(self) -> None:
        """Do nothing, as no resource is held."""


def judges_in(model: str) -> dict[str, dict[str, Any]]:
    """Return the judges of ``recorded:MODEL``, each with options that identify its content."""
    place, _, name = model.partition(_MARK)
    if not place:
        raise PanelError("write recorded:FILE, or recorded:FOLDER for all recordings in it")
    judges = dict[str, dict[str, Any]]()
    try:
        for source, files in _find_recordings(place).items():
            digest = _hash_files(files)
            path = source if "://" in source else str(Path(source).expanduser().absolute())
            for own in read_recording(source, digest):
                options = {RECORDING: digest, _PLACE: path}
                judges[f"{source}{_MARK}{own}" if own else source] = options
    except InputError as error:  # its message begins with the path
        raise PanelError(f"recorded:{error}") from None
    if not name:
        return judges
    if model not in judges:
        every = ", ".join(judges)
        raise PanelError(f"recorded:{place}: no judge {name!r}; there are {every}")
    return {model: judges[model]}


def _features(request: Request, opinions: _Opinions) -> SyntheticFeatures:
    """Return the features that a recorded judge has for a request's documents."""

    def find(*doc_ids: str) -> SyntheticFeatures | None:
        several = opinions.get((request.query_id, *doc_ids))
        return several[request.repeat % len(several)] if several else None

    ids = [document.id for document in request.documents]
    if len(ids) == 2:
        if compared := find(*ids):
            return compared
        if compared := find(*reversed(ids)):
            words = f"(Recorded with these two in the other order.) {compared.words}".rstrip()
            return replace(compared, pair_preference=-compared.preference, words=words)
    singles = [single for single in map(find, ids) if single]
    if len(singles) < len(ids):
        doc_id = next(doc_id for doc_id in ids if not find(doc_id))
        what = f"document {doc_id!r} of query {request.query_id!r}"
        raise Refused(f"the recording has no opinion on {what}", name=request.judge.name)
    if len(ids) == 1:
        return singles[0]
    scores = tuple(single.scores[0] for single in singles)
    if len(ids) != 2:
        return SyntheticFeatures(scores=scores)
    words = " ".join(single.argument for single in singles)
    preference = round(math.tanh(scores[1] - scores[0]), 4)
    return SyntheticFeatures(pair_preference=preference, scores=scores, words=words, argument=words)


# --- recordings ---------------------------------------------------------------------------------


def _find_recordings(place: str) -> dict[str, list[str]]:
    """Return the recordings of a place, and their files."""
    if is_jsonl(place) or place.endswith(".parquet"):
        return {place: [place]}
    names, root = list_directory(place), place.rstrip("/")
    if names is None:
        raise InputError(f"{place}: no such file of JSON lines (.jsonl or .ndjson), and no folder")
    if "run.json" in names:
        tables = [f"{root}/{name}" for name in _TABLES if name in names]
        found = {place: tables} if tables else {}
    else:
        found = {f"{root}/{name}": [f"{root}/{name}"] for name in names if is_jsonl(name)}
    if not found:
        what = f"no recording (.jsonl or .ndjson), and no {' or '.join(_TABLES)} of a run"
        raise InputError(f"{place}: this folder holds {what}")
    return found


def _hash_files(files: Iterable[str]) -> str:
    """Hash the unpacked content of a recording."""
    digest = hashlib.sha256()
    for file in files:
        with open_for_reading(file) as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()[:16]


@cache  # all judges of the panel share it, and reading it takes long
def read_recording(source: str, digest: str) -> dict[str, _Opinions]:
    """Read the opinions of a recording by judge, under "" where rows name no judge."""
    files = _find_recordings(source)[source]
    if _hash_files(files) != digest:
        raise InputError(f"{source}: has changed since the run began")
    opinions, first = defaultdict[str, _Opinions](dict), dict[tuple[str, ...], str]()
    for rows in map(open_source, files):
        for number, fields in rows.rows():
            place = rows.where(number)
            try:
                row = _Row.model_validate(fields)
            except ValidationError as error:
                raise InputError(f"{place}: {first_error(error)}") from None
            doc_ids, opinion = row.read()
            about, judge = (row.query_id, *doc_ids), row.judge or ""
            earlier = first.setdefault((judge, *about), place)
            if earlier != place and not row.key:  # that of a run, which may ask repeatedly
                what = f"{' and '.join(doc_ids)} of query {row.query_id}"
                raise InputError(f"{place}: a second opinion on {what}; the first is {earlier}")
            opinions[judge].setdefault(about, []).append(opinion)
    if not opinions:
        raise InputError(f"{source}: holds no opinion")
    return dict(opinions)


_Worth = Annotated[float, Field(ge=0, le=_HIGHEST)]


class _Row(BaseModel):
    """A row of a recording: an opinion on one document, or on two."""

    model_config = ConfigDict(strict=True)

    query_id: Annotated[str, BeforeValidator(to_id)]
    judge: str | None = None
    key: str | None = None
    doc_id: Annotated[str | None, BeforeValidator(to_id)] = None
    worth: _Worth | None = None
    grade: _Worth | None = None
    rationale: str | None = None
    covered: list[str] | None = Field(None, validation_alias=AliasChoices(*_COVERED))
    missing: list[str] | None = Field(None, validation_alias=AliasChoices(*_MISSING))
    doc_id_a: Annotated[str | None, BeforeValidator(to_id)] = None
    doc_id_b: Annotated[str | None, BeforeValidator(to_id)] = None
    preference: Annotated[float, Field(ge=-1, le=1)] | None = None
    swapped: bool | None = None
    reasoning: str | None = None

    @model_validator(mode="after")
    def _is_an_opinion(self) -> "_Row":
        if self.doc_id_a is not None:
            if self.doc_id_b is None or self.preference is None:
                raise ValueError("an opinion on two documents has doc_id_b and preference")
        elif self.doc_id is None or (self.worth is None and self.grade is None):
            raise ValueError("an opinion on a document has doc_id, and worth or grade")
        elif self.grade is not None and self.grade % 1:
            raise ValueError(f"the grade {self.grade:g} is not a whole number")
        return self

    def read(self) -> tuple[tuple[str, ...], SyntheticFeatures]:
        """Return the documents, in the order in which the judge saw them, and the opinion."""
        if self.doc_id_a is not None:
            ids, preference = (self.doc_id_a, str(self.doc_id_b)), self.preference or 0.0
            if self.swapped:
                ids, preference = ids[::-1], -preference
            return ids, SyntheticFeatures(pair_preference=preference, words=self.reasoning or "")
        worth = float(self.grade or 0) if self.worth is None else self.worth
        rationale = self.rationale or ""
        summary = f"{self.doc_id}, worth {worth:g} of {_HIGHEST}: {rationale}".rstrip(": ")
        return (str(self.doc_id),), SyntheticFeatures(
            document_grade=math.floor(worth + 0.5) if self.grade is None else int(self.grade),
            scores=(worth,),
            words=rationale or summary,
            argument=summary,
            covered=tuple(self.covered or ()),
            missing=tuple(self.missing or ()),
        )


PROVIDER = Provider(
    connect=lambda _: Recorded(),
    judges_in=judges_in,
    transport={_PLACE: None},  # where a recording is changes no answer
    concurrency=256,
    free=True,
    gives_probabilities=True,
)
