"""Provide `doctor`, and the `Findings` that it returns."""

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from zelo_ray.api.settings import Place, options_of
from zelo_ray.api.tables import PlainText, Table
from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.commands.doctor.run import run
from zelo_ray.commands.doctor.screen import describe_findings
from zelo_ray.options.doctor import DoctorOptions


class Findings(Table):
    """Findings of `doctor`, one row per check: ``check``, ``state``, ``finding``, ``advice``.

    States are ok, warn, wrong, and - where nothing is needed.
    """

    def __init__(self, findings: list[Finding]) -> None:
        columns = Finding.__slots__
        rows = [asdict(finding) for finding in findings]
        schema = pa.schema([(name, pa.string()) for name in columns])
        super().__init__(pa.Table.from_pylist(rows, schema))
        self.findings = findings

    def to_text(self, width: int = 100) -> PlainText:
        """Return the findings as the text that the terminal shows."""
        return PlainText("\n".join(describe_findings(self.findings, width)))

    def __repr__(self) -> str:
        return str(self.to_text())


def doctor(*, out: Place | None = None, config: Place | None = None, **options: Any) -> Findings:
    """Check this machine, its keys and judges, without any call unless ``ask=True``.

    Args:
        out: directory or URL that a run is to write to.
        config: a YAML file of options, which keywords override.
        **options: those of ``zelo-ray doctor``: ``judges``, ``ask``, ``no_ray`` ...

    Raises:
        OptionError: an option is invalid.
    """
    return Findings(run(options_of(DoctorOptions, {"out": out, **options}, config)))
