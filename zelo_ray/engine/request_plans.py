"""Keep which requests a pool leads to, so that their replies are found without their prompts.

To draw an order, render a prompt and hash it takes longer than to read its reply. So whoever asks
keeps the key and the order of each request, a row for each pool and judge, in a ledger of its own
beside that of the replies. The key of a row is a hash of all that the requests follow from: a plan
need not be invalidated, it is only not found, and all of them may be lost at any time.
"""

import contextlib
import json
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from hashlib import blake2b
from importlib.metadata import version
from itertools import compress
from pathlib import Path
from platform import python_version
from threading import Lock
from typing import Any

import orjson

from zelo_ray.engine.ledger import Ledger
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import is_own_protocol
from zelo_ray.records import Judge, Pool, Reply, RequestPlan

FOLDER = "plans"
_PACKAGES = (
    *("zelo-ray", "numpy", "scipy", "pyarrow", "pydantic"),
    *("orjson", "pyyaml", "genai-prices"),
)
_CODE = {".py", ".txt", ".yaml", ".html", ".css", ".js"}
_APART = {"out", "ledger", "inputs", "max_usd", "track", "executor", "actors", "collect"}
"""Options on which no request depends. Any other one makes another plan."""


@cache
def digest_code() -> str:
    """Hash this package's files, and the versions of what its results depend on."""
    home = Path(__file__).parents[1]
    digest = blake2b(repr([python_version(), *map(version, _PACKAGES)]).encode(), digest_size=16)
    for path in sorted(path for path in home.rglob("*") if path.suffix in _CODE):
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(home)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


digest_code()  # as it is imported: later edits do not run in this process


class RequestPlans:
    """Plans of a job's pools. Where they cannot be read or kept, requests are rendered.

    After the first error no plan is read or kept any more. None is kept of a plug-in's protocol,
    whose code may change unseen. Without a ``run_id`` plans are only read.
    """

    def __init__(self, options: AnnotateOptions, run_id: str = "") -> None:
        self._place, self._run_id = f"{options.ledger_dir.rstrip('/')}/{FOLDER}", run_id
        self._in_use = not is_own_protocol(options.protocol)
        self._waiting, self._writing = deque[Reply](), Lock()
        values = options.model_dump(mode="json", exclude=_APART)
        self._base = blake2b(_to_json([digest_code(), values]), digest_size=16)

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self._place, self._run_id)

    @contextlib.contextmanager
    def _ended_by_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001 - a foreign file, or any error of a storage
            self._in_use = False

    def _keys(self, pool: Pool, judges: Collection[Judge]) -> list[str]:
        """Hash what a pool's requests to each of these judges follow from."""
        documents = [(doc.id, doc.content, doc.metadata) for doc in pool.documents]
        about = (pool.query_id, pool.query, pool.session_id, pool.about, documents)
        shared, keys = self._base.copy(), list[str]()
        shared.update(_to_json(about))
        for judge in judges:
            digest = shared.copy()
            digest.update(judge.key_prefix)
            keys.append(digest.hexdigest())
        return keys

    def find(self, pools: Sequence[Pool], panel: Sequence[Judge]) -> list[Pool]:
        """Return the same pools, with the plans that are kept of them."""
        found = [*pools]
        with self._ended_by_errors():
            if self._in_use:
                keys = [self._keys(pool, panel) for pool in pools]
                flat = [key for row in keys for key in row]
                present = [*compress(flat, self._ledger.contains(flat))]
                texts = {row.key: row.text for row in self._ledger.read(present)}
                found = [
                    replace(pool, plan=_plan_of(panel, [texts.get(key, "[]") for key in row]))
                    for pool, row in zip(pools, keys, strict=True)
                ]
        return found

    def keep(self, pool: Pool, plan: RequestPlan, judges: Collection[Judge]) -> None:
        """Take in what is known of a pool's requests to these judges; `flush` writes it."""
        items = {judge.name: list[tuple[Any, ...]]() for judge in judges}
        for (name, *item), entry in plan.items():
            if name in items:
                items[name].append((*item, *entry))
        if self._in_use and any(items.values()):
            for judge, key in zip(judges, self._keys(pool, judges), strict=True):
                if rows := items[judge.name]:
                    text = _to_json(rows).decode()
                    self._waiting.append(Reply.without_call(key, judge.name, "ok", text=text))

    def flush(self) -> None:
        """Write what was taken in and is not kept yet. It takes as long as the storage does."""
        with self._writing, self._ended_by_errors():
            rows = dict[str, Reply]()
            while self._waiting:  # others may add to it meanwhile
                row = self._waiting.popleft()
                rows[row.key] = row
            if rows and self._in_use:
                present = {*compress(rows, self._ledger.contains([*rows]))}
                if new := [row for key, row in rows.items() if key not in present]:
                    self._ledger.append(new)

    def close(self) -> None:
        """Write what was taken in, and close files."""
        self.flush()
        with self._writing, contextlib.suppress(Exception):
            self._in_use = False
            if "_ledger" in self.__dict__:
                self._ledger.close()


def _plan_of(panel: Sequence[Judge], texts: Sequence[str]) -> RequestPlan:
    """Read a pool's plan, of which there is a text for each judge."""
    return {
        (judge.name, *item): (request_key, swapped)
        for judge, text in zip(panel, texts, strict=True)
        for *item, request_key, swapped in orjson.loads(text)
    }


def _to_json(value: object) -> bytes:
    """Write any value, also such as no JSON has."""
    return json.dumps(value, default=repr).encode()
