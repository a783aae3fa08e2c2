"""Log a finished run to MLflow or Weights & Biases, where their own variables say."""

import contextlib
import os
import time
from collections.abc import Collection, Iterator
from hashlib import blake2b
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fsspec
import orjson

from zelo_ray.errors import OptionError
from zelo_ray.files.wording import without_passwords
from zelo_ray.names import did_you_mean
from zelo_ray.options import CommandOptions
from zelo_ray.report.results import Results

_VARIABLES = {"mlflow": ("MLFLOW_TRACKING_URI",), "wandb": ("WANDB_MODE", "WANDB_API_KEY")}
_LABELS = ("what", "measure", "of", "run", "against", "scale", "estimate")
"""Columns that name a figure in a table of figures."""
_LARGEST_FILE = 100 * 2**20  # bytes
_LONGEST = 500  # characters of a parameter
# Nothing is said of this machine: no command line, code, git, host or output.
_QUIET: dict[str, Any] = {"silent": True, "host": "-", "console": "off", "disable_code": True}
_QUIET |= {"disable_git": True, "save_code": False, "x_disable_meta": True}
_QUIET |= {"x_save_requirements": False, "x_disable_stats": True, "x_disable_machine_info": True}


def check_trackers(names: Collection[str]) -> None:
    """Raise `OptionError` if a tracker is unknown, not installed, or has no address."""
    for name in names:
        if name not in _VARIABLES:
            near = did_you_mean(name, _VARIABLES)
            raise OptionError(f"track: no such tracker {name!r}{near}; there are mlflow, wandb")
        if find_spec(name) is None:
            raise OptionError(f"--track {name} needs the extra: pip install 'zelo-ray[{name}]'")
        if not any(map(os.environ.get, _VARIABLES[name])):
            raise OptionError(f"--track {name}: set {' or '.join(_VARIABLES[name])}")


class _Run(NamedTuple):
    """What is logged: ``figures`` by name, and the files of ``folder``."""

    title: str
    tags: dict[str, str]
    parameters: dict[str, str]
    figures: dict[str, float]
    folder: str


def log_run(tracker: str, results: Results, options: CommandOptions) -> str:
    """Log results with their options, figures, page and tables; return where they are."""
    results.write_report()
    settings = options.model_dump(mode="json", exclude={"track"})
    place = results.out if "://" in results.out else str(Path(results.out).resolve())
    kind = results.record.get("kind", "")
    same = orjson.dumps([kind, place, settings])  # the same command on the same directory
    tags = {
        "zelo_ray.id": blake2b(same, digest_size=16).hexdigest(),
        "zelo_ray.run_id": str(results.record.get("run_id", "")),
        "zelo_ray.version": str(results.record.get("versions", {}).get("zelo-ray", "")),
    }
    values = {k: v for k, v in settings.items() if v not in (None, [], {})}
    texts = {k: v if isinstance(v, str) else orjson.dumps(v).decode() for k, v in values.items()}
    parameters = {k: without_passwords(text)[:_LONGEST] for k, text in texts.items()}
    title = f"{kind} {place.rstrip('/').rsplit('/', 1)[-1]}"
    with TemporaryDirectory() as folder:
        _copy_files(results.out, folder)
        run = _Run(title, tags, parameters, dict(_figures(results)), folder)
        return _log_to_mlflow(run) if tracker == "mlflow" else _log_to_wandb(run)


def _figures(results: Results) -> Iterator[tuple[str, float]]:
    """Yield the figures that have a name: those of the record's summary, and of tables."""
    figures = [*(results.record.get("summary") or {}).items()]
    for name, column in (("figures", "value"), ("means", "mean")):
        for row in results.rows(name):
            parts = [without_passwords(str(row[label])) for label in _LABELS if row.get(label)]
            figures.append(("/".join(part.replace("/", "_") for part in parts), row[column]))
    yield from ((n, float(v)) for n, v in figures if isinstance(v, int | float) and isfinite(v))


def _copy_files(out: str, folder: str) -> None:
    """Copy the page, the records and the tables of a run from wherever they are, but huge ones."""
    fs, root = fsspec.url_to_fs(out)
    fs.invalidate_cache()  # the page was written just now
    for entry in fs.ls(root, detail=True):
        name = entry["name"].rsplit("/", 1)[-1]
        is_result = name.endswith((".parquet", ".json", ".html")) and not name.startswith(".")
        if is_result and entry["type"] == "file" and entry["size"] <= _LARGEST_FILE:
            fs.get_file(entry["name"], f"{folder}/{name}")


def _log_to_mlflow(run: _Run) -> str:
    # A server that is down must not hold up for minutes a command that has its results.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient  # noqa: PLC0415 - it takes seconds
    from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415 - as above

    client, now = MlflowClient(), int(time.time() * 1000)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "zelo-ray"
    experiment = client.get_experiment_by_name(name)
    place = experiment.experiment_id if experiment else client.create_experiment(name)
    same = client.search_runs([place], f"tags.`zelo_ray.id` = '{run.tags['zelo_ray.id']}'")
    with contextlib.redirect_stdout(None):  # it prints where to look
        tracked = same[0] if same else client.create_run(place, run_name=run.title)
        number = tracked.info.run_id
        metrics = [Metric(name_for_mlflow(k), v, now, 0) for k, v in run.figures.items()]
        for start in range(0, len(metrics), 1000):  # as many as it takes at once
            client.log_batch(number, metrics=metrics[start : start + 1000])
        params = [Param(k, v) for k, v in run.parameters.items()]
        client.log_batch(number, params=params, tags=[RunTag(*tag) for tag in run.tags.items()])
        client.log_artifacts(number, run.folder)
        client.set_terminated(number)
    return f"MLflow, experiment {name}, run {number}"


def name_for_mlflow(figure: str) -> str:
    """Return the name of a figure in letters that MLflow takes: ``nDCG_10/bm25``."""
    return "".join(c if c.isalnum() or c in "_.- /:" else "_" for c in figure)[:250]


def _log_to_wandb(run: _Run) -> str:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb  # noqa: PLC0415 - it takes seconds

    project = os.environ.get("WANDB_PROJECT") or "zelo-ray"
    how: dict[str, Any] = {"resume": "allow", "reinit": "create_new"}  # beside one that is open
    how["settings"] = wandb.Settings(symlink=False, **_QUIET)  # the folder is a temporary one
    config, number = {**run.parameters, **run.tags}, run.tags["zelo_ray.id"]
    with wandb.init(project=project, id=number, name=run.title, config=config, **how) as tracked:
        tracked.summary.update(run.figures)
        for path in Path(run.folder).iterdir():
            tracked.save(str(path), base_path=run.folder, policy="now")
        return f"Weights & Biases, project {project}, {tracked.url or tracked.dir}"
