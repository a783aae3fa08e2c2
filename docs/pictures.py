"""Make the pictures of the README anew: a terminal, a page, and the badges.

    python docs/pictures.py

It runs the README's first commands on the sample, free and without a key, in a folder of its own.
It needs Chromium.
"""

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

import zelo_ray

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
COLUMNS = 104
PAGE = (1240, 1150)
"""Pixels of the page that the picture shows."""
COMMANDS = (
    "zelo-ray annotate data/sample --out out --judges recorded:data/recordings",
    "zelo-ray bakeoff --truth out --runs data/bm25.run --rerankers original --out contest",
)
_BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" \
aria-label="{left}: {right}"><title>{left}: {right}</title>
<rect width="{split}" height="20" fill="#444"/>\
<rect x="{split}" width="{rest}" height="20" fill="#2f6fb0"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">\
<text x="{at_left}" y="14">{left}</text><text x="{at_right}" y="14">{right}</text></g></svg>
"""


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    for name, (left, right) in badges().items():
        (IMAGES / f"{name}.svg").write_text(badge(left, right))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").symlink_to(ROOT / "data")
        shown = [part for command in COMMANDS for part in terminal(command, folder)]
        write_terminal(shown)
        for scheme in ("light", "dark"):
            write_page(Path(folder) / "contest" / "report.html", scheme)


def badges() -> dict[str, tuple[str, str]]:
    """What each badge says, from what is declared."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    python = project["project"]["requires-python"].removeprefix(">=")
    typed = "strict" if project["tool"]["mypy"]["strict"] else "loose"
    return {
        "python": ("python", f"{python}+"),
        "types": ("types", f"mypy {typed}"),
        "version": ("version", zelo_ray.__version__),
        "licence": ("licence", "not chosen yet"),
    }


def badge(left: str, right: str) -> str:
    """Two words side by side as SVG."""
    split, rest = 7 * len(left) + 12, 7 * len(right) + 12
    return _BADGE.format(
        left=left,
        right=right,
        split=split,
        rest=rest,
        width=split + rest,
        at_left=split / 2,
        at_right=split + rest / 2,
    )


def terminal(command: str, folder: str) -> Iterator[str]:
    """The command, and what is left of its output on a terminal's screen."""
    here, there = pty.openpty()
    environ = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "40", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command.split(), cwd=folder, env=environ, stdin=there, stdout=there, stderr=there
    )
    os.close(there)
    data = b""
    while block := _read(here):
        data += block
    if process.wait():
        sys.exit(f"{command}: exit status {process.returncode}\n{data.decode()}")
    yield f"\x1b[1m$ {command}\x1b[0m"
    yield from _left(data.decode())


def _read(here: int) -> bytes:
    try:
        return os.read(here, 2**16)
    except OSError:  # the other end is closed
        return b""


def _left(printed: str) -> Iterator[str]:
    """The lines that stay on the screen: progress goes up and writes over itself."""
    lines = [""]
    for line in printed.replace("\r\n", "\n").split("\n"):
        ups = line.count("\x1b[1A")
        del lines[len(lines) - ups :]
        lines.append(line.replace("\x1b[1A", "").rpartition("\x1b[2K")[2].rpartition("\r")[2])
    yield from lines[1:]


def write_terminal(lines: list[str]) -> None:
    """What a terminal shows, as SVG without a font from elsewhere."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi("\n".join(lines)))
        picture = console.export_svg(title="zelo-ray", code_format=_own_fonts(CONSOLE_SVG_FORMAT))
    (IMAGES / "terminal.svg").write_text(picture)


def _own_fonts(template: str) -> str:
    """The template without fonts that a reader's browser would fetch."""
    without = re.sub(r"@font-face \{\{.*?\}\}\s*", "", template, flags=re.DOTALL)
    return without.replace("Fira Code, monospace", "Menlo, 'DejaVu Sans Mono', Consolas, monospace")


def write_page(page: Path, scheme: str) -> None:
    """The top of a page, as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        sys.exit("neither chromium nor google-chrome is here")
    dark = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    width, height = PAGE
    subprocess.run(
        [
            browser,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(dark if scheme == "dark" else ()),
            f"--window-size={width},{height}",
            f"--screenshot={IMAGES / f'report-{scheme}.png'}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )


if __name__ == "__main__":
    main()
