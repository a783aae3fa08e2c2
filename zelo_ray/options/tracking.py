"""Define the option of every command whose results a tracker of experiments can take."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from zelo_ray.options.command import MONEY, RUNNING, CommandOptions, group_of

Track = Annotated[
    tuple[str, ...],
    RUNNING,
    Field(
        description="log the finished run to trackers that the environment names: mlflow, wandb "
        "(docs/watch.md)"
    ),
]


def options_that_change_results(options: CommandOptions) -> Iterator[str]:
    """Yield the names of options on which results depend, but for those of how far a run goes."""
    for name, field in type(options).model_fields.items():
        how = group_of(field) in (MONEY, RUNNING) and name != "seed"
        if not how and name not in ("replace", "track"):
            yield name
