"""Run local models through sentence-transformers, in one thread and one request at a time."""

import contextlib
import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from zelo_ray.errors import PanelError
from zelo_ray.protocols.rankers import Scores
from zelo_ray.providers import Connection, Provider, Refused, Settings
from zelo_ray.records import Answer, Judge, Request, SyntheticFeatures, synthesize_answer
from zelo_ray.rerankers.answers import answer_of, failed_answer
from zelo_ray.rerankers.custom import Custom, LoadedModel


class Local(Custom):
    """Connection to local models, which are loaded and compute in a thread of their own."""

    def __init__(self, load: Callable[[Judge], LoadedModel], slope: float = 1.0) -> None:
        super().__init__(Settings())
        self._load, self._slope, self._seconds = load, slope, None

    async def send(self, request: Request) -> Answer:
        """Score the documents of a request, or judge them by these scores."""
        answer = await super().send(request)
        if answer.status == "ok" and not issubclass(request.response_model, Scores):
            return replace(answer, text=self._vote(request, answer.text))
        return answer

    async def _make(self, judge: Judge) -> float:
        return (await self._in_thread(partial(self._load_once, judge)))[1]

    def _load_once(self, judge: Judge) -> None:
        """Load a model and score a few words: what a device prepares first counts as loading."""
        if judge.name in self._made:
            return
        try:
            model = self._load(judge)
        except Exception as error:  # noqa: BLE001 - whatever it is, no query can be answered
            why = failed_answer(error).reason
            raise PanelError(f"{judge.name}: cannot be loaded: {why}") from None
        with contextlib.suppress(Exception):  # a query will say what is wrong
            answer_of(model.score("a query", ["a document"]), 1)
        self._made[judge.name] = model

    def _vote(self, request: Request, text: str) -> str:
        """Return the answer of a judge that has these scores of the documents.

        Raise `Refused` if they answer no such question, such as one for a grade.
        """
        scores = tuple(Scores.model_validate_json(text).scores)
        slope = request.judge.options["slope"] or self._slope
        # Equal texts differ in their last digits, by their place in the block: that is a tie.
        pair = round(math.tanh(slope * (scores[1] - scores[0])), 4) if len(scores) == 2 else None
        words = f"scores in the order shown: {', '.join(f'{score:.4g}' for score in scores)}"
        features = SyntheticFeatures(pair_preference=pair, scores=scores, words=words)
        try:
            return synthesize_answer(request, features)
        except ValueError:
            what = "encoders compare documents or order them; they give no grades and no reasons"
            raise Refused(what, name=request.judge.name) from None


def _load_cross_encoder(judge: Judge) -> LoadedModel:
    """Load a model that reads query and document together, and gives one number.

    The score is the model's logit: a sigmoid would round those of very good documents to 1.
    """
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - seconds, paid where it is used
    from torch.nn import Identity  # noqa: PLC0415 - paid where it is used

    length = judge.options["max_length"]
    model = CrossEncoder(_path(judge), max_length=length, activation_fn=Identity(), **_how(judge))

    def score(query: str, documents: list[str]) -> Any:
        return model.predict([(query, document) for document in documents], **_blocks(judge))

    return _loaded(model, score)


def _load_bi_encoder(judge: Judge) -> LoadedModel:
    """Load a model that embeds the query and each document; their similarity is the score."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - seconds, paid where used

    model = SentenceTransformer(_path(judge), **_how(judge))
    if judge.options["max_length"]:
        model.max_seq_length = judge.options["max_length"]

    def score(query: str, documents: list[str]) -> Any:
        # Both methods use the prompts that the model was trained with, if it has any.
        queries = model.encode_query([query], **_blocks(judge))
        return model.similarity(queries, model.encode_document(documents, **_blocks(judge)))[0]

    return _loaded(model, score)


def _path(judge: Judge) -> str:
    return str(Path(judge.model).expanduser())


def _how(judge: Judge) -> dict[str, Any]:
    return {name: judge.options[name] for name in ("device", "revision", "trust_remote_code")}


def _blocks(judge: Judge) -> dict[str, Any]:
    return {"batch_size": judge.options["block_size"], "show_progress_bar": False}


def _loaded(model: Any, score: Callable[[str, list[str]], Any]) -> LoadedModel:
    """Let torch use all cores: Ray limits actors, most of which only wait, to one thread each."""
    if model.device.type == "cpu":
        import torch  # noqa: PLC0415 - seconds, paid where it is used

        torch.set_num_threads(os.cpu_count() or 1)
    return LoadedModel(score, str(model.device))


def fingerprint_of(judge: Judge) -> str | None:
    """Return a hash of a model's files by name, size and time; None if it is no path."""
    folder = Path(judge.model).expanduser()
    if folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        facts = [(path, path.stat()) for path in files]
        lines = [f"{p.relative_to(folder)} {s.st_size} {s.st_mtime_ns}" for p, s in facts]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    if judge.model.startswith(("/", ".", "~")):
        raise PanelError(f"{judge.name}: there is no such folder")
    return None


def _provider(load: Callable[[Judge], LoadedModel], slope: float) -> Provider:
    """Build a provider of encoders, with the slope by whose tanh a difference is a preference."""

    def connect(_: Settings) -> Connection:
        if find_spec("sentence_transformers") is None:
            raise PanelError("encoders need the extra: pip install 'zelo-ray[encoders]'")
        return Local(load, slope)

    return Provider(
        connect=connect,
        options={
            "max_length": None,  # tokens that the model reads; None: all that it can
            "block_size": 32,  # documents per forward pass
            "device": None,  # such as cuda:1; None: the best that there is
            "revision": None,  # of a model on the Hugging Face Hub
            "trust_remote_code": False,
            "version": None,  # None: a fingerprint of the model's folder, if it has one
            "slope": None,  # as a judge: what turns a difference of scores into a preference
        },
        fingerprint=fingerprint_of,
        concurrency=2,  # one is computed while one waits
        free=True,
    )


PROVIDERS = {
    "cross-encoder": _provider(_load_cross_encoder, slope=0.5),  # the tanh of half is logistic
    "bi-encoder": _provider(_load_bi_encoder, slope=10.0),  # cosines: .1 is a clear difference
}
