"""Sections of a bake-off on what is missing: answers of arms, and judgments of documents."""

from zelo_ray.commands.bakeoff.report.results import Contest
from zelo_ray.report.parts import Cells, Section, Table, Text
from zelo_ray.report.wording import short

_ROWS, _OPEN = 200, 10


def failures_section(contest: Contest) -> Section | None:
    """List the queries that an arm did not answer, and why."""
    if not contest.source.has("failures.parquet"):
        return None
    failures, in_all = contest.source.head("failures", _ROWS)
    if not failures:
        return None
    rows = [
        [
            *(Text(row["run"]), Text(row["query_id"]), row["status"]),
            *(Text(short(row["reason"], 400)), f"{row['attempts']:,}"),
        ]
        for row in failures
    ]
    caption = (
        f"The first {_ROWS} of {in_all:,}; failures.parquet has all." if in_all > _ROWS else ""
    )
    columns = ("arm", "query", "status", "reason", "attempts")
    table = Table(columns, rows, caption, frozenset({"attempts"}), _OPEN)
    return Section("failures", "Queries without an answer", (table,))


def holes_section(contest: Contest) -> Section | None:
    """List documents that arms rank high and nobody has judged."""
    if not contest.source.has("holes.parquet"):
        return None
    holes = contest.source.table("holes")
    if not holes.num_rows:
        return None
    counts = holes.group_by("run").aggregate([([], "count_all"), ("query_id", "count_distinct")])
    by_arm = sorted(counts.to_pylist(), key=lambda row: (-row["count_all"], row["run"]))
    columns = ("arm", "unjudged documents", "queries")
    rows: list[Cells] = [
        [Text(row["run"]), f"{row['count_all']:,}", f"{row['query_id_count_distinct']:,}"]
        for row in by_arm
    ]
    parts = [
        Table(
            columns,
            rows,
            "Documents high in an arm's ranking that the truth does not know. They count as not "
            "relevant, which is unfair to the arms that have many: have them judged.",
            frozenset(columns[1:]),
        )
    ]
    first = holes.sort_by([("rank", "ascending"), ("run", "ascending")]).slice(0, 20).to_pylist()
    cells: list[Cells] = [
        [Text(row["run"]), Text(row["query_id"]), Text(row["doc_id"]), f"{row['rank']:,}"]
        for row in first
    ]
    caption = "The highest of them; holes.parquet has all."
    parts.append(Table(("arm", "query", "document", "rank"), cells, caption, frozenset({"rank"})))
    return Section("holes", "Holes", parts)
