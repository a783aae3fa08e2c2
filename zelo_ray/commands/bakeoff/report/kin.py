"""The section of a bake-off on families: who is kin of whom, and who leads without whose judges."""

from collections.abc import Iterator, Mapping
from typing import Any

from zelo_ray.commands.bakeoff.kinship import kin_told
from zelo_ray.commands.bakeoff.report.results import Contest
from zelo_ray.report.parts import Cells, Section, Table, Text
from zelo_ray.report.wording import estimate, number

_FILE = "kin.parquet"


def told_on_top(contest: Contest) -> Iterator[str]:
    """Say which arms are of the same family as a judge; yield nothing if none is."""
    arms = _kin(contest).get("arms", {})
    judges = {arm: entry["judges"] for arm, entry in arms.items()}
    return kin_told(judges, lambda arm: arms[arm]["families"])


def kin_section(contest: Contest) -> Section | None:
    """Show the arms' means and places without each family of judges, and the judges' families."""
    kin = _kin(contest)
    if not kin.get("judges"):
        return None
    parts = [*_left_out(contest, kin), _judges(kin)]
    return Section("kin", "Without each family of judges", parts)


def _kin(contest: Contest) -> Mapping[str, Any]:
    return contest.summary.get("kin") or {}


def _left_out(contest: Contest, kin: Mapping[str, Any]) -> Iterator[Table]:
    rows = contest.source.table("kin").to_pylist() if contest.source.has(_FILE) else []
    if not (rows and contest.arms):
        return
    leading = contest.summary["leading"]
    families = list(dict.fromkeys(row["without"] for row in rows))
    by_arm = {(row["run"], row["without"]): row for row in rows}
    cells: list[Cells] = []
    for place, arm in enumerate(contest.arms, 1):
        mean_row = contest.means[leading][arm]
        arm_families = kin["arms"].get(arm, {}).get("families", [])
        placings = [_placed(by_arm.get((arm, family)), place) for family in families]
        cells.append(
            [
                Text(arm),
                Text(", ".join(arm_families)),
                f"{number(mean_row['mean'])} ({place})",
                *placings,
            ]
        )
    numbers = ["all judges", *(f"without {family}" for family in families)]
    queries = {row["without"]: row["queries"] for row in rows}
    fewer = [f"{name}: {n:,}" for name, n in queries.items() if n < _queries(contest)]
    caption = (
        f"{leading} and place by all judges, and by labels that the others alone give, with their "
        "intervals; an arrow where the place is another. An arm that is ahead only while its kin "
        "judge owes it to them."
    )
    caption += f" Queries with labels of the others: {', '.join(fewer)}." if fewer else ""
    yield Table(["arm", "kin", *numbers], cells, caption, frozenset(numbers))


def _placed(row: Mapping[str, Any] | None, was: int) -> str:
    if row is None:
        return number(None)
    moved = " \N{UPWARDS ARROW}" if row["rank"] < was else " \N{DOWNWARDS ARROW}"
    figure = estimate(row["mean"], row["low"], row["high"])
    return f"{figure} ({row['rank']}{moved if row['rank'] != was else ''})"


def _queries(contest: Contest) -> int:
    queries: int = contest.summary["truth"]["queries"]
    return queries


def _judges(kin: Mapping[str, Any]) -> Table:
    arms = kin["arms"].items()
    cells: list[Cells] = [
        [
            Text(judge),
            Text(", ".join(families)),
            Text(", ".join(arm for arm, entry in arms if judge in entry["judges"])),
        ]
        for judge, families in kin["judges"].items()
    ]
    untold = [f"Without {family}: {why}." for family, why in kin["untold"].items()]
    caption = (
        "The judges of the truth. Families go by names, or by the option families. "
        + " ".join(untold)
    )
    return Table(["judge", "family", "kin among the arms"], cells, caption.strip())
