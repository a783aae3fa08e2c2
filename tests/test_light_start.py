"""What an import does not bring: help needs no arrays, and a job no Ray, no SDK and no pandas."""

import subprocess
import sys

import pytest

from zelo_ray.commands import COMMANDS
from zelo_ray.evaluation import coefficients
from zelo_ray.options import agree
from zelo_ray.protocols import PROTOCOLS, TABLES, load_protocol, options_of

ARRAYS = {"numpy", "pyarrow", "pandas", "scipy"}
HEAVY = {"ray", "openai", "anthropic", "google.genai", "aiohttp", "pandas", "scipy.stats"}
JOBS = ("commands.annotate.job", "commands.bakeoff.job", "api")


def loaded(code, *words):
    """Return the modules that are there after some code has run in a new process."""
    last = "\nfinally: print('\\n', *sys.modules, file=sys.stderr)"
    words = [sys.executable, "-c", f"import sys\ntry: {code}{last}", *words]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    return {*ended.stderr.split("\n")[-2].split()}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_no_arrays(command):
    there = loaded("from zelo_ray.cli import main; main()", command, "--help")
    assert "pydantic" in there
    assert not there & {*ARRAYS, *HEAVY, "fsspec", "asyncio", "zelo_ray.providers"}
    others = {f"zelo_ray.commands.{name.replace('-', '_')}" for name in COMMANDS}
    assert not there & {*others, "zelo_ray.commands.adapter"}


def test_keys_are_read_without_protocols():
    there = loaded("import zelo_ray.providers.dotenv")
    assert not {name for name in there if name.startswith("zelo_ray.protocols")}


def test_the_package_itself_imports_nothing_heavy():
    assert not loaded("import zelo_ray") & {*ARRAYS, *HEAVY, "pydantic"}


def test_the_coordinator_needs_no_arrays():
    assert not loaded("import zelo_ray.ray.coordinator") & {*ARRAYS, "pydantic"}


@pytest.mark.parametrize("what", JOBS)
def test_a_job_is_imported_without_what_it_may_not_need(what):
    module = f"zelo_ray.{what}"
    there = loaded(f"import {module}")
    assert module in there
    assert not there & HEAVY


def test_what_help_lists_is_what_there_is():
    assert tuple(coefficients.COEFFICIENTS) == agree.COEFFICIENTS
    assert all(load_protocol(name).options is options_of(name) for name in PROTOCOLS)
    assert {table for name in PROTOCOLS for table in load_protocol(name).tables} == TABLES
