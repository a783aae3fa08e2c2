"""Human grades that a job was given."""

import pyarrow as pa

from zelo_ray.errors import OptionError
from zelo_ray.formats.interchange.truth import read_grades
from zelo_ray.options import Options
from zelo_ray.protocols import module as protocol_module


def human_grades(options: Options) -> pa.Table | None:
    """The human grades that the user gave: the columns of `records.Qrel`; None without any.

    Raises:
        InputError, OptionError: they cannot be read, or are not for this protocol.
    """
    if options.human is None:
        return None
    if "human" not in protocol_module(options.protocol).USES:
        raise OptionError("--human anchors a panel's grades: it goes with --protocol graded")
    return read_grades(options.human)
