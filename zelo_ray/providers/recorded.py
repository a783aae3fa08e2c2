"""Judges that replay recorded opinions, without cost or key.

``recorded:FILE`` is one judge, or, where rows of the file name a ``judge``, all of them, each as
``recorded:FILE#JUDGE``; ``recorded:FOLDER`` is all of a folder (`zelo_ray.files.recordings`).

A recorded comparison of the pair takes precedence. Without one, two documents are compared by their
values: the preference is the tanh of the difference. The response model turns it into an answer
(`zelo_ray.records.SyntheticFeatures`). Without an opinion the request fails.

A judge's options include the digest of its recording. They are part of every key, so a ledger never
mixes two versions of a file.
"""

import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zelo_ray.errors import InputError, PanelError
from zelo_ray.files.recordings import (
    Opinion,
    Opinions,
    RecordedComparison,
    hash_recording,
    list_recordings,
    read_recording,
)
from zelo_ray.files.storage import file_stem
from zelo_ray.names import did_you_mean
from zelo_ray.providers import Fatal, Provider, Refused
from zelo_ray.records import RECORDING, Answer, Request, SyntheticFeatures, Usage, synthesize_answer

_WHOSE, _PLACE = "#", "file"
_NAMED = 10  # most judges listed when a name is unknown


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


def _features(request: Request, held: Opinions) -> SyntheticFeatures:
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
    scores = tuple(opinion.value for opinion in opinions)
    words = " ".join(opinion.summary for opinion in opinions)
    match opinions:
        case [Opinion() as one]:
            return SyntheticFeatures(
                document_grade=one.rounded_grade,
                scores=scores,
                words=one.rationale or one.summary,
                argument=one.summary,
                covered=tuple(one.covered),
                missing=tuple(one.missing),
            )
        case [_, _]:
            lean = round(math.tanh(scores[1] - scores[0]), 4)
            return SyntheticFeatures(
                pair_preference=lean, scores=scores, words=words, argument=words
            )
    return SyntheticFeatures(scores=scores)


def _compared(
    request: Request, held: Opinions, first: str, second: str
) -> SyntheticFeatures | None:
    """Return the opinion on this very pair, if there is one."""
    comparison: RecordedComparison | None
    if comparison := _find_opinion(request, held, first, second):
        return SyntheticFeatures(
            pair_preference=comparison.shown_preference, words=comparison.reasoning
        )
    if comparison := _find_opinion(request, held, second, first):
        turned = f"(Recorded with these two in the other order.) {comparison.reasoning}"
        return SyntheticFeatures(
            pair_preference=-comparison.shown_preference, words=turned.rstrip()
        )
    return None


def _find_opinion(request: Request, held: Opinions, *doc_ids: str) -> Any:
    """Return the opinion that a request asks for; None if there is none."""
    opinions = held.get((request.query_id, *doc_ids))
    return opinions[request.repeat % len(opinions)] if opinions else None


PROVIDER = Provider(
    connect=lambda _: Recorded(),
    judges_in=judges_in,
    transport={_PLACE: None},  # where a recording is changes no answer
    concurrency=256,
    free=True,
    gives_probabilities=True,
)
