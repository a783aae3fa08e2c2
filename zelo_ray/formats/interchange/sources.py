"""The files of judgments that a user names: directories are opened."""

from collections.abc import Iterable, Iterator

from zelo_ray.errors import InputError
from zelo_ray.formats.files import listing
from zelo_ray.formats.record import refuse_unfinished
from zelo_ray.options.places import split_name

_OF_ANNOTATE = ("grades.parquet", "votes.parquet", "contests.parquet", "verdicts.parquet")
_NO_DATA = (
    *(".md", ".rst", ".html", ".pdf", ".ipynb", ".png", ".svg", ".log"),
    *(".py", ".sh", ".toml", ".yaml", ".yml", ".run", ".zip"),
)
"""How files end that lie beside judgments, and are none."""


def opened(sources: Iterable[str], notes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name that the user gave (or "") and the place of each source, files in folders."""
    for source in sources:
        name, url = split_name(source)
        names = listing(url)
        refuse_unfinished(url)
        if names is None:
            yield name, url
            continue
        root = url.rstrip("/")
        files = [entry for entry in _OF_ANNOTATE if entry in names]
        if not files and any(entry.split(".")[0] == "qrels" for entry in names):
            yield name, url  # a collection
            continue
        if name:
            raise InputError(f"{source}: a directory has no one judge; name its files instead")
        if not files:
            shown = [entry for entry in names if not entry.startswith((".", "_"))]
            files = [entry for entry in shown if not entry.lower().endswith(_NO_DATA)]
            if others := [entry for entry in shown if entry not in files]:
                notes.append(f"{url}: passed over {', '.join(others)}")
        if not files or "run.json" in files:
            raise InputError(f"{url}: holds neither grades nor votes")
        for file in files:
            yield "", f"{root}/{file}"
