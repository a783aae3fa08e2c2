"""Log a finished run to MLflow or Weights & Biases, where their own variables say."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import orjson

from zelo_ray.errors import OptionError, format_error
from zelo_ray.formats.files import list_directory
from zelo_ray.formats.stored import StoredTable
from zelo_ray.formats.wording import without_passwords
from zelo_ray.options import CommandOptions, did_you_mean
from zelo_ray.reports.parts import Report

_VARIABLES = {"mlflow": ("MLFLOW_TRACKING_URI",), "wandb": ("WANDB_MODE", "WANDB_API_KEY")}
"""By tracker, which is also the name of its extra: the variables of which one has to be set."""
_TABLES = {
    "bakeoff": ("means", ("measure", "run", "estimate"), "mean"),
    "agree": ("agreement", ("coefficient", "rater_a", "rater_b", "scale"), "value"),
    "protocols": ("trials", ("protocol",), "agreement"),
    "tune": ("candidates", ("half", "candidate"), "concordance"),
    "probe": ("probes", ("probe", "judge"), "shift"),
}
"""By the kind of results, a table of theirs: the columns that name a figure, and that figure."""
_LARGEST_FILE = 100 * 2**20  # bytes
_LONGEST = 500  # characters of a parameter


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
    """Log a report, whose results are written, with its figures and files to these trackers.

    ``say`` is told where it was logged; of a tracker that fails ``warn`` is told in a line, as the
    results are there and depend on no tracker.
    """
    from zelo_ray.reports.page import write_page  # noqa: PLC0415 - paid where it is used

    for name in names:
        try:
            write_page(report)
            log = _log_to_mlflow if name == "mlflow" else _log_to_wandb
            with _files_of(report) as files:
                say(f"--track {name}: logged to {log(_TrackedRun(report, options), files)}")
        except Exception as error:  # noqa: BLE001 - each tracker has its own errors
            why = without_passwords(format_error(error))
            warn(
                f"--track {name}: the run could not be logged ({why}); its results are complete "
                "without it, and the same command logs them again"
            )


class _TrackedRun:
    """A run as a tracker gets it; the same command on the same directory has the same id."""

    def __init__(self, report: Report, options: CommandOptions) -> None:
        plain = options.model_dump(mode="json", exclude={"track"})
        kind = str(report.record.get("kind", ""))
        place = report.out if "://" in report.out else str(Path(report.out).resolve())
        self.id = blake2b(orjson.dumps([kind, place, plain]), digest_size=16).hexdigest()
        self.name = f"{kind} {place.rstrip('/').rsplit('/', 1)[-1]}"
        self.params = {
            name: without_passwords(
                value if isinstance(value, str) else orjson.dumps(value).decode()
            )
            for name, value in plain.items()
            if value not in (None, [], {})
        }
        self.params = {name: value[:_LONGEST] for name, value in self.params.items()}
        self.tags = {
            "zelo_ray.id": self.id,
            "zelo_ray.run_id": str(report.record.get("run_id", "")),
            "zelo_ray.version": str(report.record.get("versions", {}).get("zelo-ray", "")),
        }
        self.metrics = {
            name: float(value)
            for name, value in (
                *(report.record.get("summary") or {}).items(),
                *_figures(report, kind),
            )
            if isinstance(value, int | float) and math.isfinite(value)
        }


def _figures(report: Report, kind: str) -> Iterator[tuple[str, float]]:
    if kind in _TABLES:
        table, labels, value = _TABLES[kind]
        stored = StoredTable(f"{report.out.rstrip('/')}/{table}.parquet")
        for row in stored.read([*labels, value]).to_pylist():
            parts = [
                without_passwords(str(row[label])).replace("/", "_")
                for label in labels
                if row[label]
            ]
            yield "/".join(parts), row[value]


@contextlib.contextmanager
def _files_of(report: Report) -> Iterator[Sequence[Path]]:
    """Yield the page, the records and the tables of a report as local files, but for huge ones."""
    fs, root = fsspec.url_to_fs(report.out)
    kinds = (".parquet", ".json", ".html")
    names = [name for name in list_directory(report.out) or () if name.endswith(kinds)]
    places = [f"{root.rstrip('/')}/{name}" for name in names if not name.startswith(".")]
    places = [place for place in places if fs.isfile(place) and fs.size(place) <= _LARGEST_FILE]
    with TemporaryDirectory() as folder:
        if "file" not in fs.protocol:
            for place in places:
                fs.get_file(place, f"{folder}/{place.rsplit('/', 1)[-1]}")
            places = [f"{folder}/{place.rsplit('/', 1)[-1]}" for place in places]
        yield [Path(place) for place in places]


def _log_to_mlflow(run: _TrackedRun, files: Sequence[Path]) -> str:
    # A server that is down must not hold up for minutes a command that has its results.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient  # noqa: PLC0415 - it takes seconds

    with contextlib.redirect_stdout(StringIO()):  # it prints where to look
        client, now = MlflowClient(), int(time.time() * 1000)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "zelo-ray"
        experiment = client.get_experiment_by_name(name)
        folder = experiment.experiment_id if experiment else client.create_experiment(name)
        earlier = client.search_runs([folder], f"tags.`zelo_ray.id` = '{run.id}'", max_results=1)
        tracked = earlier[0] if earlier else client.create_run(folder, run_name=run.name)
        run_id = tracked.info.run_id
        for tag, value in run.tags.items():
            client.set_tag(run_id, tag, value)
        for key, value in run.params.items():
            client.log_param(run_id, key, value)
        for key, figure in run.metrics.items():
            client.log_metric(run_id, name_for_mlflow(key), figure, now)
        for file in files:
            client.log_artifact(run_id, str(file))
        client.set_terminated(run_id)
    return f"MLflow, experiment {name}, run {run_id}"


def name_for_mlflow(figure: str) -> str:
    """Return the name of a figure in letters that MLflow takes: ``nDCG_10/bm25``."""
    return "".join(c if c.isalnum() or c in "_.- /:" else "_" for c in figure)[:250]


def _log_to_wandb(run: _TrackedRun, files: Sequence[Path]) -> str:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb  # noqa: PLC0415 - it takes seconds

    # Nothing is told of this machine: no command line, code, git, host or output.
    quiet: dict[str, Any] = {"silent": True, "host": "-", "console": "off", "disable_code": True}
    quiet |= {"disable_git": True, "save_code": False, "x_disable_meta": True}
    quiet |= {"x_save_requirements": False, "x_disable_stats": True, "x_disable_machine_info": True}
    project = os.environ.get("WANDB_PROJECT") or "zelo-ray"
    with wandb.init(
        project=project,
        id=run.id,
        name=run.name,
        resume="allow",
        reinit="create_new",  # beside one that the user has open
        config={**run.params, **run.tags},
        settings=wandb.Settings(**quiet),
    ) as tracked:
        tracked.summary.update(run.metrics)
        for file in files:
            tracked.save(str(file), base_path=str(file.parent), policy="now")
        place = tracked.url or tracked.dir
    return f"Weights & Biases, project {project}, {place}"
