"""Sample pairs that people compared, and write their votes as JSON lines."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

import orjson
import pyarrow as pa

from zelo_ray.errors import InputError

PREFERENCES = pa.schema(
    [(name, pa.string()) for name in ("query_id", "doc_id_a", "doc_id_b")]
    + [("preference", pa.float64()), ("judge", pa.string())]
)
T = TypeVar("T")


def sample_pairs(pairs: Sequence[T], number: int, seed: int, place: str) -> list[T]:
    """Draw a number of the pairs and keep their order; return all pairs if it is 0.

    Args:
        pairs: of which to draw.
        number: how many.
        seed: which are drawn follows from it.
        place: where they were read, for the message.

    Raises:
        InputError: there are fewer.
    """
    if number > len(pairs):
        raise InputError(f"{place}: only {len(pairs):,} pairs that can be shown were compared")
    if not number:
        return [*pairs]
    chosen = Random(f"{seed}:pairs").sample(range(len(pairs)), number)
    return [pairs[i] for i in sorted(chosen)]


def label_lines(labels: pa.Table) -> Iterator[bytes]:
    """Yield votes as JSON lines that `verdicts.read_verdicts` reads."""
    return map(orjson.dumps, labels.to_pylist())
