"""Commands in the process of the tests, as a shell runs them: its environment, its folder."""

import io
import os
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from tests import crash
from tests.options import give_options
from zelo_ray import cli


class Here:
    """Runs commands one after another; see `tests.one_ray.OneRay`, which has the same methods."""

    def __init__(self, cwd: Path = crash.ROOT) -> None:
        self._cwd = cwd

    def fakes(self, folder: Path, *flags: str) -> AbstractContextManager[dict[str, str]]:
        """The servers that runs call."""
        return crash.fakes(folder, *flags)

    def annotate(
        self, pools: Path | str, out: Path | str, environ: Mapping[str, str], *flags: str
    ) -> tuple[int, str]:
        """Run ``zelo-ray annotate``."""
        return self.run(environ, *crash.annotating(pools, out, *flags)[len(crash.COMMAND) :])

    def run(self, environ: Mapping[str, str], *words: str) -> tuple[int, str]:
        """Run ``zelo-ray`` with these words; its exit status and all that it printed."""
        with (
            patch.dict(os.environ, environ, clear=True),
            chdir(self._cwd),
            redirect_stdout(io.StringIO()) as said,
            redirect_stderr(said),
            give_options(),
        ):
            try:
                status = exec(words[1], {}) if words[0] == "-c" else cli.main(words)
            except SystemExit as ended:
                status = ended.code
            except Exception:  # noqa: BLE001 - as Python ends a program, and this one goes on
                traceback.print_exc()
                status = 1
        return status, said.getvalue()
