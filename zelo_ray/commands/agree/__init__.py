"""``agree``: judges against people, and against each other.

A section is a function of the judgments and the flags that returns a `section.Section`: lines for
the terminal, and tables for ``--out``. ``SECTIONS`` names them in the order in which they are
shown: a new one is a module here, a line there, and its flags in `add_arguments`.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.agree.grades import grading
from zelo_ray.commands.agree.leaderboards import leaderboards
from zelo_ray.commands.agree.raters import raters
from zelo_ray.commands.agree.section import Given, Section
from zelo_ray.commands.agree.verdicts import outcomes
from zelo_ray.commands.agree.voting import voting
from zelo_ray.evaluation.agreement import COEFFICIENTS
from zelo_ray.formats import check_url
from zelo_ray.formats.files import listing
from zelo_ray.formats.interchange.verdicts import Verdicts, place_of, read_verdicts
from zelo_ray.formats.pools import InputError
from zelo_ray.formats.results import Results, write_json
from zelo_ray.formats.wording import printable
from zelo_ray.options import OptionError

SECTIONS: tuple[Callable[[Verdicts, Given], Section], ...] = (
    raters,
    outcomes,
    grading,
    voting,
    leaderboards,
)

_MOST_LEVELS = 100
_FEWEST = 100
"""Of fewer samples the ends of an interval are those of the outermost ones."""
_TAKEN = {"run.json", "compare.json"}


@dataclass(frozen=True, slots=True)
class Told:
    """What to print, whether all that was asked could be told, and the tables behind it."""

    text: str
    complete: bool
    tables: Mapping[str, pa.Table]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``agree``."""
    known = ", ".join(COEFFICIENTS)
    add = parser.add_argument
    add(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="judgments: an --out of annotate; Parquet or JSON lines of grades, votes, or rows "
        "that name a winner; qrels, whose judge is the file's name or NAME in NAME=path; a "
        "directory of such files",
    )
    add("--human", metavar="FILE", help="what people say: one such file, or qrels of any kind")
    add(
        "--people",
        metavar="PATTERN",
        help="of the people those of such a name, as expert*",
    )
    add("--turn", type=int, help="of FastChat's judgments those of this turn")
    add("--levels", type=int, default=4, help="grades of the scale, from 0 (default %(default)s)")
    add("--clip", action="store_true", help="put grades outside the scale to its nearest end")
    add(
        "--thresholds",
        type=int,
        nargs="*",
        metavar="GRADE",
        help="binarise at these grades, too (default: at every grade)",
    )
    add(
        "--coefficients",
        nargs="+",
        default=list(COEFFICIENTS),
        metavar="NAME",
        help=f"which to compute (default all: {known})",
    )
    add("--resamples", type=int, default=1000, help="samples of queries (default %(default)s)")
    add("--seed", type=int, default=0, help="all chance follows from it (default %(default)s)")
    texts = "texts, to see whether length sways judges: pools, collections, or a corpus by doc_id"
    add("--pools", nargs="+", metavar="POOLS", help=texts)
    add("--runs", nargs="+", metavar="RUN", help="runs, to see them by each judge's labels")
    add("--measure", default="nDCG@10", help="of the runs (default %(default)s)")
    add("--out", metavar="DIR", help="write all tables there, too")


def run(arguments: Given) -> Told:
    """Do what the arguments of `add_arguments` ask for.

    Raises:
        OptionError: flags that are wrong, or a URL of an unknown kind.
        InputError: what is read is wrong, or there is nothing to compare.
    """
    given = _checked(arguments)
    told = ("levels", "clip", "human", "people", "turn")
    verdicts = read_verdicts(given["sources"], **{name: given[name] for name in told})
    sections = [section(verdicts, given) for section in SECTIONS]
    if not any(section.lines for section in sections):
        raise InputError("one judge alone has nobody to agree with: name more judges, or --human")
    missing = [line for section in sections for line in section.missing]
    parts = [*(section.lines for section in sections), verdicts.notes, missing]
    tables = {name: table for section in sections for name, table in section.tables.items()}
    if out := given["out"]:
        _write(out, given, verdicts, tables, missing)
        names = [f"{name}.parquet" for name in tables]
        parts.append([f"results: {out}/agree.json, {', '.join(names)}, report.html"])
    text = "\n\n".join("\n".join(map(printable, lines)) for lines in parts if lines)
    return Told(text, not missing, tables)


def _checked(arguments: Given) -> dict[str, Any]:
    """The flags, with defaults that depend on others."""
    given = dict(arguments)
    places = [*map(place_of, given["sources"]), given["human"], given["out"]]
    places += [*(given["pools"] or ()), *(given["runs"] or ())]
    for url in filter(None, places):
        try:
            check_url(url)
        except ValueError as error:
            raise OptionError(str(error)) from None
    _refuse_taken(given)
    if given["people"] and not given["human"]:
        raise OptionError("--people chooses among the people of --human: name that, too")
    levels = given["levels"]
    if not 2 <= levels <= _MOST_LEVELS:
        raise OptionError(f"--levels is from 2 to {_MOST_LEVELS}")
    if given["thresholds"] is None:
        given["thresholds"] = list(range(1, levels))
    if not all(1 <= threshold < levels for threshold in given["thresholds"]):
        raise OptionError(f"--thresholds are from 1 to {levels - 1}, the grades above 0")
    if unknown := [name for name in given["coefficients"] if name not in COEFFICIENTS]:
        known = ", ".join(COEFFICIENTS)
        raise OptionError(f"unknown coefficient {unknown[0]!r}; there are {known}")
    if given["resamples"] and given["resamples"] < _FEWEST:
        raise OptionError(f"--resamples is 0, for no intervals, or at least {_FEWEST}")
    return given


def _refuse_taken(given: Given) -> None:
    """Tables do not go where judgments lie: they would be read as such, or replace some."""
    out = given["out"]
    sources = {place_of(source).rstrip("/") for source in given["sources"]}
    if out and (out.rstrip("/") in sources or not _TAKEN.isdisjoint(listing(out) or ())):
        raise OptionError(f"{out} holds judgments or results already; name another --out")


def _write(
    out: str,
    given: Given,
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
        "options": {name: value for name, value in given.items() if name != "out"},
        "versions": {name: version(name) for name in ("zelo-ray", "numpy", "scipy", "pyarrow")},
        "judges": verdicts.judges,
        "voters": verdicts.voters,
        "pooled": verdicts.pooled,
        "counts": counts,
        "notes": verdicts.notes,
        "missing": list(missing),
    }
    write_json(out, "agree.json", record)
