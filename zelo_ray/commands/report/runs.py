"""Read the time, judges, data, cost and result of a run from its record."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import fsspec

from zelo_ray.commands.report import RECORDS, REPORTS
from zelo_ray.engine.ledger.spending import sum_paid
from zelo_ray.engine.lock import is_run_active
from zelo_ray.errors import ZeloError
from zelo_ray.formats.files import list_directory, read_json_object
from zelo_ray.formats.run_record import COMMAND_OF_KIND, is_finished

_BEGUN = re.compile(r"\d{8}T\d{6}Z")
_SAID = ("judges", "rerankers", "protocols", "runs", "old", "new")
"""Options that name judges, or what is compared."""


@dataclass(frozen=True)
class PastRun:
    """A run of any command, by its record.

    Args:
        place: directory or URL.
        name: of its record, such as ``run.json``.
        record: its contents.
    """

    place: str
    name: str
    record: Mapping[str, Any]

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the options of the run."""
        return _dict(self.record.get("options"))

    @property
    def command(self) -> str:
        """Return the command that ran."""
        kind = str(self.record.get("kind", ""))
        return COMMAND_OF_KIND.get(kind, kind)

    @property
    def protocol(self) -> str:
        """Return the protocol of a run that judged; else ""."""
        return str(self.options.get("protocol") or "")

    @property
    def finished(self) -> bool:
        """Return whether the run has finished."""
        return is_finished(self.record)

    @cached_property
    def state(self) -> str:
        """Return the state of the run: at work, interrupted, incomplete or finished."""
        if not self.finished:
            return "at work" if _value_or_none(is_run_active, self.place) else "interrupted"
        return "incomplete" if self._is_incomplete else "finished"

    @property
    def _is_incomplete(self) -> bool:
        return not self.record.get("complete", True) or bool(self.record.get("missing"))

    @property
    def started(self) -> str:
        """Return the start time in UTC; "" if unknown."""
        stamp = _BEGUN.match(str(self.record.get("run_id", "")))
        return _moment(datetime.strptime(f"{stamp[0]}+0000", "%Y%m%dT%H%M%SZ%z")) if stamp else ""

    @cached_property
    def written(self) -> str:
        """Return when the record was last written, in UTC; "" if unknown."""
        return _value_or_none(_written, f"{self.place}/{self.name}") or ""

    @property
    def _summary(self) -> Mapping[str, Any]:
        return _dict(self.record.get("summary"))

    @property
    def judges_or_rankers(self) -> list[str]:
        """Return the judges; for commands without judges the rankers or labels."""
        judges = self.record.get("panel") or self.record.get("judges")
        if self.command == "annotate" and isinstance(judges, list):
            return [str(_dict(judge).get("judge", judge)) for judge in judges]
        if self.command == "agree" and isinstance(judges, list):
            return [*map(str, judges)]
        return [word for name in _SAID for word in _words(self.options.get(name))]

    @property
    def queries(self) -> int | None:
        """Return the number of queries."""
        counts = _dict(self.record.get("counts"))
        graded = [_dict(row).get("queries", 0) for row in counts.values()]
        truth = _dict(self._summary.get("truth"))
        return _first(self._summary, truth, self.record, counts, of="queries") or max(
            (count for count in graded if isinstance(count, int)), default=None
        )

    @property
    def documents(self) -> int | None:
        """Return the number of documents."""
        return _first(self._summary, _dict(self._summary.get("truth")), of="documents")

    @property
    def failures(self) -> int | None:
        """Count the requests, or queries of rankers, without an answer."""
        if self.command == "bakeoff" and self.finished:
            return sum(
                int(_dict(ranker).get("missing", 0)) for ranker in self._summary.get("rankers", ())
            )
        if self.command in ("compare-protocols", "tune"):
            runs = _dict(self.record.get("runs")).values()
            return sum(int(_dict(run).get("failures", 0)) for run in runs)
        return _first(self._summary, of="failures")

    @cached_property
    def spent(self) -> tuple[float, int]:
        """Return the US dollars spent on the ledger, and the number of calls without a price."""
        if self.command == "bakeoff" and self.finished:
            rankers = [_dict(ranker) for ranker in self._summary.get("rankers", ())]
            return sum(a.get("dollars") or 0 for a in rankers), sum(
                a.get("unpriced", 0) for a in rankers
            )
        paid = _dict(self.record.get("paid"))
        if paid or "dollars_in_all" in self._summary:
            dollars = self._summary.get("dollars_in_all", paid.get("dollars")) or 0.0
            return dollars, int(_first(self._summary, paid, of="unpriced") or 0)
        if self.finished:
            return 0.0, 0
        return _value_or_none(_paid, self.ledger_dir) or (0.0, 0)

    @property
    def ledger_dir(self) -> str:
        """Return the path of the ledger; runs with the same ledger share their spending."""
        ledger = self.options.get("ledger")
        is_local = not ledger or ledger == self.options.get("out")
        return self.place if is_local else str(ledger).rstrip("/")

    @cached_property
    def headline(self) -> str:
        """Return the result of the run in a few words."""
        if not self.finished:
            return ""
        return _value_or_none(_headline, self) or ""


def read_run(place: str) -> PastRun | None:
    """Return the run in a directory or URL, if there is one.

    Raises:
        InputError: its record cannot be read.
    """
    names = list_directory(place) or []
    name = next((file_name for file_name in RECORDS if file_name in names), None)
    return PastRun(place, name, read_json_object(f"{place.rstrip('/')}/{name}")) if name else None


def whole_path(place: str) -> str:
    """Return the full URL of a path, the same however it was written."""
    fs, path = fsspec.url_to_fs(place)
    return str(fs.unstrip_protocol(path))


def _headline(run: PastRun) -> str:
    kind = REPORTS[str(run.record["kind"])]
    name, value = kind.headline(kind.source(run.place), run.record)
    return f"{name}: {value}"


def _value_or_none(find: Any, *given: Any) -> Any:
    """Return the result of a function; None if files are damaged, missing or of another version."""
    try:
        return find(*given)
    except (ZeloError, OSError, LookupError, AttributeError, TypeError, ValueError, RuntimeError):
        return None


def _paid(ledger_dir: str) -> tuple[float, int]:
    paid = sum_paid(ledger_dir)
    return paid.dollars(), paid.unpriced()


def _written(url: str) -> str:
    fs, path = fsspec.url_to_fs(url)
    return _moment(fs.modified(path))


def _moment(at: datetime) -> str:
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _words(value: Any) -> Iterable[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _first(*places: Mapping[str, Any], of: str) -> int | None:
    """Return the first integer under the name ``of``."""
    numbers = (place[of] for place in places if isinstance(place.get(of), int))
    return next(numbers, None)
