"""Keep which requests a pool leads to, so that their replies are found without their prompts.

To draw an order, render a prompt and hash it takes longer than to read its reply. So whoever asks
keeps the key and the order of each request, a row for each pool and judge, in a ledger of its own
beside that of the replies. The key of a row is a hash of all that the requests follow from: no plan
is ever out of date, only not found, and all of them may be lost at any time.
"""

import contextlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from threading import Lock

import orjson

from zelo_ray.engine.ledger import Ledger
from zelo_ray.options import AnnotateOptions
from zelo_ray.plugins import is_plugin_name
from zelo_ray.records import Judge, Pool, Reply, RequestPlan

FOLDER = "plans"
_PACKAGES = ("zelo-ray", "numpy", "scipy", "pyarrow", "pydantic", "orjson", "genai-prices")
_APART = {"out", "ledger", "inputs", "max_usd"}
"""Options on which no request depends. Any other one makes another plan."""


@cache
def digest_code() -> str:
    """Hash this package's files, and the versions of the packages that its results depend on."""
    home = Path(__file__).parents[1]
    digest = blake2b(repr([version(name) for name in _PACKAGES]).encode(), digest_size=16)
    for path in sorted(home.rglob("*")):
        if path.suffix not in (".pyc", "") and path.is_file():
            content = path.read_bytes()
            digest.update(f"\0{path.relative_to(home)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


class RequestPlans:
    """Plans of a job's pools. Whatever goes wrong with them, requests are rendered as without.

    Args:
        options: of the job; no plan is kept of a user's own protocol, whose code may change unseen.
        run_id: the run that writes; without it plans are only read.
    """

    def __init__(self, options: AnnotateOptions, run_id: str = "") -> None:
        self._place, self._run_id = f"{options.ledger_dir.rstrip('/')}/{FOLDER}", run_id
        self._in_use, self._writing = not is_plugin_name(options.protocol), Lock()
        values = options.model_dump(mode="json", exclude=_APART)
        self._base = blake2b(_to_json([digest_code(), values]), digest_size=16)

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self._place, self._run_id)

    def _keys(self, pool: Pool, judges: Collection[Judge]) -> Iterator[str]:
        """Hash what a pool's requests to each of these judges follow from."""
        documents = [(doc.id, doc.content, doc.metadata) for doc in pool.documents]
        about = (pool.query_id, pool.query, pool.session_id, pool.about, documents)
        shared = self._base.copy()
        shared.update(_to_json(about))
        for judge in judges:
            digest = shared.copy()
            digest.update(judge.key_prefix)
            yield digest.hexdigest()

    def find(self, pools: Sequence[Pool], panel: Sequence[Judge]) -> list[Pool]:
        """Return the same pools, with the plans that are kept of them."""
        try:
            return self._find(pools, panel) if self._in_use else [*pools]
        except Exception:  # noqa: BLE001 - a damaged or foreign file, or any error of a storage
            return [*pools]

    def _find(self, pools: Sequence[Pool], panel: Sequence[Judge]) -> list[Pool]:
        keys = [[*self._keys(pool, panel)] for pool in pools]
        flat = [key for row in keys for key in row]
        kept = [key for key, there in zip(flat, self._ledger.contains(flat), strict=True) if there]
        texts = {row.key: row.text for row in self._ledger.read(kept)}
        return [
            replace(
                pool,
                plan={
                    (judge.name, *item): (request_key, swapped)
                    for judge, key in zip(panel, row, strict=True)
                    for *item, request_key, swapped in orjson.loads(texts.get(key, "[]"))
                },
            )
            for pool, row in zip(pools, keys, strict=True)
        ]

    def keep(self, pool: Pool, plan: RequestPlan, judges: Collection[Judge]) -> None:
        """Keep the plan of a pool about which all was asked. It may be called from any thread."""
        if not plan or not self._in_use:
            return
        with self._writing, contextlib.suppress(Exception):  # it may be missing
            rows = list[Reply]()
            for judge, key in zip(judges, self._keys(pool, judges), strict=True):
                items = [(*i, *entry) for (name, *i), entry in plan.items() if name == judge.name]
                if items and not self._ledger.has(key):
                    text = _to_json(items).decode()
                    rows.append(Reply.without_call(key, judge.name, "ok", text=text))
            if rows:
                self._ledger.append(rows)

    def close(self) -> None:
        """Close files, if any are open."""
        with self._writing, contextlib.suppress(Exception):
            if "_ledger" in self.__dict__:
                self._ledger.close()


def _to_json(value: object) -> bytes:
    """Write any value, also such as no JSON has."""
    return json.dumps(value, default=repr).encode()
