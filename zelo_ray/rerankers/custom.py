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
    ``version`` stays the same, later runs reuse the scores of earlier ones. Without it every run
    asks again, even one that resumes a run that was killed.

    Example:
        >>> class Longest:
        ...     def score(self, query: str, documents: list[str]) -> list[float]:
        ...         return [float(len(text)) for text in documents]
        >>> Longest().score("tick", ["short", "much longer"])
        [5.0, 11.0]
    """

    async def score(self, query: str, documents: list[str]) -> list[float]:
        """Return a finite number for each document, in order; the higher, the more relevant."""
        ...


class RerankerInput(NamedTuple):
    """What a reranker gets whose ``score`` takes a single argument."""

    query: str
    documents: list[str]


class Custom:
    """Connection to the users' own rerankers, which it creates in this process."""

    def __init__(self, settings: Settings) -> None:
        self._seconds = settings.timeout
        self._made: dict[str, Callable[..., Any]] = {}
        self._thread = ThreadPoolExecutor(1, "reranker")
        self._turn = asyncio.Lock()

    async def send(self, request: Request) -> Answer:
        """Score the documents of a request."""
        judge, loading = request.judge, 0.0
        try:
            if judge.name not in self._made:  # on the loop, where it may open a client
                begun = time.perf_counter()
                self._made[judge.name] = make_scorer(judge, load_reranker(judge))
                loading = time.perf_counter() - begun
        except PanelError as error:
            raise Fatal(str(error)) from None
        texts = [document.content for document in request.documents]
        try:
            scorer = self._made[judge.name]
            answer, timing = await self._call(scorer, request.query, texts, judge.model)
            return replace(answer, timing=replace(timing, load_seconds=loading))
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

    async def _call(
        self, score: Callable[..., Any], query: str, texts: list[str], model: str
    ) -> tuple[Answer, CallTiming]:
        """Score documents; return the answer, and its time without waiting for the thread."""
        plain = not inspect.iscoroutinefunction(score)
        seconds = 0.0
        if plain:
            scores, seconds = await self._in_thread(_timed, score, query, texts)
        else:
            scores = score(query, texts)
        is_awaited = inspect.isawaitable(scores)
        if is_awaited:
            begun = time.perf_counter()
            async with asyncio.timeout(self._seconds):
                scores = await scores
            seconds += time.perf_counter() - begun
        # A lazy result is computed while it is read.
        answer, reading = await self._in_thread(
            _timed, partial(answer_of, model=model), scores, len(texts)
        )
        return answer, CallTiming(seconds + reading, in_flight=0 if is_awaited else 1)

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call in the single thread, one call at a time; a timeout replaces the thread."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(self._seconds):
                    return await loop.run_in_executor(self._thread, _contained, call, *arguments)
            except TimeoutError:
                self._thread.shutdown(wait=False)
                self._thread = ThreadPoolExecutor(1, "reranker")
                raise


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
    keywords = {} if inspect.isclass(plugin) else arguments
    if _takes_one(score, **keywords):
        score = _with_one_argument(score)
    _bind(judge, score, "query", ["document"], **keywords)
    return partial(score, **keywords)


def check_reranker(judge: Judge, plugin: Any) -> None:
    """Check a user's reranker as far as possible without creating it, or raise `PanelError`.

    A class may load weights that fit only into its actor, or open a client that needs a loop.
    """
    if not inspect.isclass(plugin):
        make_scorer(judge, plugin)
        return
    _bind(judge, plugin, **judge.options["arguments"])
    held = {name: value for base in reversed(plugin.__mro__) for name, value in vars(base).items()}
    method = held.get("score", held.get("__call__"))
    if method is None:
        raise PanelError(f"{judge.model} {_UNFIT}")
    if isinstance(method, FunctionType) and not _takes_one(method, plugin):
        _bind(judge, method, plugin, "query", ["document"])


def _takes_one(call: Callable[..., Any], *before: Any, **named: Any) -> bool:
    """Tell whether a reranker takes a query and its documents as one argument."""

    def fits(*arguments: Any) -> bool:
        try:
            inspect.signature(call).bind(*before, *arguments, **named)
        except (TypeError, ValueError):  # some callables not written in Python have no signature
            return False
        return True

    return not fits("query", ["document"]) and fits(RerankerInput("query", ["document"]))


def _with_one_argument(score: Callable[..., Any]) -> Callable[..., Any]:
    """Return a scorer of a query and documents that hands them over as a `RerankerInput`."""
    if not inspect.iscoroutinefunction(score):
        return lambda query, documents, **options: score(RerankerInput(query, documents), **options)

    async def ask(query: str, documents: list[str], **options: Any) -> Any:
        return await score(RerankerInput(query, documents), **options)

    return ask


def _bind(judge: Judge, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    what = "reranker_options" if inspect.isclass(call) else "(query, documents)"
    try:
        inspect.signature(call).bind(*arguments, **named)
    except TypeError as error:
        raise PanelError(f"{judge.model} does not accept {what}: {error}") from None
    except ValueError:  # some callables not written in Python have no signature
        pass


def _timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Call it; return its result, and the seconds it took."""
    begun = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - begun


def _contained(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call it in a thread; turn exceptions that a future cannot carry into a RuntimeError."""
    try:
        return call(*arguments)
    except (StopIteration, KeyboardInterrupt, GeneratorExit) as error:
        raise RuntimeError(failed_answer(error).reason) from None


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
        raise PanelError(
            f"{judge.model} cannot be imported: {failed_answer(error).reason}"
        ) from None
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
