"""Whether the labels that measure a run have calibrated it: then it is no test of it."""

from collections.abc import Iterable, Iterator

from zelo_ray.errors import InputError
from zelo_ray.formats.files import listing, record
from zelo_ray.formats.interchange.truth import SCORES
from zelo_ray.formats.interchange.verdicts import Verdicts
from zelo_ray.formats.labels import read_labels
from zelo_ray.formats.record import RUN
from zelo_ray.formats.wording import counted
from zelo_ray.options import AgreeOptions
from zelo_ray.options.places import split_name

_Item = tuple[str, str]
_IDS = ("query_id", "doc_id")


def seen_before(verdicts: Verdicts, options: AgreeOptions) -> Iterator[str]:
    """A word on each run whose ``--human`` holds documents by which it is measured now.

    The labels of the run are read where they still lie; else it is not known, where their names are
    the same.
    """
    if options.human is None or not len(verdicts.human):
        return
    measuring = set(zip(*(verdicts.human[name].to_pylist() for name in _IDS), strict=True))
    for source in options.sources:
        name, url = split_name(source)
        folder, _, file = url.rstrip("/").rpartition("/")
        pooled = file == SCORES
        place = (folder or ".") if pooled else url.rstrip("/")
        labels = _calibrated(place)
        both = _both(labels, options.human, measuring) if labels else 0
        if both is None:
            yield (
                f"{place}: whether {options.human} calibrated that run is not known: its --human "
                f"{labels} cannot be read"
            )
        elif both:
            documents = counted(both, "document")
            told = (
                f"{name or url} is too close to people here"
                if pooled
                else "its judges' own grades have not seen them, its scores have"
            )
            yield (
                f"{place}: {documents} of {options.human} calibrated that run (--human {labels}): "
                f"{told}; measure with labels that it has not seen (docs/agree.md#held-out)"
            )


def _calibrated(place: str) -> str:
    """The labels that a run was given; empty without any, or where no run is."""
    if RUN not in (listing(place) or ()):
        return ""
    options = record(f"{place}/{RUN}").get("options")
    return str(options.get("human") or "") if isinstance(options, dict) else ""


def _both(labels: str, human: str, measuring: Iterable[_Item]) -> int | None:
    """How many documents are in both; None where it is not known and may be many."""
    known = set(measuring)
    try:
        table = read_labels(labels).rows
    except InputError:
        names = (place.rstrip("/").rpartition("/")[2] for place in (labels, human))
        return None if len({*names}) == 1 else 0
    return len(known.intersection(zip(*(table[name].to_pylist() for name in _IDS), strict=True)))
