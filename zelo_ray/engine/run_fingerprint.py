"""Check whether a finished run is up to date: then nothing is planned, read or written.

The record of a run (``run.json``), which is written last, holds two digests: of all that it was
made of (options, panel, code, bytes of the input), and of the names, sizes and times of the files
that it left, with those of the ledger. Where both are as they were, a new run could only write the
same. What is in doubt counts as changed: code of the user's own, human grades, a failure that would
be asked again, damage, an object store.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import fsspec
from pydantic import TypeAdapter

from zelo_ray.engine.batch.parts import FOLDER as BATCHES
from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.ledger import FOLDER as REPLIES
from zelo_ray.engine.request_plans import FOLDER as PLANS
from zelo_ray.engine.request_plans import digest_code
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.run_record import RUN, is_finished, read_record
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import is_own_protocol
from zelo_ray.providers import is_own_provider
from zelo_ray.records import Judge

KEY = "fingerprint"
_NOT_RESULTS = {REPLIES, BATCHES, PLANS, RUN, "report.html"}
_ASKED_ONCE = {"refused", "filtered", "truncated", "invalid", "blank"}
"""How a request failed that a later run does not ask again."""
_HOW_ONLY = {"track", "executor", "actors", "collect"}
"""options that change no result of a run to which nothing is missing"""
_SUMMARY = TypeAdapter(Summary)


class RunFingerprint:
    """Fingerprint of all that a run is made of, taken as it begins.

    ``options`` have absolute places; the bytes of ``shards``, the files of the input, are read.
    """

    def __init__(
        self, options: AnnotateOptions, panel: Sequence[Judge], shards: Sequence[str]
    ) -> None:
        self._options, self._shards, self._made_of = options, frozenset(shards), ""
        places = (options.out, options.ledger_dir, *shards)  # to read an object twice takes long
        if (
            all("file" in fsspec.url_to_fs(place)[0].protocol for place in places)
            and not is_own_protocol(options.protocol)
            and not any(is_own_provider(judge.provider) for judge in panel)
            and getattr(options, "human", None) is None
            and options.pilot is None
            and not options.retry_failures
        ):
            judges = [(judge.name, dict(judge.options)) for judge in panel]
            made_of = [options.model_dump(mode="json", exclude=_HOW_ONLY), judges, digest_code()]
            for shard in shards:
                with fsspec.open(shard, "rb") as file:
                    made_of += [shard, hashlib.file_digest(file, hashlib.blake2b).hexdigest()]
            self._made_of = _digest(made_of)

    def read_current_summary(self) -> Summary | None:
        """Return the summary of the last run if its results are up to date, else None."""
        out = self._options.out
        if not self._made_of or not (Path(out) / RUN).exists():
            return None
        last = read_record(f"{out}/{RUN}")
        if not is_finished(last) or last.get(KEY) != self._now():
            return None
        if any(part.is_open for part in Parts(self._options.ledger_dir)):
            return None
        summary = _SUMMARY.validate_python({**last["summary"], "out": out})
        summary.dollars, summary.unpriced = 0.0, 0  # which were that run's
        summary.seconds, summary.up_to_date = {}, True
        return summary

    def to_record(self, summary: Summary) -> list[str] | None:
        """Return what to keep in the record of a run, written last; None in doubt."""
        doubtful = summary.disabled or summary.damaged or summary.maybe_dollars or summary.missing
        failures = {status for each in summary.failures_by_judge.values() for status in each}
        if not self._made_of or doubtful or not failures <= _ASKED_ONCE:
            return None
        return self._now()

    def _now(self) -> list[str]:
        """Return the digests, that of the files of results and ledger as they are now."""
        out, ledger_dir = Path(self._options.out), Path(self._options.ledger_dir)
        files = {
            path
            for path in out.rglob("[!.]*")
            if path.relative_to(out).parts[0] not in _NOT_RESULTS and path.is_file()
        }
        files |= {*(ledger_dir / REPLIES).rglob("*.jsonl"), *(ledger_dir / BATCHES).glob("*.json")}
        stats = [(str(path), path.stat()) for path in sorted(files)]
        seen = [(n, s.st_size, s.st_mtime_ns) for n, s in stats if n not in self._shards]
        return [self._made_of, _digest(seen)]


def _digest(values: object) -> str:
    return hashlib.blake2b(repr(values).encode(errors="backslashreplace")).hexdigest()
