"""One Ray for many runs: a process that stays on it, and runs commands as a shell does.

Ray takes 7 s to start and its workers 4 s to import. What a test learns of a run does not depend on
that, but for tests of kills, of signals and of Ray's own start: these start runs by `tests.crash`.
"""

import io
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from pathlib import Path

from tests import crash


class OneRay:
    """Runs commands one after another; ends with its ``with``.

    Ray's workers have the environment of its start. So servers that calls go to are at a port that
    is known then, and keys are those of the fakes; what only the command reads may change.
    ``packages`` is a folder of packages that are installed there alone.
    """

    def __init__(self, folder: Path, cwd: Path = crash.ROOT, packages: str = "") -> None:
        path = os.pathsep.join(filter(None, (str(crash.ROOT), packages)))
        (self.port,) = crash.free_ports(1)
        for _ in range(crash.TRIES):  # Ray gives a node 30 s to start, also on a busy machine
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.one_ray", str(folder)],
                env=crash.environment_at(self.port) | {"PYTHONPATH": path},
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._process.stdout
            if self._process.stdout.readline():
                return
            self._process.communicate()
        raise AssertionError("Ray did not start; what it said of that is above")

    def fakes(self, folder: Path, *flags: str) -> AbstractContextManager[dict[str, str]]:
        """The servers that this Ray's workers call."""
        return crash.fakes(folder, *flags, port=self.port)

    def annotate(
        self, pools: Path | str, out: Path | str, environ: Mapping[str, str], *flags: str
    ) -> tuple[int, str]:
        """Run ``zelo-ray annotate``."""
        return self.run(environ, *crash.annotating(pools, out, *flags)[len(crash.COMMAND) :])

    def run(self, environ: Mapping[str, str], *words: str) -> tuple[int, str]:
        """Run ``zelo-ray`` with these words; its exit status and all that it printed.

        With ``-c`` and a program it runs that, as Python does.
        """
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([dict(environ), words]), file=self._process.stdin, flush=True)
        told = self._process.stdout.readline()
        assert told, "the process that all these tests share has died, with its Ray"
        status, printed = json.loads(told)
        return status, printed

    def __enter__(self) -> "OneRay":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def main() -> None:
    """Start Ray; for each line, run a command and tell of it."""
    from tests.options import give_options
    from zelo_ray import cli
    from zelo_ray.options import AnnotateOptions
    from zelo_ray.ray.session import ray_session

    give_options()
    out, tell = sys.argv[1], sys.stdout
    with ray_session(AnnotateOptions(inputs=("in",), out=out)):
        print("started", file=tell, flush=True)
        for line in sys.stdin:
            environ, words = json.loads(line)
            os.environ.clear()
            os.environ.update(environ)
            with redirect_stdout(io.StringIO()) as said, redirect_stderr(said):
                try:
                    status = exec(words[1], {}) if words[0] == "-c" else cli.main(words)
                except SystemExit as ended:
                    status = ended.code
                except Exception:  # noqa: BLE001 - as Python ends a program, and this one goes on
                    traceback.print_exc()
                    status = 1
            print(json.dumps([status, said.getvalue()]), file=tell, flush=True)


if __name__ == "__main__":
    main()
