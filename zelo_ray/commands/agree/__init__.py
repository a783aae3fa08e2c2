"""``agree``: judges against people, and against each other.

A section is a function of the judgments and the options that returns a `section.Section`: lines for
the terminal, and tables for ``--out``. ``SECTIONS`` names them in the order in which they are
shown: a new one is a module here, a line there, and its options in `AgreeOptions`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.agree.consensus import consensus
from zelo_ray.commands.agree.grades import grading
from zelo_ray.commands.agree.heldout import seen_before, without_examples
from zelo_ray.commands.agree.leaderboards import leaderboards
from zelo_ray.commands.agree.own import readable
from zelo_ray.commands.agree.precision import precision
from zelo_ray.commands.agree.ranks import ranks
from zelo_ray.commands.agree.raters import raters
from zelo_ray.commands.agree.section import Section
from zelo_ray.commands.agree.verdicts import outcomes
from zelo_ray.commands.agree.voting import voting
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.agreement import chosen
from zelo_ray.formats.files import listing
from zelo_ray.formats.interchange.verdicts import Verdicts, read_verdicts
from zelo_ray.formats.labels import by_person
from zelo_ray.formats.results import Results, write_json
from zelo_ray.formats.wording import printable
from zelo_ray.options import AgreeOptions
from zelo_ray.options.places import split_name

SECTIONS: tuple[Callable[[Verdicts, AgreeOptions], Section], ...] = (
    raters,
    outcomes,
    consensus,
    precision,
    ranks,
    grading,
    voting,
    leaderboards,
)

_TAKEN = {"run.json", "compare.json"}


@dataclass(frozen=True, slots=True)
class Told:
    """Result of a comparison: its text, whether it is complete, and the tables behind it."""

    text: str
    complete: bool
    tables: Mapping[str, pa.Table]


def agree(options: AgreeOptions) -> Told:
    """Measure judges against people, and against each other.

    Raises:
        OptionError: a coefficient is unknown, or ``out`` holds other results.
        InputError: what is read is wrong, or there is nothing to compare.
    """
    options = options.model_copy(update={"coefficients": tuple(chosen(options.coefficients))})
    _refuse_taken(options)
    settings = options.model_dump(include={"levels", "clip", "human", "people", "turn"})
    with TemporaryDirectory() as folder:
        sources = readable(options.sources, folder)
        settings["by_person"] = by_person(options.human) if options.human else None
        verdicts = read_verdicts(sources, scales=options.scales, **settings)
    verdicts = without_examples(verdicts, options)
    notes = (*verdicts.notes, *seen_before(verdicts, options))
    verdicts = replace(verdicts, notes=notes)
    sections = [section(verdicts, options) for section in SECTIONS]
    if not any(section.lines for section in sections):
        raise InputError("one judge alone has nobody to agree with: name more judges, or --human")
    missing = [line for section in sections for line in section.missing]
    parts = [*(section.lines for section in sections), verdicts.notes, missing]
    tables = {name: table for section in sections for name, table in section.tables.items()}
    if options.out:
        _write(options.out, options, verdicts, tables, missing)
    text = "\n\n".join("\n".join(map(printable, lines)) for lines in parts if lines)
    return Told(text, not missing, tables)


def _refuse_taken(options: AgreeOptions) -> None:
    """Refuse to write tables where judgments lie: they would be read as such, or replace some."""
    out = options.out
    sources = {split_name(source)[1].rstrip("/") for source in options.sources}
    if out and (out.rstrip("/") in sources or not _TAKEN.isdisjoint(listing(out) or ())):
        raise OptionError(f"{out} holds judgments or results already; name another --out")


def _write(
    out: str,
    options: AgreeOptions,
    verdicts: Verdicts,
    tables: Mapping[str, pa.Table],
    missing: Sequence[str],
) -> None:
    with Results(out, {name: table.schema for name, table in tables.items()}) as results:
        for name, table in tables.items():
            results.add(name, table)
    counts = {
        name: {"judgments": len(table), "queries": len(pc.unique(table["query_id"]))}
        for name, table in (
            ("grades", verdicts.grades),
            ("votes", verdicts.votes),
            ("human", verdicts.human),
            ("voices", verdicts.voices),
        )
    }
    record = {
        "kind": "agree",
        "options": {**options.model_dump(mode="json", exclude={"out"}), "thresholds": options.cuts},
        "versions": {name: version(name) for name in ("zelo-ray", "numpy", "scipy", "pyarrow")},
        "judges": verdicts.judges,
        "voters": verdicts.voters,
        "pooled": verdicts.pooled,
        "counts": counts,
        "notes": verdicts.notes,
        "missing": list(missing),
    }
    write_json(out, "agree.json", record)
