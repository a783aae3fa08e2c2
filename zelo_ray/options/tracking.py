"""Define the option of every command whose results a tracker of experiments can take."""

from typing import Annotated

from pydantic import Field

from zelo_ray.options.command import RUNNING

Track = Annotated[
    tuple[str, ...],
    RUNNING,
    Field(
        description="log the finished run to trackers that the environment names: mlflow, wandb "
        "(docs/watch.md)"
    ),
]
