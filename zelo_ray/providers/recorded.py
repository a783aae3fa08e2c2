"""Judges that replay recorded opinions, without cost or key.

A recording is JSON lines, or the votes and grades of a run; each row is an opinion on one document
of a query, or on two. ``recorded:FILE`` is one judge, or, where rows name a ``judge``, all of them,
each as ``recorded:FILE#JUDGE``; ``recorded:FOLDER`` is all of a folder.

A recorded comparison of the pair takes precedence. Without one, two documents are compared by their
values: the preference is the tanh of the difference. The response model turns it into an answer
(`zelo_ray.records.SyntheticFeatures`). Without an opinion the request fails.

A judge's options include the digest of its recording. They are part of every key, so a ledger never
mixes two versions of a file.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from zelo_ray.errors import InputError, PanelError
from zelo_ray.files.rows import open_source
from zelo_ray.files.schema import convert
from zelo_ray.files.storage import is_jsonl, list_directory, open_for_reading
from zelo_ray.names import did_you_mean
from zelo_ray.providers import Fatal, Provider, Refused
from zelo_ray.records import RECORDING, Answer, Request, SyntheticFeatures, Usage, synthesize_answer

_MARK, _PLACE = "#", "file"
_NAMED = 10  # most judges listed when a name is unknown
_HIGHEST = 3
_TABLES = ("votes.parquet", "grades.parquet")

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
    """Return the judges of ``recorded:MODEL``, each with options that identify its content.

    Raises:
        PanelError: there is no recording, it cannot be read, or a row is invalid.
    """
    place, _, name = model.partition(_MARK)
    if not place:
        raise PanelError("write recorded:FILE, or recorded:FOLDER for all recordings in it")
    judges = dict[str, dict[str, Any]]()
    try:
        for source in list_recordings(place):
            digest = hash_recording(source)
            path = source if "://" in source else str(Path(source).expanduser().absolute())
            for own in read_recording(source, digest):
                options = {RECORDING: digest, _PLACE: path}
                judges[f"{source}{_MARK}{own}" if own else source] = options
    except InputError as error:  # its message begins with the path
        raise PanelError(f"recorded:{error}") from None
    if not name:
        return judges
    if model not in judges:
        few = ", ".join(f"recorded:{each}" for each in [*judges][:_NAMED])
        near = did_you_mean(model, judges)
        raise PanelError(f"recorded:{place}: no judge {name!r}{near}; there are {few}")
    return {model: judges[model]}


def _features(request: Request, opinions: _Opinions) -> SyntheticFeatures:
    """Return the features that a recorded judge has for a request's documents.

    Raises:
        Refused: it has no opinion on one of them.
    """

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


def list_recordings(place: str) -> list[str]:
    """List the recordings of a folder; a file, or the results of a run, are one."""
    names = ["run.json"] if _is_file(place) else list_directory(place)
    if names is None:
        raise InputError(f"{place}: no such file of JSON lines (.jsonl or .ndjson), and no folder")
    if "run.json" in names:
        return [place]
    recordings = [f"{place.rstrip('/')}/{name}" for name in names if is_jsonl(name)]
    if not recordings:
        raise InputError(f"{place}: this folder holds no recording (.jsonl or .ndjson)")
    return recordings


def _is_file(source: str) -> bool:
    return is_jsonl(source) or source.endswith(".parquet")


def _files(source: str) -> list[str]:
    if _is_file(source):
        return [source]
    names = list_directory(source) or ()
    tables = [f"{source.rstrip('/')}/{name}" for name in _TABLES if name in names]
    if not tables:
        raise InputError(f"{source}: this run has neither votes.parquet nor grades.parquet")
    return tables


def hash_recording(source: str) -> str:
    """Hash the unpacked content of a recording."""
    digest = hashlib.sha256()
    for file in _files(source):
        with open_for_reading(file) as stream:
            while block := stream.read(2**20):
                digest.update(block)
    return digest.hexdigest()[:16]


@cache  # all judges of the panel share it, and reading it takes long
def read_recording(source: str, digest: str) -> dict[str, _Opinions]:
    """Read the opinions of a recording by judge, under "" where rows name no judge."""
    if hash_recording(source) != digest:
        raise InputError(f"{source}: has changed since the run began")
    opinions, first = defaultdict[str, _Opinions](dict), dict[tuple[str, ...], str]()
    for file in _files(source):
        rows = open_source(file)

        def read(number: int, row: Mapping[str, Any], where: Any = rows.where) -> None:
            doc_ids, opinion = _read_opinion(row)
            query_id, judge = _id(row, "query_id"), _text(row, "judge")
            about, place = (query_id, *doc_ids), where(number)
            earlier = first.setdefault((judge, *about), place)
            if earlier != place and not _text(row, "key"):  # of a run, which may ask repeatedly
                what = f"{' and '.join(doc_ids)} of query {query_id}"
                raise ValueError(f"a second opinion on {what}; the first is {earlier}")
            opinions[judge].setdefault(about, []).append(opinion)

        for _ in rows.each(read):
            pass
    if not opinions:
        raise InputError(f"{source}: holds no opinion")
    return dict(opinions)


def _read_opinion(row: Mapping[str, Any]) -> tuple[tuple[str, ...], SyntheticFeatures]:
    """Return the documents of a row, in the order in which the judge saw them, and its opinion."""
    if row.get("doc_id_a") is not None:
        preference = _number(row, "preference", -1, 1)
        if preference is None:
            raise ValueError("has no preference")
        pair = _id(row, "doc_id_a"), _id(row, "doc_id_b")
        if convert("swapped", row.get("swapped")):
            pair, preference = pair[::-1], -preference
        return pair, SyntheticFeatures(pair_preference=preference, words=_text(row, "reasoning"))
    worth, grade = (_number(row, name, 0, _HIGHEST) for name in ("worth", "grade"))
    worth = grade if worth is None else worth
    if worth is None:
        raise ValueError("has neither worth nor grade")
    grade = math.floor(worth + 0.5) if grade is None else grade
    if grade != int(grade):
        raise ValueError(f"the grade {grade:g} is not a whole number")
    doc_id, rationale = _id(row, "doc_id"), _text(row, "rationale")
    summary = f"{doc_id}, worth {worth:g} of {_HIGHEST}: {rationale}".rstrip(": ")
    return (doc_id,), SyntheticFeatures(
        document_grade=int(grade),
        scores=(worth,),
        words=rationale or summary,
        argument=summary,
        covered=tuple(_texts(row, "covered", "facets_covered")),
        missing=tuple(_texts(row, "missing", "facets_missing")),
    )


def _id(row: Mapping[str, Any], name: str) -> str:
    id_ = convert("doc_id", row.get(name))
    if id_ is None:
        raise ValueError(f"has no {name}")
    return str(id_)


def _number(row: Mapping[str, Any], name: str, low: int, high: int) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; write a number from {low} to {high}")
    return float(value)


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value or "", str):
        raise ValueError(f"{name} is {value!r}; write a text")  # noqa: TRY004 - as all of a row
    return value or ""


def _texts(row: Mapping[str, Any], *names: str) -> Sequence[str]:
    """Return the texts of the first of these fields that there is."""
    values: Iterator[Any] = (row[name] for name in names if row.get(name) is not None)
    found: Any = next(values, [])
    if not isinstance(found, list) or not all(isinstance(value, str) for value in found):
        raise ValueError(f"{names[0]} is {found!r}; write a list of texts")
    return found


PROVIDER = Provider(
    connect=lambda _: Recorded(),
    judges_in=judges_in,
    transport={_PLACE: None},  # where a recording is changes no answer
    concurrency=256,
    free=True,
    gives_probabilities=True,
)
