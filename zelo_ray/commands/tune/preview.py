"""Plan what candidates would ask, for an estimate before anything is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from zelo_ray.command_options import TuneOptions
from zelo_ray.commands.tune.candidates import (
    AS_IT_IS,
    make_candidates,
    plan_candidate,
    refuse_strangers,
)
from zelo_ray.commands.tune.halves import FIRST, split_items
from zelo_ray.commands.tune.job import collect_labelled
from zelo_ray.engine.job import Watch
from zelo_ray.options import AnnotateOptions


@contextmanager
def plan_candidates(options: TuneOptions, watch: Watch) -> Iterator[dict[str, AnnotateOptions]]:
    """Yield the options of each candidate's run on the halves that it judges, for an estimate.

    If only the chosen candidate judges the second half, which one that is, is not known: then all
    but what is as it is have the first half alone, and a message says so.

    The pools that they name exist until the context ends. Nothing else is written.

    Raises:
        InputError, OptionError, PanelError, OptionError: as `tune_judging` would.
    """
    candidates, notes = make_candidates(options)
    refuse_strangers(options, candidates)
    with TemporaryDirectory() as folder:
        field = collect_labelled(options, folder, watch, candidates)
        halves = split_items(field, folder)
        if options.second_half == "chosen":
            notes.append(
                "the chosen candidate would judge the second half, too, which is estimated of what "
                "is as it is alone"
            )
        for line in notes:
            watch.say(line)
        out = options.out.rstrip("/")
        some = field.pools if options.second_half == "all" else halves[FIRST].pools
        yield {
            candidate.name: plan_candidate(
                *(options, candidate, (field.pools if candidate.name == AS_IT_IS else some,)),
                f"{out}/candidates/{candidate.folder}",
            )
            for candidate in candidates
        }
