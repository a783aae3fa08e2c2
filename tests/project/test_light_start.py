"""What an import does not bring: help needs no arrays, and a job no Ray, no SDK and no pandas."""

import os
import subprocess
import sys

import pytest

from zelo_ray import command_options
from zelo_ray.commands import COMMANDS
from zelo_ray.evaluation import coefficients
from zelo_ray.protocols import PROTOCOLS, TABLES, load_protocol, options_of

ARRAYS = {"numpy", "pyarrow", "pandas", "scipy"}
HEAVY = {"ray", "openai", "anthropic", "google.genai", "aiohttp", "pandas", "scipy.stats"}
IMPORTS = {
    "zelo_ray": {*ARRAYS, *HEAVY, "pydantic"},
    "zelo_ray.ray.coordinator": {*ARRAYS, "pydantic"},
    "zelo_ray.providers.dotenv": {"zelo_ray.protocols"},
    "zelo_ray.commands.annotate.run": HEAVY,
    "zelo_ray.commands.bakeoff.run": HEAVY,
    "zelo_ray.api": HEAVY,
}


def loaded(code, *words):
    """Return the modules that are there after some code has run in a new process."""
    last = "\nfinally: print('\\n', *sys.modules, file=sys.stderr)"
    words = [sys.executable, "-c", f"import sys\ntry: {code}{last}", *words]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    return {*ended.stderr.split("\n")[-2].split()}


@pytest.mark.parametrize("words", [["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help_imports_no_arrays(words):
    there = loaded("from zelo_ray.cli import main; main()", *words)
    assert not there & {*ARRAYS, *HEAVY, "fsspec", "asyncio", "yaml", "zelo_ray.providers"}
    commands = {f"zelo_ray.commands.{name.replace('-', '_')}" for name in COMMANDS}
    assert not there & {*commands, "zelo_ray.commands.running"}


@pytest.mark.parametrize("module", IMPORTS)
def test_an_import_brings_nothing_that_it_may_not_need(module):
    there = loaded(f"import {module}")
    assert module in there
    assert not there & IMPORTS[module]


def test_what_help_lists_is_what_there_is():
    assert tuple(coefficients.COEFFICIENTS) == command_options.COEFFICIENTS
    assert all(load_protocol(name).options is options_of(name) for name in PROTOCOLS)
    assert {table for name in PROTOCOLS for table in load_protocol(name).tables} == TABLES


MEANWHILE = """
    import threading, time, openai
    from zelo_ray.providers import Settings
    from zelo_ray.providers.openai import DIALECT
    threading.Thread(target=__import__, args=("httpx",)).start()
    time.sleep(0.2)
    DIALECT.open(Settings(key="k", base_url="http://127.0.0.1:9/v1"), 9.0)
"""


def test_a_client_opens_while_another_thread_imports_what_it_looks_into(tmp_path, monkeypatch):
    names = "URL = Client = AsyncClient = Response = Timeout = type('Some', (), {})\n"
    (tmp_path / "httpx.py").write_text(f"import time\ntime.sleep(1)\n{names}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert "openai" in loaded(MEANWHILE)


CONNECTED = """
    from zelo_ray.providers import Settings, build_panel, connect
    for judge in build_panel(("openai", "anthropic", "gemini", "azure:d", "vertex"), {}):
        connect(judge, Settings("a-key"))
"""


def test_to_connect_brings_no_sdk(monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    assert not loaded(CONNECTED) & {"openai", "anthropic", "google.genai"}
