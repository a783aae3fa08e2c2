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
        found = [each for each in _OF_ANNOTATE if each in names]
        if not found and any(each.split(".")[0] == "qrels" for each in names):
            yield name, url  # a collection
            continue
        if name:
            raise InputError(f"{source}: a directory has no one judge; name its files instead")
        if not found:
            shown = [each for each in names if not each.startswith((".", "_"))]
            found = [each for each in shown if not each.lower().endswith(_NO_DATA)]
            if other := [each for each in shown if each not in found]:
                notes.append(f"{url}: passed over {', '.join(other)}")
        if not found or "run.json" in found:
            raise InputError(f"{url}: holds neither grades nor votes")
        for each in found:
            yield "", f"{root}/{each}"
