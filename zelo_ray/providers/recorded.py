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

import difflib
import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from zelo_ray.errors import InputError, PanelError
from zelo_ray.files.rows import open_source
from zelo_ray.files.schema import convert
from zelo_ray.files.storage import file_stem, is_jsonl, list_directory, open_for_reading
from zelo_ray.names import did_you_mean
from zelo_ray.providers import Fatal, Provider, Refused
from zelo_ray.records import RECORDING, Answer, Request, SyntheticFeatures, Usage, synthesize_answer

_WHOSE, _PLACE = "#", "file"
_NAMED = 10  # most judges listed when a name is unknown
_HIGHEST = 3
_LISTS = {"covered": "facets_covered", "missing": "facets_missing"}
_TABLES = ("votes.parquet", "grades.parquet")


@dataclass(frozen=True, slots=True)
class _Opinion:
    """What a row says of one document: its worth for the query, and the whole grade."""

    doc_id: str
    worth: float
    grade: int
    rationale: str
    covered: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def summary(self) -> str:
        """Return the opinion as a line of text that names the document."""
        return f"{self.doc_id}, worth {self.worth:g} of {_HIGHEST}: {self.rationale}".rstrip(": ")


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What a row says of two documents; below 0: the one that is shown first is better."""

    preference: float
    reasoning: str


_Opinions = dict[tuple[str, ...], list[_Opinion | _Comparison]]
"""One judge's opinions by query and document ids; several where it was asked repeatedly."""


class Recorded:
    """A connection that answers from recordings, each of which is read once."""

    async def send(self, request: Request) -> Answer:
        """Return a recorded opinion."""
        judge = request.judge
        if not request.query_id:
            raise Refused("the protocol passes no query_id to its Request", name=judge.name)
        try:
            held = read_recording(judge.options[_PLACE], judge.options[RECORDING])
        except InputError as error:
            raise Fatal(
                f"{error}; every node must see the recording, unchanged during the run: name a "
                "URL, or a path that all nodes share",
                name=judge.name,
            ) from None
        try:
            text = synthesize_answer(
                request, _features(request, held[judge.model.partition(_WHOSE)[2]])
            )
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
    where, _, whose = model.partition(_WHOSE)
    if not where:
        raise PanelError("write recorded:FILE, or recorded:FOLDER for all recordings in it")
    judges = dict[str, dict[str, Any]]()
    try:
        for source in list_recordings(where):
            digest = hash_recording(source)
            path = source if "://" in source else str(Path(source).expanduser().absolute())
            options = {RECORDING: digest, _PLACE: path}
            for name in read_recording(source, digest):
                judges[f"{source}{_WHOSE}{name}" if name else source] = options
    except InputError as error:  # its message begins with the path
        raise PanelError(f"recorded:{error}") from None
    if whose and model not in judges:
        raise PanelError(
            f"recorded:{where}: no judge {whose!r}{_others(where, whose, list(judges))}"
        )
    return {model: judges[model]} if whose else judges


def _others(where: str, whose: str, found: Sequence[str]) -> str:
    """Return the end of a line that lists the judges; short if all are of one file."""
    if all(name.startswith(f"{where}{_WHOSE}") for name in found):
        names = [name.removeprefix(f"{where}{_WHOSE}") for name in found]
        return f"{did_you_mean(whose, names)}; has {', '.join(names)}"
    ends = {name.partition(_WHOSE)[2] or file_stem(name): name for name in found}
    near = difflib.get_close_matches(whose, ends, 1)
    likely = f" (did you mean 'recorded:{ends[near[0]]}'?)" if near else ""
    few = ", ".join(f"recorded:{name}" for name in found[:_NAMED])
    return f"{likely}; there are {few}{' …' if len(found) > _NAMED else ''}"


def _features(request: Request, held: _Opinions) -> SyntheticFeatures:
    """Return the features that a recorded judge has for a request's documents.

    Raises:
        Refused: it has no opinion on one of them.
    """
    ids = [document.id for document in request.documents]
    if len(ids) == 2 and (compared := _compared(request, held, *ids)):
        return compared
    opinions = [_find_opinion(request, held, doc_id) for doc_id in ids]
    if None in opinions:
        what = f"document {ids[opinions.index(None)]!r} of query {request.query_id!r}"
        raise Refused(f"the recording has no opinion on {what}", name=request.judge.name)
    scores = tuple(opinion.worth for opinion in opinions)
    words = " ".join(opinion.summary for opinion in opinions)
    match opinions:
        case [_Opinion() as one]:
            return SyntheticFeatures(
                document_grade=one.grade,
                scores=scores,
                words=one.rationale or one.summary,
                argument=one.summary,
                covered=one.covered,
                missing=one.missing,
            )
        case [_, _]:
            lean = round(math.tanh(scores[1] - scores[0]), 4)
            return SyntheticFeatures(
                pair_preference=lean, scores=scores, words=words, argument=words
            )
    return SyntheticFeatures(scores=scores)


def _compared(
    request: Request, held: _Opinions, first: str, second: str
) -> SyntheticFeatures | None:
    """Return the opinion on this very pair, if there is one."""
    comparison: _Comparison | None
    if comparison := _find_opinion(request, held, first, second):
        return SyntheticFeatures(pair_preference=comparison.preference, words=comparison.reasoning)
    if comparison := _find_opinion(request, held, second, first):
        turned = f"(Recorded with these two in the other order.) {comparison.reasoning}"
        return SyntheticFeatures(pair_preference=-comparison.preference, words=turned.rstrip())
    return None


def _find_opinion(request: Request, held: _Opinions, *doc_ids: str) -> Any:
    """Return the opinion that a request asks for; None if there is none."""
    opinions = held.get((request.query_id, *doc_ids))
    return opinions[request.repeat % len(opinions)] if opinions else None


# --- recordings ---------------------------------------------------------------------------------


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


def _read_opinion(row: Mapping[str, Any]) -> tuple[tuple[str, ...], _Opinion | _Comparison]:
    """Return the documents of a row, in the order in which the judge saw them, and its opinion."""
    if row.get("doc_id_a") is not None:
        preference = _number(row, "preference", -1, 1)
        if preference is None:
            raise ValueError("has no preference")
        pair = _id(row, "doc_id_a"), _id(row, "doc_id_b")
        if convert("swapped", row.get("swapped")):
            pair, preference = pair[::-1], -preference
        return pair, _Comparison(preference, _text(row, "reasoning"))
    worth, grade = (_number(row, name, 0, _HIGHEST) for name in ("worth", "grade"))
    worth = grade if worth is None else worth
    if worth is None:
        raise ValueError("has neither worth nor grade")
    if grade is None:
        grade = math.floor(worth + 0.5)
    if grade != int(grade):
        raise ValueError(f"the grade {grade:g} is not a whole number")
    doc_id = _id(row, "doc_id")
    covered, missing = (
        tuple(_texts(row, name if row.get(name) is not None else also))
        for name, also in _LISTS.items()
    )
    opinion = _Opinion(doc_id, worth, int(grade), _text(row, "rationale"), covered, missing)
    return (doc_id,), opinion


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
    return "".join(_texts({name: [row[name]]} if row.get(name) is not None else {}, name))


def _texts(row: Mapping[str, Any], name: str) -> Sequence[str]:
    values = row.get(name)
    values = [] if values is None else values
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} is {values!r}; write a text, or a list of texts for facets")
    return values


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


PROVIDER = Provider(
    connect=lambda _: Recorded(),
    judges_in=judges_in,
    transport={_PLACE: None},  # where a recording is changes no answer
    concurrency=256,
    free=True,
    gives_probabilities=True,
)
