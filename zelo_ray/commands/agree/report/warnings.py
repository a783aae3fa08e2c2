"""Warn of judges that people contradict, and of biases in votes and grades."""

from collections.abc import Iterator, Sequence

from zelo_ray.commands.agree.report.results import AgreementTables, Row
from zelo_ray.files.judges import HUMAN
from zelo_ray.files.wording import counted
from zelo_ray.reports.demonstration import warn_of_demonstration
from zelo_ray.reports.warning import ORDER, RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import WarningCode

LITTLE = 0.2
"""Below this (commonly called "slight" agreement) a judge is of no use."""
FLIPS = 0.25
"""Of pairs seen in both orders. Random votes reach .5; from half of that, much is noise."""
_DECIDED = 10
"""The fewest documents, votes or pairs for a warning of a bias."""


def warn_of_agreement(
    rows: Sequence[Row], section: str, coefficient: str
) -> Iterator[ResultWarning]:
    """Yield a warning for judges whose agreement with people is near chance, or below it.

    Args:
        rows: a row a judge: rater_b, value, low, high, items; of a coefficient that is 0 by chance.
        section: the page's section.
        coefficient: its name.
    """
    rows = [row for row in rows if row["low"] == row["low"]]
    below = [row for row in rows if row["high"] < 0]
    useless = [row for row in rows if row["low"] <= 0 <= row["high"] < LITTLE]
    unsure = [row for row in rows if row["low"] <= 0 and row["high"] >= LITTLE]
    none = bool(rows) and len(useless) + len(below) == len(rows)

    def warn(code: WarningCode, rows: Sequence[Row], **values: str) -> ResultWarning:
        about = {"coefficient": coefficient, "section": section, "figures": _figures(rows)}
        return ResultWarning(code, {**about, **values})

    if none:
        yield warn(WarningCode.NO_JUDGE_ABOVE_CHANCE, rows)
    if below:
        yield warn(WarningCode.BELOW_CHANCE, below, judges=_agree(below))
    if useless and not none:
        yield warn(WarningCode.NOT_ABOVE_CHANCE, useless, judges=_agree(useless))
    if unsure:
        items = counted(min(row["items"] for row in unsure), "item")
        yield warn(WarningCode.TOO_FEW_ITEMS, unsure, judges=_names(unsure), items=items)


def _agree(rows: Sequence[Row]) -> str:
    return f"{_names(rows)} {'agrees' if len(rows) == 1 else 'agree'}"


def _names(rows: Sequence[Row]) -> str:
    return ", ".join(row["rater_b"] for row in rows[:3]) + _and_more(rows)


def _figures(rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return _span(rows[0])
    return ", ".join(f"{row['rater_b']} {_span(row)}" for row in rows[:3]) + _and_more(rows)


def _and_more(rows: Sequence[Row]) -> str:
    return f" and {len(rows) - 3} more" if len(rows) > 3 else ""


def warn_of_biases(voting: Sequence[Row]) -> Iterator[ResultWarning]:
    """Yield a warning for each large bias; a row is of a judge and a bias."""
    for row in voting:
        if row["items"] < _DECIDED or row["low"] != row["low"]:
            continue
        if warn := _BIASES.get((row["bias"], row["against"])):
            yield from warn(row)


def _first(row: Row) -> Iterator[ResultWarning]:
    share = row["value"]
    if row["low"] > 0.5 + ORDER or row["high"] < 0.5 - ORDER:
        values = {
            "judge": row["judge"],
            "place": "first" if share > 0.5 else "second",
            "span": _span(row),
            "consequence": "its comparisons tell less about the documents",
            "advice": "Ask each pair in both orders (annotate --repeats 2), or put another model "
            "in its place",
            "section": "voting",
        }
        yield ResultWarning(WarningCode.JUDGE_PREFERS_PLACE, values, abs(share - 0.5))


def _flips(row: Row) -> Iterator[ResultWarning]:
    if row["low"] > FLIPS:
        values = {"judge": row["judge"], "span": _span(row)}
        yield ResultWarning(WarningCode.FLIPS, values, row["value"])


_BIASES = {
    ("first", ""): _first,
    ("flips", ""): _flips,
}


def _span(row: Row, form: str = ".2f") -> str:
    return f"{row['value']:{form}} [{row['low']:{form}}, {row['high']:{form}}]"


def rank_agreement_warnings(tables: AgreementTables) -> RankedWarnings:
    """Rank the warnings of ``agree``."""
    comparison = "agreement with people, " if tables.has_people else ""
    return rank_warnings(
        [
            *_warn_of_people(tables),
            *warn_of_biases(tables.rows("voting")),
            *warn_of_demonstration(tables.judges, "", "measured here", "Annotate again with"),
        ],
        f"{comparison}severity, length, order and repeats were looked at",
    )


def _warn_of_people(tables: AgreementTables) -> Iterator[ResultWarning]:
    if tables.has_people:
        scale, name = tables.scales[0], tables.leading
        rows = [{**tables.agreement_of(HUMAN, j, scale, name), "rater_b": j} for j in tables.panel]
        yield from warn_of_agreement(rows, "people", name)
    outcomes = [
        row
        for row in tables.rows("outcomes")
        if (row["coefficient"], row["scale"]) == ("alpha-nominal", "0-2") and row["items"]
    ]
    yield from warn_of_agreement(outcomes, "outcomes", "alpha")
