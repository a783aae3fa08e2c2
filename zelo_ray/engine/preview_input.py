"""Open the input of a job to look at it: nothing is asked, and nothing is written."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from zelo_ray.engine.ledger import Ledger, salt_of
from zelo_ray.engine.replies import open_ledger
from zelo_ray.files.conversations import join_sessions
from zelo_ray.files.inputs import resolve_inputs
from zelo_ray.files.pools import Line, LineLimits, read_lines
from zelo_ray.files.storage import find_shards
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import load_protocol
from zelo_ray.providers import panel_of
from zelo_ray.records import Judge


@dataclass(frozen=True, slots=True)
class PreviewedInput:
    """The input of a job, with what its requests follow from."""

    options: AnnotateOptions
    """with the worked examples that are chosen from labels, if they are to be"""
    panel: tuple[Judge, ...]
    ledger: Ledger
    salt: str
    """of the ledger, for codes: a new one if there is no ledger yet, "" if none is named"""
    shards: tuple[str, ...]
    rejected: int
    """parts of conversations that could not be joined"""

    def lines(self) -> Iterator[Line]:
        """Read the lines of all files, also the invalid ones."""
        for shard in self.shards:
            yield from read_lines(shard, LineLimits())


@contextmanager
def preview_input(
    options: AnnotateOptions, environ: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[PreviewedInput]:
    """Open the input of a job; its files exist until the context ends.

    Args:
        options: of the job.
        environ: the environment variables; judges need no key.
        say: is told what was converted or chosen.

    Raises:
        InputError, OptionError, PanelError, LedgerError: as `annotate` would.
    """
    load_protocol(options.protocol)
    with TemporaryDirectory() as folder:
        options, _ = resolve_inputs(options, folder, say, keep=False)
        salt = salt_of(options.ledger_dir, keep=False) if options.ledger_dir else ""
        if not options.out:
            options = options.model_copy(update={"out": f"{folder}/out"})
        shards = find_shards(options.inputs, options.out)
        panel = panel_of(options, environ, keys=False)
        ledger = open_ledger(options, panel)
        joined = join_sessions(shards, folder) if options.blocks == "session" else None
        places = (joined.path,) if joined else tuple(shards)
        rejected = joined.rejected if joined else 0
        yield PreviewedInput(options, panel, ledger, salt, places, rejected)
