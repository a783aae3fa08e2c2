"""Log a run to MLflow, on the server or store that ``MLFLOW_TRACKING_URI`` names."""

import contextlib
import os
import re
import time
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from zelo_ray.reports.trackers.tracked_run import TrackedRun

_NOT_IN_NAMES = re.compile(r"[^\w.\- /:]")
_PER_CALL = {"params": 100, "metrics": 1000}
"""MLflow's limits of one request."""


def log_run(run: TrackedRun, files: Sequence[Path]) -> str:
    """Log a run, into the one with its fingerprint if there is one; return where it is.

    The experiment is that of ``MLFLOW_EXPERIMENT_NAME``, or ``zelo-ray``.
    """
    # A server that is down must not hold up for minutes a command that has its results.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient  # noqa: PLC0415 - it takes seconds
    from mlflow.entities import Metric, Param  # noqa: PLC0415

    with contextlib.redirect_stdout(StringIO()):  # it prints where to look
        client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "zelo-ray"
        experiment = client.get_experiment_by_name(name)
        folder = experiment.experiment_id if experiment else client.create_experiment(name)
        wanted = f"tags.`zelo_ray.fingerprint` = '{run.fingerprint}'"
        earlier = client.search_runs([folder], wanted, max_results=1)
        tracked = earlier[0] if earlier else client.create_run(folder, run_name=run.name)
        run_id = tracked.info.run_id
        for tag, value in run.tags.items():
            client.set_tag(run_id, tag, value)
        now = int(time.time() * 1000)
        params = [  # MLflow lets none be changed
            Param(key, value) for key, value in run.params.items() if key not in tracked.data.params
        ]
        metrics = [Metric(name_of(key), value, now, 0) for key, value in run.metrics.items()]
        for at in range(0, len(params), _PER_CALL["params"]):
            client.log_batch(run_id, params=params[at : at + _PER_CALL["params"]])
        for at in range(0, len(metrics), _PER_CALL["metrics"]):
            client.log_batch(run_id, metrics=metrics[at : at + _PER_CALL["metrics"]])
        for file in files:
            client.log_artifact(run_id, str(file))
        client.set_terminated(run_id)
    return f"MLflow, experiment {name}, run {run_id}"


def name_of(figure: str) -> str:
    """Return the name of a figure in letters that MLflow takes: ``nDCG_10/bm25``."""
    return _NOT_IN_NAMES.sub("_", figure.replace(">=", "ge"))[:250]
