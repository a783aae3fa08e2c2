"""A reranker of the user's own: ``module:Class``, ``module:function``, ``path/to/file.py:Class``.

From Python it is an object in memory, which is packed into a file that is named here. See
`Reranker`. A class is made with the arm's options, where it is asked; a function gets
them as keyword arguments. ``score`` may be asynchronous, and then many queries are in it at once; a
plain one runs in a thread and gets one after another, since few models and tokenizers are made for
several threads. What it raises is a failure of that query.
"""

import asyncio
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol

import fsspec

from zelo_ray.errors import PanelError
from zelo_ray.own import load_own
from zelo_ray.providers import Fatal, Provider, Settings
from zelo_ray.records import Answer, Judge, Request
from zelo_ray.rerankers.answers import answer_of, failed

PACKED = ".pkl"
"""How the file of a packed object ends; its name is ``NAME-HASH``."""
_UNFIT = "is no function, and has no score(query, documents)"


class Reranker(Protocol):
    """A reranker of your own: any class with this method, whether it inherits or not.

    A bake-off names it ``module:Class`` or ``path/to/file.py:Class``, and makes it with its
    ``reranker_options``; from Python the class or an object of it is handed over. Its attribute
    ``version`` tells when it has changed: while it is the same, later runs use the scores of
    earlier ones. Without it every run asks anew, also one that goes on where another was killed.

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


class Custom:
    """Holds the rerankers of this process.

    Args:
        settings: how long one call may take.
    """

    def __init__(self, settings: Settings) -> None:
        self._seconds = settings.timeout
        self._made: dict[str, Callable[..., Any]] = {}
        self._thread = ThreadPoolExecutor(1, "reranker")
        self._turn = asyncio.Lock()

    async def send(self, request: Request) -> Answer:
        """Score the documents of a request."""
        judge = request.judge
        try:
            if judge.name not in self._made:  # on the loop, where it may open a client
                self._made[judge.name] = scorer(judge, found_at(judge))
        except PanelError as error:
            raise Fatal(str(error)) from None
        texts = [document.content for document in request.documents]
        try:
            return await self._call(self._made[judge.name], request.query, texts, judge.model)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # it is we who are called off
            return failed(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure of this query
            return failed(error, (request.query, *texts))

    async def aclose(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False)

    async def _call(
        self, score: Callable[..., Any], query: str, texts: list[str], model: str
    ) -> Answer:
        plain = not inspect.iscoroutinefunction(score)
        scores = await self._in_thread(score, query, texts) if plain else score(query, texts)
        if inspect.isawaitable(scores):
            async with asyncio.timeout(self._seconds):
                scores = await scores
        # It may be computed only as it is read.
        answer: Answer = await self._in_thread(partial(answer_of, model=model), scores, len(texts))
        return answer

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call in the single thread, from its turn on; after a timeout a new thread replaces it."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(self._seconds):
                    return await loop.run_in_executor(self._thread, _contained, call, *arguments)
            except TimeoutError:
                self._thread.shutdown(wait=False)
                self._thread = ThreadPoolExecutor(1, "reranker")
                raise


def scorer(judge: Judge, plugin: Any) -> Callable[..., Any]:
    """Make a judge's reranker ready to be called with a query and documents.

    Raises:
        PanelError: it cannot be made, or takes other arguments.
    """
    arguments = judge.options["arguments"]
    try:
        made = plugin(**arguments) if inspect.isclass(plugin) else plugin
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own code
        raise PanelError(f"{judge.model} cannot be made: {failed(error).reason}") from None
    score = getattr(made, "score", made)
    if not callable(score):
        raise PanelError(f"{judge.model} {_UNFIT}")
    if not inspect.isroutine(score):
        score = score.__call__  # so that an asynchronous one is seen to be
    keywords = {} if inspect.isclass(plugin) else arguments
    _bind(judge, score, "query", ["document"], **keywords)
    return partial(score, **keywords)


def refuse_unfit(judge: Judge, plugin: Any) -> None:
    """Check what was found for a judge as far as that goes without making it.

    A class may load weights that only its actor has room for, or open a client, which takes an
    event loop.

    Raises:
        PanelError: it takes other arguments, or has no ``score``.
    """
    if not inspect.isclass(plugin):
        scorer(judge, plugin)
        return
    _bind(judge, plugin, **judge.options["arguments"])
    held = {name: value for base in reversed(plugin.__mro__) for name, value in vars(base).items()}
    method = held.get("score", held.get("__call__"))
    if method is None:
        raise PanelError(f"{judge.model} {_UNFIT}")
    if isinstance(method, FunctionType):
        _bind(judge, method, plugin, "query", ["document"])


def _bind(judge: Judge, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    what = "reranker_options" if inspect.isclass(call) else "(query, documents)"
    try:
        inspect.signature(call).bind(*arguments, **named)
    except TypeError as error:
        raise PanelError(f"{judge.model} does not take {what}: {error}") from None
    except ValueError:  # some that are not written in Python tell no signature
        pass


def _contained(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call it in a thread. What no future can hold, or would end the loop, becomes an error."""
    try:
        return call(*arguments)
    except (StopIteration, KeyboardInterrupt, GeneratorExit) as error:
        raise RuntimeError(failed(error).reason) from None


def found_at(judge: Judge) -> Any:
    """Load the class, function or object that a judge's name points at.

    Raises:
        PanelError: it cannot be imported.
    """
    place = str(judge.options.get("place") or judge.model)
    try:
        if place.endswith(PACKED):
            with fsspec.open(place, "rb") as file:
                return pickle.load(file)  # noqa: S301 - this run wrote it
        return load_own(place)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import runs the user's own code
        raise PanelError(f"{judge.model} cannot be imported: {failed(error).reason}") from None


def versioned(judge: Judge, plugin: Any, run_id: str) -> Judge:
    """Return the judge with a version: its own, or else this run's, so no old score is used."""
    version = getattr(plugin, "version", None)
    own_version = str(version) if isinstance(version, str | int | float) else ""
    options = {**judge.options, "version": own_version or f"run {run_id}"}
    if not judge.model.endswith(PACKED):
        return Judge(judge.provider, judge.model, options=options)
    name, options["place"] = Path(judge.model).stem.rpartition("-")[0], judge.model
    return Judge(judge.provider, name, options=options, transport={"place": None})


PROVIDER = Provider(connect=Custom, options={"arguments": {}, "version": None}, free=True)
