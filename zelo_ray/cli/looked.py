"""What lies in a place, as far as the next command depends on it; none of it can fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zelo_ray.options import AnnotateOptions, BakeoffOptions
    from zelo_ray.present.terminal.next import Use

People = Literal["more", "begin", "texts", "none"]
"""What people can do for a contest: go on with their labels; begin; begin, if somebody says where
the texts are; or nothing, since the truth is their word already.
"""


@contextmanager
def _quietly() -> Iterator[None]:
    """What cannot be read decides nothing."""
    from pydantic import ValidationError

    from zelo_ray.errors import ZeloError

    try:
        yield
    except (ZeloError, OSError, KeyError, TypeError, ValidationError):
        return


def first_query(out: str) -> str:
    """The id of the first query with scores; empty where there is none."""
    from zelo_ray.formats.stored import Stored

    with _quietly():
        rows = Stored(f"{out}/scores.parquet").head(1).to_pylist()
        return str(rows[0].get("query_id", "")) if rows else ""
    return ""


def fruitless_judges(out: str) -> list[str]:
    """Find the judges of a finished run that failed many times and never gave a judgment."""
    from collections import Counter

    from zelo_ray.engine.trial import FIRST
    from zelo_ray.formats.record import judgment_tables
    from zelo_ray.formats.results import read_table

    with _quietly():
        failed = Counter(read_table(out, "failures", ["judge"])["judge"].to_pylist())
        for name in judgment_tables(out) or ():
            table = read_table(out, name, ["judge"])
            judges = table["judge"].unique().to_pylist() if table.column_names else []
            failed = Counter({judge: n for judge, n in failed.items() if judge not in judges})
        return sorted(judge for judge, times in failed.items() if times >= FIRST)
    return []


def kind_of(out: str) -> str:
    """Which command has written a directory; empty where it does not say."""
    from zelo_ray.formats.files import record

    with _quietly():
        return str(record(f"{out}/run.json").get("kind", ""))
    return ""


def recorded(out: str) -> "AnnotateOptions | None":
    """The options of the run of annotate on a directory, as far as its record has them."""
    from zelo_ray.formats.files import record
    from zelo_ray.formats.record import unfinished
    from zelo_ray.protocols import recorded_options

    with _quietly():
        found = unfinished(out) or record(f"{out}/run.json")
        if found and found.get("kind") == "annotate":
            return recorded_options(found)
    return None


def runs_among(options: "AnnotateOptions") -> list[str]:
    """Which inputs of annotate were files of runs."""
    from zelo_ray.formats.files import listing
    from zelo_ray.formats.input import look_or_broken
    from zelo_ray.formats.input.kinds import known

    found = list[str]()
    for place in options.inputs:
        with _quietly():
            if listing(place) is None and known(look_or_broken(place), {}).kind == "run":
                found.append(place)
    return found


def use_of(place: str) -> "Use":
    """What a place is good for after a command."""
    from zelo_ray.formats.interchange.truth import kind_of as kind_at

    with _quietly():
        kind_at(place)
        return "texts" if texts_of(place) else "labels"
    return "nothing"


def texts_of(truth: str | None) -> str:
    """Where pools of a truth are, as ``--pools`` takes them; empty where nobody knows."""
    from zelo_ray.formats.files import listing
    from zelo_ray.formats.interchange.truth import holds_texts, pools_of_truth
    from zelo_ray.present.terminal.next import run_of

    place = run_of(truth) if truth else ""
    with _quietly():
        if place and (beside := pools_of_truth(place)):
            return beside
        if place and listing(place) is not None and holds_texts(place):
            return place
    return ""


def there(inputs: "Sequence[str]") -> tuple[str, ...]:
    """Inputs, if all of them are there."""
    from zelo_ray.formats.files import listing
    from zelo_ray.formats.pools import find_shards

    with _quietly():
        for place in inputs:
            if not listing(place):
                find_shards([place])
        return tuple(inputs)
    return ()


def some_pools() -> str:
    """Pools in the working directory, as the documentation calls them; empty if there are none."""
    return next((place for place in ("pools.jsonl", "data/sample") if there([place])), "")


def people_for(options: "BakeoffOptions") -> People:
    """What people can do for a contest.

    What runs ranked and nobody judged may have no text beside the truth.
    """
    from zelo_ray.formats.files import listing
    from zelo_ray.formats.interchange.truth import kind_of as kind_at
    from zelo_ray.formats.interchange.truth import pools_of_truth
    from zelo_ray.formats.labels import LABEL
    from zelo_ray.formats.stored import Stored

    with _quietly():
        if options.human and LABEL in (listing(options.human) or ()):
            return "more"
    with _quietly():
        if kind_at(options.truth)[1].by_people and "truth" not in options.families:
            return "none"
        if options.pools:
            return "begin"
        if not pools_of_truth(options.truth):
            return "texts"
        if options.runs and Stored(f"{options.out}/holes.parquet").head(1).num_rows:
            return "texts"
    return "begin"


def contest_at(out: str) -> "BakeoffOptions | None":
    """The options of the bake-off on a directory, as its record has them."""
    from zelo_ray.formats.files import record
    from zelo_ray.options import BakeoffOptions

    with _quietly():
        return BakeoffOptions.model_validate(record(f"{out}/run.json")["options"])
    return None
