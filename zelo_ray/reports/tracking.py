"""Log a finished run to MLflow or Weights & Biases, where their own variables say."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Collection, Iterator
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import orjson

from zelo_ray.errors import OptionError, format_error
from zelo_ray.files.tables import StoredTable
from zelo_ray.files.wording import without_passwords
from zelo_ray.names import did_you_mean
from zelo_ray.options import CommandOptions
from zelo_ray.reports.parts import Report

_VARIABLES = {"mlflow": ("MLFLOW_TRACKING_URI",), "wandb": ("WANDB_MODE", "WANDB_API_KEY")}
_FIGURES = {  # by the kind of results: a table, the columns that name a figure, and that figure
    "bakeoff": ("means", ("measure", "run", "estimate"), "mean"),
    "agree": ("agreement", ("coefficient", "rater_a", "rater_b", "scale"), "value"),
    "protocols": ("trials", ("protocol",), "agreement"),
    "probe": ("probes", ("probe", "judge"), "shift"),
}
_LARGEST_FILE = 100 * 2**20  # bytes
_LONGEST = 500  # characters of a parameter
# Nothing is told of this machine: no command line, code, git, host or output.
_QUIET: dict[str, Any] = {"silent": True, "host": "-", "console": "off", "disable_code": True}
_QUIET |= {"disable_git": True, "save_code": False, "x_disable_meta": True}
_QUIET |= {"x_save_requirements": False, "x_disable_stats": True, "x_disable_machine_info": True}


def check_trackers(names: Collection[str]) -> None:
    """Check that these trackers can be used, before a run begins.

    Raises:
        OptionError: one is unknown, its package is missing, or the environment does not name it.
    """
    for name in names:
        if name not in _VARIABLES:
            near = did_you_mean(name, _VARIABLES)
            raise OptionError(f"track: no such tracker {name!r}{near}; there are mlflow, wandb")
        if find_spec(name) is None:
            raise OptionError(f"--track {name} needs the extra: pip install 'zelo-ray[{name}]'")
        if not any(map(os.environ.get, _VARIABLES[name])):
            raise OptionError(f"--track {name}: set {' or '.join(_VARIABLES[name])}")


def track_report(
    names: Collection[str],
    report: Report,
    options: CommandOptions,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Log a report with its options, figures and files; a tracker that fails is a warning."""
    from zelo_ray.reports.page import write_page  # noqa: PLC0415 - paid where it is used

    for name in names:
        log = _log_to_mlflow if name == "mlflow" else _log_to_wandb
        try:
            write_page(report)
            with TemporaryDirectory() as folder:
                _copy_files(report.out, folder)
                say(f"--track {name}: logged to {log(report, options, folder)}")
        except Exception as error:  # noqa: BLE001 - each tracker has its own errors
            why = without_passwords(format_error(error))
            warn(
                f"--track {name}: the run could not be logged ({why}); its results are complete "
                "without it, and the same command logs them again"
            )


def _copy_files(out: str, folder: str) -> None:
    """Copy the page, the records and the tables of a run from wherever they are, but huge ones."""
    fs, root = fsspec.url_to_fs(out)
    fs.invalidate_cache()  # the page was written just now
    for entry in fs.ls(root, detail=True):
        name = entry["name"].rsplit("/", 1)[-1]
        is_result = name.endswith((".parquet", ".json", ".html")) and not name.startswith(".")
        if is_result and entry["type"] == "file" and entry["size"] <= _LARGEST_FILE:
            fs.get_file(entry["name"], f"{folder}/{name}")


def _tags(report: Report, options: CommandOptions) -> dict[str, str]:
    """Return what tells runs apart; the same command on the same directory has the same id."""
    record, plain = report.record, options.model_dump(mode="json", exclude={"track"})
    place = report.out if "://" in report.out else str(Path(report.out).resolve())
    command = orjson.dumps([record.get("kind", ""), place, plain])
    return {
        "zelo_ray.id": blake2b(command, digest_size=16).hexdigest(),
        "zelo_ray.run_id": str(record.get("run_id", "")),
        "zelo_ray.version": str(record.get("versions", {}).get("zelo-ray", "")),
    }


def _name(report: Report) -> str:
    place = report.out if "://" in report.out else str(Path(report.out).resolve())
    return f"{report.record.get('kind', '')} {place.rstrip('/').rsplit('/', 1)[-1]}"


def _parameters(options: CommandOptions) -> dict[str, str]:
    plain = options.model_dump(mode="json", exclude={"track"}).items()
    given = {name: value for name, value in plain if value not in (None, [], {})}
    texts = {k: v if isinstance(v, str) else orjson.dumps(v).decode() for k, v in given.items()}
    return {name: without_passwords(text)[:_LONGEST] for name, text in texts.items()}


def _figures(report: Report) -> Iterator[tuple[str, float]]:
    found = [*(report.record.get("summary") or {}).items()]
    if named := _FIGURES.get(str(report.record.get("kind"))):
        table, labels, value = named
        stored = StoredTable(f"{report.out.rstrip('/')}/{table}.parquet")
        for row in stored.read([*labels, value]).to_pylist():
            parts = [without_passwords(str(row[label])) for label in labels if row[label]]
            found.append(("/".join(part.replace("/", "_") for part in parts), row[value]))
    for name, figure in found:
        if isinstance(figure, int | float) and math.isfinite(figure):
            yield name, float(figure)


def _log_to_mlflow(report: Report, options: CommandOptions, folder: str) -> str:
    # A server that is down must not hold up for minutes a command that has its results.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient  # noqa: PLC0415 - it takes seconds
    from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415 - as above

    client, tags, now = MlflowClient(), _tags(report, options), int(time.time() * 1000)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "zelo-ray"
    experiment = client.get_experiment_by_name(name)
    place = experiment.experiment_id if experiment else client.create_experiment(name)
    same = client.search_runs([place], f"tags.`zelo_ray.id` = '{tags['zelo_ray.id']}'")
    with contextlib.redirect_stdout(None):  # it prints where to look
        run = same[0] if same else client.create_run(place, run_name=_name(report))
        metrics = [Metric(name_for_mlflow(k), v, now, 0) for k, v in _figures(report)]
        for start in range(0, len(metrics), 1000):  # as many as it takes at once
            client.log_batch(run.info.run_id, metrics=metrics[start : start + 1000])
        params = [Param(k, v) for k, v in _parameters(options).items()]
        client.log_batch(run.info.run_id, params=params, tags=[*map(RunTag, tags, tags.values())])
        client.log_artifacts(run.info.run_id, folder)
        client.set_terminated(run.info.run_id)
    return f"MLflow, experiment {name}, run {run.info.run_id}"


def name_for_mlflow(figure: str) -> str:
    """Return the name of a figure in letters that MLflow takes: ``nDCG_10/bm25``."""
    return "".join(c if c.isalnum() or c in "_.- /:" else "_" for c in figure)[:250]


def _log_to_wandb(report: Report, options: CommandOptions, folder: str) -> str:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb  # noqa: PLC0415 - it takes seconds

    tags, project = _tags(report, options), os.environ.get("WANDB_PROJECT") or "zelo-ray"
    with wandb.init(
        project=project,
        id=tags["zelo_ray.id"],
        name=_name(report),
        resume="allow",
        reinit="create_new",  # beside one that the user has open
        config={**_parameters(options), **tags},
        settings=wandb.Settings(symlink=False, **_QUIET),  # the folder is a temporary one
    ) as tracked:
        tracked.summary.update(dict(_figures(report)))
        for path in Path(folder).iterdir():
            tracked.save(str(path), base_path=folder, policy="now")
        return f"Weights & Biases, project {project}, {tracked.url or tracked.dir}"
