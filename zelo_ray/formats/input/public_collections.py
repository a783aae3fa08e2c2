"""Note inputs that are public, as their names tell, so that models may have read them."""

from collections.abc import Iterable

from zelo_ray.errors import InputError
from zelo_ray.formats.input.collection import find_collection
from zelo_ray.formats.probe import DATASET, probe

_NAMES = (DATASET, "hf://")


def is_public(place: str) -> bool:
    """Return whether a place is named, or laid out, as public collections are.

    Such are data sets of ``ir_datasets`` and of Hugging Face, and what has the form of BEIR's
    folders or of MTEB's rows.
    """
    if place.startswith(_NAMES):
        return True
    try:
        return find_collection(place) is not None or probe(place).kind == "mteb"
    except InputError:
        return False


def note_public(places: Iterable[str]) -> list[str]:
    """Return a note on each place that is public."""
    return [
        f"{place} is named or laid out as public collections are: models may have read it, with "
        "its labels"
        for place in dict.fromkeys(places)
        if is_public(place)
    ]
