"""List the labelling tools that files are written for, and read answers from files of any kind."""

from collections.abc import Mapping

from zelo_ray.commands.label.argilla import ARGILLA
from zelo_ray.commands.label.label_studio import LABEL_STUDIO
from zelo_ray.commands.label.rubric import name_choices
from zelo_ray.commands.label.spreadsheet import Row, read_sheet
from zelo_ray.commands.label.task_files import LabelTool, read_objects
from zelo_ray.errors import InputError
from zelo_ray.formats.judgments.label_units import LabelUnit

TOOLS: Mapping[str, LabelTool] = {"label_studio": LABEL_STUDIO, "argilla": ARGILLA}
"""By the option of `label` that names the file to write."""


def read_filled(url: str, person: str, rubric: str, unit: LabelUnit) -> list[Row]:
    """Read answers from a spreadsheet or from the export of a tool, whichever the file is.

    Args:
        url: of the file.
        person: the one who answered, where the file names nobody.
        rubric: names the grades.
        unit: what the answers are about.

    Raises:
        InputError: the file cannot be read, or an answer is not valid.
    """
    objects = read_objects(url)
    if objects is None:
        return read_sheet(url, person, unit)
    for tool in TOOLS.values():
        if any(map(tool.recognise, objects)):
            return tool.read(url, objects, person, name_choices(unit, rubric))
    if objects:
        titles = " or ".join(tool.title for tool in TOOLS.values())
        raise InputError(f"{url}: is JSON, but no export of {titles}")
    return []
