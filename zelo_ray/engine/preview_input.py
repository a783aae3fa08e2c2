"""Open the input of a job to look at it: nothing is asked, and no result is written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from zelo_ray.engine.ledger import Ledger
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
    panel: tuple[Judge, ...]
    ledger: Ledger
    shards: Sequence[str]
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
    """Open the input of a job; its files exist until the context ends. Judges need no key.

    Raises:
        InputError, OptionError, PanelError, LedgerError: as `annotate` would.
    """
    load_protocol(options.protocol)
    with TemporaryDirectory() as folder:
        options, _ = resolve_inputs(options, folder, say, keep=False)
        if not options.out:
            options = options.model_copy(update={"out": f"{folder}/out"})
        shards, rejected = find_shards(options.inputs, options.out), 0
        panel = panel_of(options, environ, keys=False)
        if options.blocks == "session":
            joined = join_sessions(shards, folder)
            shards, rejected = [joined.path], joined.rejected
        yield PreviewedInput(options, panel, open_ledger(options, panel), shards, rejected)
