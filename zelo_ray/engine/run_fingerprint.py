"""Check whether a finished run is up to date: then nothing is planned, read or written.

The record of a run (``run.json``), which is written last, holds two digests: of all that it was
made of (options, panel, code, bytes of the input), and of the files that it left, with those of the
ledger (names, sizes, times). Where both are as they were, a new run could only write the same. What
is in doubt counts as changed, and takes the ordinary way: code of the user's own, human grades, a
failure that would be asked again, a ledger with damage, an object store.

Damage in the ledger that keeps a file's size and time is not looked for here: the results were made
from it while it was whole.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import fsspec
import orjson

from zelo_ray.engine.batch.parts import FOLDER as BATCHES
from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.ledger import FOLDER as REPLIES
from zelo_ray.engine.request_plans import CODE_DIGEST
from zelo_ray.engine.request_plans import FOLDER as PLANS
from zelo_ray.engine.write_results import Summary
from zelo_ray.errors import InputError
from zelo_ray.files.run_record import RUN, is_finished, read_record
from zelo_ray.files.tables import read_table
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import is_own_protocol
from zelo_ray.providers import is_own_provider
from zelo_ray.records import Judge

KEY = "fingerprint"
_NOT_RESULTS = (RUN, "report.html")
_FINAL = {"refused", "filtered", "truncated", "invalid", "blank"}
"""How a request failed that a later run does not ask again."""
_HOW_ONLY = {"track", "executor", "actors", "collect"}
"""options that change no result of a run to which nothing is missing"""
_PIECE = 2**20
_AS_WRITTEN = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS


class RunFingerprint:
    """Fingerprint of all that a run is made of, taken as it begins.

    Args:
        options: of the job, with absolute places.
        panel: its judges.
        shards: the files of the input, whose bytes are read once.
    """

    def __init__(
        self, options: AnnotateOptions, panel: Sequence[Judge], shards: Sequence[str]
    ) -> None:
        self._options, self._shards = options, frozenset(shards)
        self._inputs = ""
        if not _in_doubt(options, panel, shards):
            ingredients = (
                options.model_dump(mode="json", exclude=_HOW_ONLY),
                [(judge.name, dict(judge.options)) for judge in panel],
                CODE_DIGEST,
            )
            digest = hashlib.blake2b(orjson.dumps(ingredients, repr, _AS_WRITTEN))
            for piece in _bytes_of(shards):
                digest.update(piece)
            self._inputs = digest.hexdigest()

    def read_current_summary(self) -> Summary | None:
        """Return the summary of the last run if its results are up to date, else None."""
        out = self._options.out
        if not self._inputs or not (Path(out) / RUN).exists():
            return None
        last = read_record(f"{out}/{RUN}")
        fingerprint = {"made_of": self._inputs, "files": self._files()}
        if not is_finished(last) or last.get(KEY) != fingerprint:
            return None
        if any(part.is_open for part in Parts(self._options.ledger_dir)):
            return None
        summary = Summary.from_record(out, last["summary"])
        summary.dollars, summary.unpriced = 0.0, 0  # which were that run's
        summary.seconds, summary.up_to_date = {}, True
        return summary

    def to_record(self, summary: Summary) -> dict[str, str] | None:
        """Return what to keep in the record of a run, written last; None in doubt."""
        doubtful = summary.disabled or summary.damaged or summary.maybe_dollars or summary.missing
        if not self._inputs or doubtful or not self._failures() <= _FINAL:
            return None
        return {"made_of": self._inputs, "files": self._files()}

    def _failures(self) -> set[str]:
        try:
            table = read_table(self._options.out, "failures", ["status"])
        except InputError:
            return {""}
        return set(table["status"].unique().to_pylist())

    def _files(self) -> str:
        """Return a digest of the names, sizes and times of the results and of the ledger."""
        digest = hashlib.blake2b()
        for path in _left(Path(self._options.out), Path(self._options.ledger_dir)):
            if str(path) not in self._shards:
                stat = path.stat()
                name = str(path).encode("utf-8", "backslashreplace").decode()  # it may be no UTF-8
                digest.update(orjson.dumps((name, stat.st_size, stat.st_mtime_ns)))
        return digest.hexdigest()


def _in_doubt(options: AnnotateOptions, panel: Sequence[Judge], shards: Sequence[str]) -> bool:
    places = (options.out, options.ledger_dir, *shards)  # to read an object twice takes long
    return (
        any("file" not in fsspec.url_to_fs(place)[0].protocol for place in places)
        or is_own_protocol(options.protocol)
        or any(is_own_provider(judge.provider) for judge in panel)
        or getattr(options, "human", None) is not None
        or options.pilot is not None
        or options.retry_failures
    )


def _left(out: Path, ledger_dir: Path) -> Iterator[Path]:
    """Yield the files of results and of the ledger, in a fixed order."""
    for path in sorted(out.rglob("*")):
        within = path.relative_to(out).parts
        ours = within[0] in (REPLIES, BATCHES, PLANS, *_NOT_RESULTS) or path.name.startswith(".")
        if not ours and path.is_file():
            yield path
    yield from sorted((ledger_dir / REPLIES).rglob("*.jsonl"))
    yield from sorted((ledger_dir / BATCHES).glob("*.json"))


def _bytes_of(shards: Sequence[str]) -> Iterator[bytes]:
    """Yield the bytes of the files, each followed by its name and length."""
    for shard in shards:
        size = 0
        with fsspec.open(shard, "rb") as file:
            while piece := file.read(_PIECE):
                size += len(piece)
                yield piece
        yield orjson.dumps((shard, size))
