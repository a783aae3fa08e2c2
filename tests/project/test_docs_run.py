"""README.md, AGENTS.md, docs/index.md and a tutorial run as they stand, and print what they say.

Figures are compared exactly; `…` in a page stands for anything: times, and what hangs on them. The
commands of all other pages are read as the program reads them, and their programs are compiled.
"""

import ast
import contextlib
import re
import shutil

import pytest

import zelo_ray
from tests import compare
from tests.helpers import crash
from tests.helpers.jobs import run_job
from tests.helpers.pages import PAGES, commands
from zelo_ray.cli import parse_command
from zelo_ray.errors import OptionError

RUN = [crash.ROOT / name for name in ("README.md", "AGENTS.md", "docs/index.md")]
RUN += [crash.ROOT / "docs/tutorial-provider.md"]
OURS = [command for page in PAGES for command in commands(page) if command.is_ours]
PROGRAMS = [c for page in PAGES for c in commands(page) if c.kind == "python"]


@pytest.mark.parametrize("command", OURS, ids=str)
def test_a_command_is_one(command):
    """Only files of the reader's may be missing."""
    with contextlib.suppress(OptionError, SystemExit):
        parse_command(command.words[1:])
        return
    with pytest.raises(OptionError, match=r"no such file|cannot be read"):
        parse_command(command.words[1:])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.page}:{program.line}")
def test_a_program_compiles_and_names_what_there_is(program):
    tree = ast.parse(program.text)
    names = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "zelo_ray"
    ]
    assert not [name for name in names if not hasattr(zelo_ray, name)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder, and how to run words in it; the servers know the sample."""
    folder, places = tmp_path_factory.mktemp("reader"), tmp_path_factory.mktemp("fakes")
    flags = ("--judge", "tests.fakes.sample:judge", "--rpm", "100000", "--batch-seconds", "0.5")
    flags += ("--bytes-per-token", "4", "--tokens-by-text", "--key", "")
    with crash.fakes(places, *flags) as environ:
        environ |= {"PYTHONPATH": str(crash.ROOT), "COLUMNS": "100"}
        environ.pop("TEST_OPTION_LIMITS")
        yield folder, lambda *words: run_job(environ, *words, cwd=folder)


def lacking(told, printed):
    """Lines of a page that were not printed so; long ones may be broken elsewhere."""
    lines = [line.split() for line in told if line.strip(" .…")]
    patterns = [r"\s+".join(map(re.escape, line)).replace("…", ".*?") for line in lines]
    return [" ".join(n) for n, p in zip(lines, patterns, strict=True) if not re.search(p, printed)]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_a_page_shows_what_its_commands_print(reader, page):
    folder, run = reader
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    compare.write_inputs(folder)
    for command in commands(page):
        if "<<" in command.text:
            status, printed = run("-c", command.text.partition("\n")[2].rpartition("\n")[0])
            assert status is None, printed
        elif command.is_ours and "s3://" not in command.text:
            status, printed = run(*command.words[1:])
            assert status in (0, 3), f"{command}\n{printed}"
        else:
            assert not command.printed, command
            continue
        assert not lacking(command.printed, printed), f"{command}\nprinted\n{printed}"
