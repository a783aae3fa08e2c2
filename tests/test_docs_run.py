"""Every command and program of README.md and docs/ runs as it is written, page by page, in order.

A page begins in an empty folder that holds ``data/`` and ``docs/``. What a page takes for granted
(the reader's pools, an earlier run) is made when a command names it: see ``tests/given.py``.
Servers on loopback stand for the providers. What is not run is in ``NOT_RUN``, with the reason.
"""

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import crash, given
from tests.one_ray import OneRay
from tests.pages import PAGES, Command, commands
from zelo_ray.cli.arguments import parse_command
from zelo_ray.errors import OptionError

pytestmark = pytest.mark.ray

NOT_RUN = {
    r"^python3 -m venv|^(\.venv/bin/)?pip install|^\. \.venv|^git clone": "makes an environment",
    r"-m pytest|-m benchmarks|mkdocs": "is a test, or takes minutes: run elsewhere",
    r"-m tests\.fakes": "serves until it is ended; other tests start it",
    r"^export |^[A-Z_]+=": "sets variables, which are set already",
    r"^(\.venv/bin/)?ray |RAY_AUTH_MODE": "needs a cluster; tests/test_cluster.py has one",
    r"^(docker|kubectl) ": "needs Docker or Kubernetes",
    r"^(kill|pkill) ": "ends what was not started",
    r"^\.ci/run": "runs all checks",
}
STAND_INS = {  # what cannot be had here, and what stands for it
    r"\b(cohere:rerank-v[\d.a-z-]+)": "hosted=likelihood",
    r"\bzeroentropy:zerank-\d": "hosted=likelihood",
    r"\bcross-encoder:BAAI/[\w.-]+": "encoder=chargram",
    r"s3://[a-z-]+": "bucket",
    r"@http://localhost:8000/v1": "@{openai}",
    r"--pairs 300": "--pairs 8",
    r"range\(200\)": "range(20)",
}
EXPECTED = {0, 3}  # with failures: of a cap that is shown to hold, of documents without a truth
_TIMED = re.compile(r"calls/s|rate limit is unknown|^(…|\.\.\.)$|^\s*$")
_VOLATILE = re.compile(r"[\d][\d.,]*")
_LONG = re.compile(r"# (d|h|min)( # (h|min|s))?\b")
_LEFT_OUT = re.compile(r"^\S+ (?=only # of its # requests gave)")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A reader's folder, a Ray that works in it, and servers that know the sample."""
    folder = tmp_path_factory.mktemp("reader")
    with OneRay(tmp_path_factory.mktemp("ray"), cwd=folder) as one:
        flags = ("--judge", "tests.fakes.sample:judge", "--rpm", "100000", "--batch-seconds", "0.5")
        flags += ("--key", "")  # as a server of the reader's own, which knows none
        lengths = ("--bytes-per-token", "4", "--tokens-by-text")
        with one.fakes(tmp_path_factory.mktemp("fakes"), *flags, *lengths) as environ:
            environ |= {"ZELO_RAY_BATCH_POLL": "0.5", "PYTHONPATH": str(crash.ROOT)}
            environ.pop("ZELO_RAY_LIMITS")
            yield Reader(folder, one, environ)


class Reader:
    """Types what a page says."""

    def __init__(self, folder: Path, ray: OneRay, environ: dict[str, str]) -> None:
        self.folder, self.ray, self.environ = folder, ray, environ
        self.given = given.Given(folder, self.annotate)

    def open(self) -> None:
        """Begin a page: an empty folder."""
        for left in self.folder.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        for name in ("data", "docs"):
            (self.folder / name).symlink_to(crash.ROOT / name)

    def annotate(self, *words: str) -> None:
        status, printed = self.ray.run(self.environ, "annotate", *words)
        assert status in EXPECTED, printed

    def type(self, command: Command) -> tuple[int, str]:
        """Its exit status and all that it printed."""
        text = command.text
        for pattern, instead in STAND_INS.items():
            text = re.sub(pattern, instead.format(openai=self.environ["OPENAI_BASE_URL"]), text)
        self.given.make(text if command.kind == "sh" else command.text, command.page)
        if command.kind == "python":
            return self.ray.run(self.environ, "-c", _program(self.folder, command))
        command = Command(command.page, command.line, text)
        if command.is_ours:
            words = self._globbed(command.words[1:])
            return self.given.around(words, lambda words: self.ray.run(self._limits(words), *words))
        return self._shell(text)

    def _shell(self, text: str) -> tuple[int, str]:
        bins = Path(sys.executable).parent
        ended = subprocess.run(
            ["bash", "-c", text.replace(".venv/bin/", f"{bins}/")],
            cwd=self.folder,
            env=self.environ | {"PATH": f"{bins}:{self.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stdout

    def _globbed(self, words: list[str]) -> list[str]:
        """Words with the files that a shell finds for them; URLs and patterns of names stay."""
        found = list[str]()
        for word in words:
            files = sorted(self.folder.glob(word)) if "*" in word and "/" in word else []
            found += [str(file.relative_to(self.folder)) for file in files] or [word]
        return found

    def _limits(self, words: list[str]) -> dict[str, str]:
        """The environment; Gemini's server tells no limits, so they are given where it judges."""
        gemini = "gemini:gemini-3.1-flash-lite"
        named = {"gemini", gemini} & {*words} or not {"--judges", "--config"} & {*words}
        asked = words[0] == "annotate" and named
        return self.environ | (crash.limits([gemini]) if asked else {})


_PROGRAM = """
import sys, types
module = sys.modules.setdefault({module!r}, types.ModuleType({module!r}))
exec(compile(open({file!r}).read(), {file!r}, "exec"), module.__dict__)
"""


def _program(folder: Path, command: Command) -> str:
    """A program that goes on where the page's last one ended; its source is a file, as a cell's."""
    file = folder / f"block_{command.line}.py"
    begin = "" if _ran(folder, command) else given.PRELUDES.get(command.page, "")
    file.write_text(begin + command.text)
    name = "page_" + command.page.partition(".")[0].replace("-", "_")
    return _PROGRAM.format(module=name, file=str(file))


def _ran(folder: Path, command: Command) -> bool:
    lines = (int(file.stem.partition("_")[2]) for file in folder.glob("block_*.py"))
    return any(line < command.line for line in lines)


def why_not(command: Command) -> str:
    """Why a command is not run; empty if it is."""
    return next((why for what, why in NOT_RUN.items() if re.search(what, command.text)), "")


def _plain(line: str) -> str:
    """Leave out of a line its numbers, minutes and hours, and the query that a cap left out.

    A slow machine takes minutes; and which answers came first decides which queries have a score.
    """
    line = " ".join(_VOLATILE.sub("#", line).split())
    return _LEFT_OUT.sub("", _LONG.sub("# s", line))


def lacking(told: list[str], printed: str) -> list[str]:
    """Lines that a page says are printed, and are not; those that hang on the clock may differ.

    Judges in a line may stand in another order, and long lines may be broken elsewhere.
    """
    lines = {" ".join(sorted(re.findall(r"[^\s,()]+", _plain(x)))) for x in printed.splitlines()}
    whole = _plain(printed)
    wanted = [_plain(line) for line in told if not _TIMED.search(line)]
    return [
        line
        for line in wanted
        if line not in whole and " ".join(sorted(re.findall(r"[^\s,()]+", line))) not in lines
    ]


FEW = ("README", "index", "tutorial-provider")
SLOW = [page for page in PAGES if page.stem not in FEW]
"""Of these one half is run here, and the other by another process: ``test_docs_run_rest.py``."""
HERE = [
    *(pytest.param(page, id=page.name) for page in PAGES if page.stem in FEW),
    *(pytest.param(page, id=page.name, marks=pytest.mark.nightly) for page in SLOW[::2]),
]


@pytest.mark.parametrize("page", HERE)
def test_what_a_page_tells_to_type_runs(page, request):
    types_all(page, request)


def types_all(page, request):
    """Type all that a page tells to type, and look for what it says is printed."""
    told = [c for c in commands(page) if c.kind != "synopsis" and not why_not(c)]
    if not told:
        return
    reader = request.getfixturevalue("reader")
    reader.open()
    for command in told:
        status, printed = reader.type(command)
        assert status in EXPECTED or (command.kind == "python" and status is None), (
            f"{command}\n{printed}"
        )
        if command.kind == "python" and command.printed:
            assert [line.split() for line in printed.splitlines()] == [
                line.split() for line in command.printed
            ]
        assert not lacking(command.printed, printed), f"{command}\nprinted\n{printed}"


@pytest.mark.parametrize(
    "command", [c for p in PAGES for c in commands(p) if c.is_ours and why_not(c)], ids=str
)
def test_a_command_of_ours_that_is_not_run_is_read(command):
    """Nothing of ours is left out but for options that name files of the reader's."""
    with contextlib.suppress(OptionError):
        parse_command(command.words[1:])
        return
    with pytest.raises(OptionError, match=r"no such file|cannot be read"):
        parse_command(command.words[1:])
