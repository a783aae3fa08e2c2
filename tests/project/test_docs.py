"""What README.md and docs/ say is so: links, flags, options, messages, and the site is built."""

import ast
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.helpers.crash import ROOT, bare_environment
from tests.helpers.pages import PAGES, commands, flags, inline
from zelo_ray.cli import parse_command
from zelo_ray.command_options import OPTIONS_OF_FORMAT
from zelo_ray.commands import COMMANDS, options_of
from zelo_ray.errors import OptionError
from zelo_ray.options import flag_of
from zelo_ray.protocols import PROTOCOLS, load_protocol

LINKED = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md"))]
LINKED += [ROOT / "data" / "README.md", ROOT / "docs" / "plugin" / "README.md"]
INLINE = [c for page in PAGES for c in inline(page) if c.kind == "sh" and c.words[1:] != ["--help"]]
SYNOPSES = [c for page in PAGES for c in commands(page) if c.kind == "synopsis"]
OPTIONS = {
    flag_of(name)
    for kind in (
        *map(options_of, COMMANDS),
        *(load_protocol(name).options for name in PROTOCOLS),
    )
    for name in kind.model_fields
} | {"--config", "--json", "--progress", "--help", "--version"}
OTHERS = {  # flags of Ray, of programs of ours, and of benchmarks
    *("--address", "--block", "--dashboard-port", "--from-env-file", "--generate", "--head"),
    *("--no-wait", "--num-cpus", "--port", "--runtime-env-json", "--submission-id"),
    *("--working-dir", "--tone", "--judge", "--rpm", "--batch-seconds", "--bytes-per-token"),
    *("--tokens-by-text", "--base", "--batch", "--epochs", "--kind", "--rate", "--lexical"),
    *("--draws", "--only", "--rows", "--scores", "--texts", "--trials"),
}


def _outside_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.S | re.M)


def _anchors(page: Path) -> set[str]:
    """As code hosts and the site make them of headings."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M), re.M
    )
    plain = [
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    ]
    return {re.sub("-+", "-", each) for each in plain} | {*plain}


def test_every_link_leads_somewhere():
    for page in LINKED:
        for link in re.findall(r"\]\(([^)\s]+)\)", _outside_code(page.read_text())):
            if re.match(r"\w+:", link):
                continue
            place, _, anchor = link.partition("#")
            target = (page.parent / place).resolve() if place else page
            assert target.exists(), (page, link)
            assert not anchor or anchor in _anchors(target), (page, link)


def test_every_flag_that_is_named_exists():
    for page in PAGES:
        assert {*flags(page.read_text())} <= OPTIONS | OTHERS, page
    for synopsis in SYNOPSES:
        command, what, *_ = [*synopsis.text.split()[1:], ""]
        kind = options_of(command)
        of_what = command == "convert" and {"out", "columns", *OPTIONS_OF_FORMAT[what]}
        takes = {flag_of(name) for name in of_what or kind.model_fields}
        assert {*flags(synopsis.text)} <= takes, synopsis


def test_a_command_in_a_text_is_one():
    """As far as that can be told without the reader's files, and without all that it takes."""
    for command in INLINE:
        said = ""
        with contextlib.suppress(SystemExit):  # --help
            try:
                parse_command(command.words[1:])
            except OptionError as error:
                said = str(error)
        wants = "no such file|is missing|is required by|cannot be read"
        assert not said or re.search(wants, said), (command, said)


def _texts() -> Iterator[str]:
    """All texts of the code; what stands in braces in an f-string is ``…``."""
    for file in (ROOT / "zelo_ray").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"\{\w*\}", "…", node.value)


def test_every_message_that_is_explained_is_one_of_the_code():
    """Whom it is about is put before it where it is shown."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    texts = "\0".join(_texts())
    for message in re.findall(r"^\| `([^`]+)` \|", page, re.M):
        own = re.sub(r"^(…|\.env): ", "", message)
        pieces = [re.escape(piece) for piece in own.split("…")]
        assert sum(map(len, pieces)) > 9, f"too little to find it by: {message}"
        assert re.search("[^\0]*".join(pieces), texts), message


@pytest.mark.nightly
def test_the_site_builds_and_fetches_nothing(tmp_path):
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert config["theme"]["font"] is False
    mkdocs = Path(sys.executable).parent / "mkdocs"
    built = subprocess.run(
        [mkdocs, "build", "--strict", "-d", tmp_path / "site"],
        cwd=ROOT,
        env=bare_environment() | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (built.returncode, "WARNING" in built.stdout) == (0, False), built.stdout
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    fetched = r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(?:https?:)?//"
    assert not [page for page in pages if re.search(fetched, page.read_text())]
