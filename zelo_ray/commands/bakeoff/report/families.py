"""Show which rankers share a model family with judges of the truth, and what that changes."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from zelo_ray.commands.bakeoff.model_families import TRUTH
from zelo_ray.commands.bakeoff.report.results import BakeoffResults
from zelo_ray.reports.parts import Cells, ReportTable, Section, Sentences, TextCell
from zelo_ray.reports.wording import Quantity, format_estimate, format_number

_NAMED = 8


def family_banner(results: BakeoffResults) -> str:
    """Name the rankers that are of the same model family as judges; empty if there are none."""
    rankers = results.families.get("rankers", {})
    if not rankers:
        return ""
    warning = (
        "Self-preference: judges of the truth are of the same model family as rankers, and may "
        "favour them. No difference is called significant that only they support."
    )
    sentences = [warning]
    for name, shared in islice(rankers.items(), _NAMED):
        judges = ", ".join(shared["judges"])
        who = "unnamed judges" if judges == TRUTH else judges
        sentences.append(f"{name} ({', '.join(shared['families'])}) is judged by {who}.")
    if len(rankers) > _NAMED:
        sentences.append(f"So are {len(rankers) - _NAMED:,} more: see run.json.")
    return " ".join(sentences)


def families_section(results: BakeoffResults) -> Section | None:
    """Show the leaderboard without each family of judges, where a ranker is of one of them."""
    families = results.families
    if not families.get("rankers"):
        return None
    lines = [f"Without {name}: {why}." for name, why in families["untold"].items()]
    parts: list[ReportTable | Sentences] = [*_without_each(results)]
    parts += [Sentences(lines)] if lines else []
    return Section("kin", "Without each family of judges", parts) if parts else None


def _without_each(results: BakeoffResults) -> Iterator[ReportTable]:
    rows = results.source.rows("kin")
    if not (rows and results.rankers):
        return
    leading, queries = results.leading, {row["without"]: row["queries"] for row in rows}
    by_ranker = {(row["run"], row["without"]): row for row in rows}
    cells: list[Cells] = []
    for place, ranker in enumerate(results.rankers, 1):
        families = results.families["rankers"].get(ranker, {}).get("families", [])
        mean = format_number(results.means[leading][ranker]["mean"])
        cells.append(
            [
                TextCell(ranker),
                Quantity(f"{mean} ({place})", mean.value),
                *(_mean_and_place(by_ranker.get((ranker, name)), place) for name in queries),
                TextCell(", ".join(families)),
            ]
        )
    numbers = ["all judges", *(f"without {name}" for name in queries)]
    fewer = [f"{name}: {n:,}" for name, n in queries.items() if n < results.queries]
    caption = (
        f"{leading} and place, by all judges and without each family; an arrow marks a change of "
        "place."
    )
    caption += f" Queries with labels of the other judges: {', '.join(fewer)}." if fewer else ""
    yield ReportTable(
        ["ranker", *numbers, "family"], cells, caption, frozenset(numbers), file="kin.parquet"
    )


def _mean_and_place(row: Mapping[str, Any] | None, place: int) -> Quantity:
    if row is None:
        return format_number(None)
    arrow = " \N{UPWARDS ARROW}" if row["rank"] < place else " \N{DOWNWARDS ARROW}"
    after = f" ({row['rank']}{arrow if row['rank'] != place else ''})"
    mean = format_estimate(row["mean"], row["low"], row["high"])
    ends = (mean.low, mean.high)
    return Quantity(f"{mean}{after}", mean.value, ends, f"{mean.without_interval}{after}")


def judges_section(results: BakeoffResults) -> Section | None:
    """Show the judges of the truth with their families; None where they are not known."""
    families = results.families
    if not families.get("judges"):
        return None
    rankers = families["rankers"].items()
    cells: list[Cells] = [
        [
            TextCell(judge),
            TextCell(", ".join(names)),
            *(
                [TextCell(", ".join(name for name, by in rankers if judge in by["judges"]))]
                if rankers
                else []
            ),
        ]
        for judge, names in families["judges"].items()
    ]
    caption = "Families are recognised by name, or given by the option families."
    columns = ["judge", "family", *(["rankers of this family"] if rankers else [])]
    table = ReportTable(columns, cells, caption)
    return Section("judges", "Judges of the truth", (table,))
