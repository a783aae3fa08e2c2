"""The page on how it is built names files that are there, and benchmarks use what is there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("architecture.md", "extending.md")
_PLACES = ("zelo_ray", ".", "docs")
_FOLDERS = tuple(f"{folder.name}/" for folder in (ROOT / "zelo_ray").iterdir() if folder.is_dir())


def places_in(text):
    """The files and folders that a page names, as `engine/online.py` or in a picture."""
    return {
        name
        for name in re.findall(r"(?:[\w-]+/)+(?:[\w-]+\.(?:py|js|md))?", text)
        if name.removeprefix("zelo_ray/").startswith(_FOLDERS)
    }


@pytest.mark.parametrize("page", PAGES)
def test_a_page_on_the_code_names_what_is_there(page):
    places = places_in((ROOT / "docs" / page).read_text())
    assert len(places) >= 3
    for place in places:
        assert any((ROOT / folder / place).exists() for folder in _PLACES), place


def test_every_benchmark_can_be_imported():
    names = [file.stem for file in (ROOT / "benchmarks").glob("[a-z]*.py")]
    assert len(names) > 20
    for name in names:
        import_module(f"benchmarks.{name}")
