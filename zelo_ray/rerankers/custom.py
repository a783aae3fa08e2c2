"""A reranker of the user's own: ``module:Class``, ``module:function``, ``path/to/file.py:Class``.

See `zelo_ray.Reranker`. A class is made with the arm's options; a function gets them as keyword
arguments. ``score`` may be asynchronous, and then many queries are in it at once; a plain one runs
in threads. What it raises is a failure of that query.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from zelo_ray.providers import Fatal, PanelError, Provider, Settings
from zelo_ray.records import Answer, Judge, Request
from zelo_ray.rerankers.answers import answer_of, failed
from zelo_ray.rerankers.local import nothing_counted

KEY_VARIABLES: tuple[str, ...] = ()
MODELS: tuple[str, ...] = ()
CLOSED = False
OPTIONS: Mapping[str, Any] = {"arguments": {}, "version": None}
CONCURRENCY = 16
RATES: Mapping[str, float] = {}
BATCH = None

counted = nothing_counted


def connect(settings: Settings) -> Provider:
    """Where rerankers are made when they are first asked."""
    return Custom(settings)


class Custom:
    """Holds the rerankers of this process.

    Args:
        settings: how long one call may take.
    """

    def __init__(self, settings: Settings) -> None:
        self._seconds = settings.timeout
        self._made: dict[str, Callable[..., Any]] = {}
        self._threads = ThreadPoolExecutor(CONCURRENCY, "reranker")

    async def send(self, request: Request) -> Answer:
        """Have the documents of a request scored."""
        judge = request.judge
        try:
            if judge.name not in self._made:  # on the loop, where it may open a client
                self._made[judge.name] = scorer(judge, found_at(judge))
        except PanelError as error:
            raise Fatal(str(error)) from None
        texts = [document.content for document in request.documents]
        try:
            async with asyncio.timeout(self._seconds):
                scores = await self._call(self._made[judge.name], request.query, texts)
        except Exception as error:  # noqa: BLE001 - a failure of this query, whatever it is
            return failed(error)
        return answer_of(scores, len(texts), model=judge.model)

    async def aclose(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)

    async def _call(self, score: Callable[..., Any], query: str, texts: list[str]) -> Any:
        if inspect.iscoroutinefunction(score):
            return await score(query, texts)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, score, query, texts)
        return await found if inspect.isawaitable(found) else found


def scorer(judge: Judge, found: Any) -> Callable[..., Any]:
    """What was found for a judge, made and ready to be called with a query and documents.

    Raises:
        PanelError: it cannot be made, or takes other arguments.
    """
    arguments = judge.options["arguments"]
    try:
        made = found(**arguments) if inspect.isclass(found) else found
    except Exception as error:  # noqa: BLE001 - the user's own code
        raise PanelError(f"{judge.model} cannot be made: {failed(error).reason}") from None
    score = getattr(made, "score", made)
    if not callable(score):
        raise PanelError(f"{judge.model} is no function, and has no score(query, documents)")
    if not inspect.isroutine(score):
        score = score.__call__  # so that an asynchronous one is seen to be
    given = {} if inspect.isclass(found) else arguments
    try:
        inspect.signature(score).bind("query", ["document"], **given)
    except (TypeError, ValueError) as error:
        raise PanelError(f"{judge.model} does not take (query, documents): {error}") from None
    return partial(score, **given)


def found_at(judge: Judge) -> Any:
    """The class, function or object that a judge's name points at.

    Raises:
        PanelError: it cannot be imported.
    """
    where, _, name = judge.model.rpartition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = _run(Path(where).expanduser()) if where.endswith(".py") else import_module(where)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # noqa: BLE001 - an import runs the user's own code
        raise PanelError(f"{judge.model} cannot be imported: {failed(error).reason}") from None
    return found


def versioned(judge: Judge, found: Any, run_id: str) -> Judge:
    """The judge with a version: its own, or else this run's, so that no old score is served.

    Raises:
        PanelError: its arguments cannot be written down.
    """
    try:
        json.dumps(judge.options["arguments"])
    except (TypeError, ValueError) as error:
        raise PanelError(f"{judge.model}: reranker_options: {error}") from None
    version = getattr(found, "version", None)
    own = str(version) if isinstance(version, str | int | float) else f"run {run_id}"
    options = {**judge.options, "version": own}
    return Judge(judge.provider, judge.model, options=options)


def _run(path: Path) -> Any:
    """A file as a module of its own."""
    spec = spec_from_file_location(f"reranker_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    found = module_from_spec(spec)
    sys.modules[spec.name] = found  # where dataclasses and pickle look for it
    spec.loader.exec_module(found)
    return found
