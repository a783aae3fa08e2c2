"""Log a run to Weights & Biases, as the variables ``WANDB_...`` say."""

import os
from collections.abc import Sequence
from pathlib import Path

from zelo_ray.reports.trackers.tracked_run import TrackedRun


def log_run(run: TrackedRun, files: Sequence[Path]) -> str:
    """Log a run, whose id is its fingerprint, so that it is logged again; return where it is.

    The project is that of ``WANDB_PROJECT``, or ``zelo-ray``. Nothing is told of this machine: no
    command line, code, git, host or output of the terminal.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb  # noqa: PLC0415 - it takes seconds

    settings = wandb.Settings(
        silent=True,
        host="-",  # not the name of this machine
        console="off",
        disable_code=True,
        disable_git=True,
        save_code=False,
        x_disable_meta=True,
        x_save_requirements=False,
        x_disable_stats=True,
        x_disable_machine_info=True,
    )
    project = os.environ.get("WANDB_PROJECT") or "zelo-ray"
    with wandb.init(
        project=project,
        id=run.fingerprint,
        name=run.name,
        resume="allow",
        reinit="create_new",  # beside one that the user has open
        config={**run.params, **run.tags},
        settings=settings,
    ) as tracked:
        tracked.summary.update(dict(run.metrics))
        for file in files:
            tracked.save(str(file), base_path=str(file.parent), policy="now")
        place = tracked.url or tracked.dir
    return f"Weights & Biases, project {project}, {place}"
