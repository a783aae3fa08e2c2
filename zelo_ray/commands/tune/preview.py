"""Plan what candidates would ask, for an estimate before anything is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from zelo_ray.commands.tune.candidates import make_candidates, plan_candidate, refuse_strangers
from zelo_ray.commands.tune.halves import split_items
from zelo_ray.commands.tune.job import collect_labelled
from zelo_ray.commands.tune.propose import proposer_of
from zelo_ray.engine.job import Watch
from zelo_ray.options import AnnotateOptions, TuneOptions


@contextmanager
def plan_candidates(options: TuneOptions, watch: Watch) -> Iterator[dict[str, AnnotateOptions]]:
    """Yield the options of each candidate's run on both halves, for an estimate.

    The pools that they name exist until the context ends. Nothing else is written. Proposals are
    not among them, as nobody has made them yet.

    Raises:
        InputError, OptionError, PanelError, UnknownProtocol: as `tune_judging` would.
    """
    candidates, notes = make_candidates(options)
    refuse_strangers(options, candidates, proposer_of(options))
    with TemporaryDirectory() as folder:
        field = collect_labelled(options, folder, watch, candidates, keep=False)
        split_items(field, folder)
        if options.propose:
            notes.append(f"{options.propose} proposals would be further candidates")
        for line in notes:
            watch.say(line)
        out = options.out.rstrip("/")
        yield {
            candidate.name: plan_candidate(
                *(options, candidate, (field.pools,), f"{out}/candidates/{candidate.folder}"),
                field.examples,
            )
            for candidate in candidates
        }
