"""A reranker of the user's own: ``module:Class``, ``module:function``, ``path/to/file.py:Class``.

One of an installed package has the plain name that is declared in ``zelo_ray.rerankers``. From
Python an object in memory is pickled into a file, whose path is the name. An asynchronous ``score``
has many queries at once; a plain one runs in a thread for one query after another, since few models
and tokenizers are thread-safe.
"""

import asyncio
import inspect
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, Protocol

import fsspec

from zelo_ray.errors import PanelError
from zelo_ray.plugins import import_plugin, load_installed
from zelo_ray.providers import Fatal, Provider, Settings
from zelo_ray.records import Answer, CallTiming, Judge, Request
from zelo_ray.rerankers.answers import answer_of, failed_answer

PACKED = ".pkl"
"""The ending of the file of a pickled object, which is called ``NAME-HASH``."""
_UNFIT = "is not a function and has no score(query, documents)"


class Reranker(Protocol):
    """A reranker of your own: any class with this method, with or without inheritance.

    A bake-off names it ``module:Class`` or ``path/to/file.py:Class``, and creates it with its
    ``reranker_options``; in Python, pass the class or an object of it. While its attribute
    ``version`` stays the same, later runs reuse the scores of earlier ones. Without it every
    run asks again, even one that resumes a run that was killed.
    """

    async def score(self, query: str, documents: list[str]) -> list[float]:
        """Return a finite number for each document, in order; the higher, the more relevant."""
        ...


class RerankerInput(NamedTuple):
    """What a reranker gets whose ``score`` takes a single argument."""

    query: str
    documents: list[str]


class LoadedModel(NamedTuple):
    """A reranker in memory: a function of a query and documents, and the device that computes."""

    score: Callable[..., Any]
    device: str = ""


class Custom:
    """Connection to the users' own rerankers, which it creates in this process."""

    def __init__(self, settings: Settings) -> None:
        self._seconds: float | None = settings.timeout
        self._made: dict[str, LoadedModel] = {}
        self._thread = ThreadPoolExecutor(1, "reranker")
        self._turn = asyncio.Lock()

    async def send(self, request: Request) -> Answer:
        """Score the documents of a request."""
        judge = request.judge
        try:
            loading = 0.0 if judge.name in self._made else await self._make(judge)
        except PanelError as error:
            raise Fatal(str(error)) from None
        texts = [document.content for document in request.documents]
        try:
            model = self._made[judge.name]
            answer, timing = await self._score(model.score, request.query, texts)
            timing = replace(timing, load_seconds=loading, device=model.device)
            return replace(answer, model=judge.model, timing=timing)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the call itself is cancelled
            return failed_answer(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure of this query
            return failed_answer(error, (request.query, *texts))

    async def aclose(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False)

    async def _make(self, judge: Judge) -> float:
        """Make a reranker on the loop, where it may open a client; return the seconds it took."""
        begun = time.perf_counter()
        self._made[judge.name] = LoadedModel(make_scorer(judge, load_reranker(judge)))
        return time.perf_counter() - begun

    async def _score(
        self, score: Callable[..., Any], query: str, texts: list[str]
    ) -> tuple[Answer, CallTiming]:
        """Score documents; return the answer, and its time without waiting for the thread."""
        call, seconds = partial(score, *_arguments(score, query, texts)), 0.0
        if inspect.iscoroutinefunction(score):
            scores = call()
        else:
            scores, seconds = await self._in_thread(call)
        is_awaited = inspect.isawaitable(scores)
        if is_awaited:
            begun = time.perf_counter()
            async with asyncio.timeout(self._seconds):
                scores = await scores
            seconds += time.perf_counter() - begun
        # A lazy result is computed while it is read.
        answer, reading = await self._in_thread(partial(answer_of, scores, len(texts)))
        return answer, CallTiming(seconds + reading, in_flight=0 if is_awaited else 1)

    async def _in_thread(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """Call in the single thread, one call at a time; a timeout replaces the thread."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(self._seconds):
                    return await loop.run_in_executor(self._thread, _timed, call)
            except TimeoutError:
                self._thread.shutdown(wait=False)
                self._thread = ThreadPoolExecutor(1, "reranker")
                raise


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Call it; return its result, and the seconds it took.

    Exceptions that a future cannot carry become a RuntimeError.
    """
    begun = time.perf_counter()
    try:
        return call(), time.perf_counter() - begun
    except (StopIteration, KeyboardInterrupt, GeneratorExit) as error:
        raise RuntimeError(failed_answer(error).reason) from None


def make_scorer(judge: Judge, plugin: Any) -> Callable[..., Any]:
    """Return a judge's reranker as a function of a query and documents, or raise `PanelError`."""
    arguments = judge.options["arguments"]
    try:
        made = plugin(**arguments) if inspect.isclass(plugin) else plugin
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own code
        raise PanelError(f"{judge.model} cannot be made: {failed_answer(error).reason}") from None
    score = getattr(made, "score", made)
    if not callable(score):
        raise PanelError(f"{judge.model} {_UNFIT}")
    if not inspect.isroutine(score):
        score = score.__call__  # so that an asynchronous one is recognised
    named = {} if inspect.isclass(plugin) else arguments
    _refuse_unfit(judge, score, **named)
    return partial(score, **named)


def check_reranker(judge: Judge, plugin: Any) -> None:
    """Check a user's reranker as far as possible without creating it, or raise `PanelError`.

    A class may load weights that fit only into its actor, or open a client that needs a loop.
    """
    if not inspect.isclass(plugin):
        make_scorer(judge, plugin)
        return
    if why := _misfit(plugin, **judge.options["arguments"]):
        raise PanelError(f"{judge.model} does not accept reranker_options: {why}")
    members = {name: each for base in reversed(plugin.__mro__) for name, each in vars(base).items()}
    method = members.get("score", members.get("__call__"))
    if method is None:
        raise PanelError(f"{judge.model} {_UNFIT}")
    if isinstance(method, FunctionType):
        _refuse_unfit(judge, partial(method, plugin))


def _refuse_unfit(judge: Judge, score: Callable[..., Any], /, **named: Any) -> None:
    if why := _misfit(score, *_arguments(score, "query", ["document"], **named), **named):
        raise PanelError(f"{judge.model} does not accept (query, documents): {why}")


def _arguments(
    score: Callable[..., Any], query: str, documents: list[str], /, **named: Any
) -> tuple[Any, ...]:
    """Return a query and its documents, as one argument for a reranker that takes a single one."""
    both = RerankerInput(query, documents)
    return (both,) if _misfit(score, *both, **named) and not _misfit(score, both, **named) else both


def _misfit(call: Callable[..., Any], /, *arguments: Any, **named: Any) -> str:
    """Say why a callable does not take these arguments; "" if it does, or cannot be asked."""
    try:
        inspect.signature(call).bind(*arguments, **named)
    except TypeError as error:
        return str(error) or "other arguments"
    except ValueError:  # some callables not written in Python have no signature
        return ""
    return ""


def load_reranker(judge: Judge) -> Any:
    """Load the class, function or object that a judge's name refers to, or raise `PanelError`."""
    place = str(judge.options.get("place") or judge.model)
    try:
        if place.endswith(PACKED):
            with fsspec.open(place, "rb") as file:
                return pickle.load(file)  # noqa: S301 - this run wrote it
        if ":" in place:
            return import_plugin(place)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import runs the user's own code
        why = failed_answer(error).reason
        raise PanelError(f"{judge.model} cannot be imported: {why}") from None
    installed = load_installed("rerankers", place, object, PanelError)
    if installed is None:
        raise PanelError(f"{judge.model} is not installed on this machine")
    return installed


def with_version(judge: Judge, plugin: Any, run_id: str) -> Judge:
    """Return the judge with its version, or else this run's id, so that no old score is reused."""
    version = getattr(plugin, "version", None)
    own_version = str(version) if isinstance(version, str | int | float) else ""
    options = {**judge.options, "version": own_version or f"run {run_id}"}
    if not judge.model.endswith(PACKED):
        return Judge(judge.provider, judge.model, options=options)
    name, options["place"] = Path(judge.model).stem.rpartition("-")[0], judge.model
    return Judge(judge.provider, name, options=options, transport={"place": None})


PROVIDERS = {
    "custom": Provider(connect=Custom, options={"arguments": {}, "version": None}, free=True)
}
