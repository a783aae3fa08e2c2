"""Load results as the objects that the functions which wrote them return."""

from collections.abc import Mapping
from os import fspath
from typing import Any

from pydantic import ValidationError

from zelo_ray.api.annotation import read_run
from zelo_ray.api.bakeoff import Bakeoff
from zelo_ray.api.comparisons import (
    JudgeDrift,
    LabelComparison,
    ProtocolComparison,
    RaterAgreement,
    Tuning,
)
from zelo_ray.api.probing import JudgeProbe
from zelo_ray.api.results import Results
from zelo_ray.api.settings import Place, check_place
from zelo_ray.commands.report import REPORTS, find_record
from zelo_ray.errors import InputError
from zelo_ray.files.run_record import is_finished, read_record, unfinished_message
from zelo_ray.files.storage import list_directory

_RESULTS: Mapping[str, type[Results]] = {
    "bakeoff": Bakeoff,
    "protocols": ProtocolComparison,
    "agree": RaterAgreement,
    "compare": LabelComparison,
    "drift": JudgeDrift,
    "probe": JudgeProbe,
    "tune": Tuning,
}


def load_run(out: Place) -> Any:
    """Load the results in a directory or URL, as the function that wrote them returned them.

    Args:
        out: directory or URL.

    Returns:
        A `Run`, `Bakeoff`, `ProtocolComparison`, `Tuning`, `RaterAgreement`, `LabelComparison`,
        `JudgeDrift` or `JudgeProbe`.

    Raises:
        InputError: there are no results, or the run is not finished.
    """
    place = check_place(fspath(out)).rstrip("/") or "/"
    name = find_record(list_directory(place))
    if name is None:
        raise InputError(f"{place}: holds no results of zelo_ray")
    fields = read_record(f"{place}/{name}")
    kind = str(fields.get("kind", ""))
    try:
        if not is_finished(fields):
            raise InputError(unfinished_message(place))
        if kind == "annotate":
            return read_run(place)
        return _RESULTS[kind](REPORTS[kind].read(place))
    except (KeyError, TypeError, ValidationError):
        raise InputError(f"{place}/{name}: is of another version, or damaged") from None
