"""One way to run a command: in the process of the tests, in one of its own, or on a Ray."""

import contextlib
import io
import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from unittest.mock import patch

from tests.helpers import crash
from zelo_ray import cli

Where = Literal["here", "process", "ray"]


def run_job(
    environ: Mapping[str, str], *words: object, where: Where = "here", cwd: Path = crash.ROOT
) -> tuple[int, str]:
    """Run ``zelo-ray`` with these words; its exit status and all that it printed.

    A process of its own reads keys and options as a shell's does; on Ray it starts one for itself.
    With ``-c`` and a program it runs that here, as Python does.
    """
    told = crash.with_config([str(word) for word in words], environ)
    if where != "here":
        on = ("--executor", "ray") if where == "ray" else ()
        command = [*crash.COMMAND, *told, *on]
        return crash.completed(command, {"PYTHONPATH": str(crash.ROOT), **environ}, cwd)
    with (
        patch.dict(os.environ, environ, clear=True),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.redirect_stderr(said),
    ):
        try:
            status = exec(told[1], {}) if told[0] == "-c" else cli.main(told)
        except SystemExit as ended:
            status = ended.code
        except Exception:  # noqa: BLE001 - as Python ends a program, and this one goes on
            traceback.print_exc()
            status = 1
    return status, said.getvalue()


def annotate(
    pools: Path | str,
    out: Path | str,
    environ: Mapping[str, str],
    *flags: str,
    where: Where = "here",
) -> tuple[int, str]:
    """Run ``zelo-ray annotate``; see `run_job`."""
    return run_job(environ, "annotate", pools, "--out", out, *flags, where=where)
