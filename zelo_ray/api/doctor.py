"""`doctor` from Python."""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa

import zelo_ray
from zelo_ray.api.settings import Place, options_of
from zelo_ray.api.tables import PlainText, Table
from zelo_ray.commands.doctor import Finding, examined
from zelo_ray.commands.doctor import report as terminal
from zelo_ray.options.doctor import DoctorOptions


class Findings(Table):
    """Findings of `doctor`, one row per check: ``what``, ``state``, ``found``, ``do``.

    States are ok, warn, wrong, and - where nothing is needed.
    """

    def __init__(self, findings: list[Finding]) -> None:
        columns = Finding.__slots__
        rows = [asdict(finding) for finding in findings]
        schema = pa.schema([(name, pa.string()) for name in columns])
        super().__init__(pa.Table.from_pylist(rows, schema))
        self.findings = findings

    @property
    def wrong(self) -> bool:
        """Return whether a check found something wrong."""
        return any(finding.state == "wrong" for finding in self.findings)

    @property
    def none(self) -> bool:
        """Return whether no judge was named and there is no key for one."""
        return any(
            finding.what == "judges" and finding.state == "warn" for finding in self.findings
        )

    def told(self, width: int = 100) -> PlainText:
        """Return the findings as the text that the terminal shows."""
        return PlainText("\n".join(terminal.told(self.findings, width)))

    def __repr__(self) -> str:
        return str(self.told())


def doctor(*, out: Place | None = None, config: Place | None = None, **options: Any) -> Findings:
    """Check this machine, its keys and judges, without any call unless ``ask=True``.

    Args:
        out: directory or URL that a run is to write to.
        config: a YAML file of options, which keywords override.
        **options: those of ``zelo-ray doctor``: ``judges``, ``ask``, ``no_ray`` ...

    Raises:
        OptionError: an option makes no sense.
    """
    return doctored(options_of(DoctorOptions, {"out": out, **options}, config))


def doctored(options: DoctorOptions, say: Callable[[str], None] = lambda _: None) -> Findings:
    """Check as `doctor` does, by an options object; ``say`` gets the price of calls beforehand."""

    def look() -> Iterator[Finding]:
        from zelo_ray.commands.doctor.ray_check import look_at_ray  # noqa: PLC0415 - Ray takes seconds

        return look_at_ray(options.out)

    return Findings([*examined(options, os.environ, zelo_ray.__version__, look, say)])
