"""Build the report of an annotation run: its scores, and the behaviour of its judges."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from zelo_ray.commands.annotate import judges, queries, scores
from zelo_ray.commands.annotate.warnings import find_warnings
from zelo_ray.engine.replies import format_dollars
from zelo_ray.evaluation.significance import share_interval
from zelo_ray.files.tables import StoredTable, schema_of
from zelo_ray.files.wording import counted
from zelo_ray.protocols import protocol_of_record
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.records import Failure, Score
from zelo_ray.report.model import Cell, Part, Report, Section, Table, Value, estimate, table
from zelo_ray.report.progress import duration
from zelo_ray.report.results import Results

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 200  # of unscored queries
_LINES = 10  # of rejected input


def build_report(results: Results, query: str = "") -> Report:
    """Build the report of a run; its page lists ``query`` in any case."""
    summary, protocol = results.record["summary"], protocol_of_record(results.record)
    pilot = summary["pilot_of"] and counted(summary["pilot_of"], "query", "queries")
    for name, record in {**protocol.tables, "scores": Score, "failures": Failure}.items():
        if name in results:  # a table of other columns is refused before anything is shown
            StoredTable(f"{results.out.rstrip('/')}/{name}.parquet", schema_of(record))
    sections = [
        winners_section(results),
        tournaments_section(results),
        verdicts_section(results),
        scores.shares_section(results),
        scores.raters_section(results),
        judges.judges_section(results),
        *_problems(results),
    ]
    return Report(
        title=f"Relevance scores of {counted(summary['queries'], 'query', 'queries')}",
        tiles={name: value for name, value in _tiles(results) if value is not None},
        lead=[f"This was a pilot on {summary['queries']:,} of {pilot}."] if pilot else [],
        sections=[section for section in sections if section.parts],
        page_sections=lambda: [
            scores.scores_section(results),
            scores.grades_section(results),
            judges.agreement_section(results),
            _instructions(results),
            queries.queries_section(results, query),
        ],
        find_warnings=lambda: find_warnings(results),
        notes=[*summary["notes"], *_notes(results)],
        made=_made(results),
        names=[*results.record["judges"]],
    )


def _tiles(results: Results) -> Iterator[tuple[str, Value]]:
    """Yield figures at a glance; None is left out."""
    summary, protocol = results.record["summary"], protocol_of_record(results.record)
    scored, documents = summary["scored"], summary["documents"]
    yield "documents scored", scored if scored == documents else f"{scored:,} of {documents:,}"
    kinds = judges.judgments_of(results)
    yield f"{protocol.noun if len(kinds) < 2 else 'judgment'}s", summary["judgments"]
    for name, error in (
        ("standard error", summary["std_error"]),
        (scores.error_about_people(results), summary["truth_error"]),
    ):
        yield name, None if error is None else f"{error:.2f} {protocol.score.unit}"
    for name, figure in (
        ("split documents", "ambiguous"),
        ("failed requests", "failures"),
        ("requests still to ask", "missing"),
        ("bad input lines", "rejected"),
    ):
        yield name, summary[figure] or None
    in_all = _spent(summary["dollars_in_all"], summary["unpriced"])
    if not results.is_current:
        seconds = sum(summary["seconds"].values())
        yield "judged", f"in {duration(seconds)}" if seconds else None
        yield "spent", (spent := _spent(summary["dollars"], summary["unpriced"]))
        in_all = in_all if in_all != spent else None
    yield "spent in all", in_all


def _spent(dollars: float, unpriced: int) -> Value:
    if unpriced:
        return f"{format_dollars(dollars)} + ?"
    return Cell(dollars, "$") if dollars else "nothing"


def _notes(results: Results) -> Iterator[str]:
    """Yield which options had no effect, or not on all queries."""
    human, without = results.record["options"].get("human"), results.record["summary"]["ungraded"]
    graded = scores.is_graded(results)
    if human and graded and not any(row["humans"] for row in results.rows("shares")):
        yield f"{human} has no grade of a graded document, and so had no effect."
    if without:
        have = counted(without, "query has", "queries have")
        yield f"{have} no grades, and so no absolute scores."


def _problems(results: Results) -> Iterator[Section]:
    """Yield what is missing, with the reasons: queries, requests, lines of the input."""
    summary = results.record["summary"]
    unscored = [*summary["unscored"].items()]
    rows = [(queries.cut(name, 60), reason["message"]) for name, reason in unscored[:_ROWS]]
    part = Table(("query", "reason"), rows, file="run.json", total=len(unscored))
    yield Section("unscored", "Queries without scores", [part] if rows else [])
    reasons = sorted(summary["reasons"].items(), key=lambda item: -item[1])
    part = Table(("requests", "reason"), [(n, reason) for reason, n in reasons])
    yield Section("failures", "Failed requests", [part] if reasons else [])
    if summary["rejected"] and "rejected" in results:
        lines, total = results.tables["rejected"].head(_LINES)
        columns = {name: name for name in ("file", "line", "reason")}
        part = table(lines.to_pylist(), columns, file="rejected.parquet", total=total)
        yield Section("rejected", "Rejected input lines", [part] if total else [])


def _instructions(results: Results) -> Section:
    """Show the instructions and the template, and who read them."""
    options, names, parts = results.record["options"], [*results.record["judges"]], list[Part]()
    where, without = "These words were in every prompt", judges_without_prompt(names)
    if without:
        where = f"All judges but {', '.join(without)} read these words"
        where = "No judge of this run reads prompts" if len(without) == len(names) else where
    for name, text, caption in (
        ("instructions", options.get("instructions"), f"{where}; people who label see them."),
        ("template", options.get("template"), "Prompts were built from this template."),
    ):
        if lines := [line for line in str(text or "").splitlines() if line.strip()]:
            parts.append(Table((name,), [(line,) for line in lines], caption))
    if shown := options.get("show_query"):
        parts.append(f"Judges saw these fields with each query: {', '.join(shown)}.")
    return Section("instructions", "What counts as relevant", parts)


def _made(results: Results) -> str:
    """Say how the results were made, and what a score means."""
    options: Mapping[str, Any] = results.record["options"]
    protocol = protocol_of_record(results.record)
    words = f"Run {results.record['run_id']}, protocol {protocol.name}, seed {options.get('seed')}"
    explain = protocol.score.explain
    meaning = explain if isinstance(explain, str) else explain(options)
    return f"{words}. {meaning}".strip()


_TOURNAMENT = ["query_id", "judge", "repeat"]
_ITEM = ["query_id", "doc_id_a", "doc_id_b", "method", "judge"]


def _frame(results: Results, name: str, columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd  # noqa: PLC0415 - a second, which most runs do not need

    if name not in results:
        return pd.DataFrame(columns=list(columns))
    frame: pd.DataFrame = results.tables[name].select(columns).to_pandas()
    return frame


@lru_cache(maxsize=1)  # three sections and a sentence look at it
def finished_tournaments(results: Results) -> "pd.DataFrame":
    """Return the tournaments with a winner: the first king, the winner, the number of answers."""
    contests = _frame(results, "contests", [*_TOURNAMENT, "round", "left_id"])
    groups = contests.sort_values("round", kind="stable").groupby(_TOURNAMENT, sort=False).left_id
    begun = groups.agg(first="first", answers="size").reset_index()
    begun["answers"] += 1
    winners = _frame(results, "winners", [*_TOURNAMENT, "winner_id"])
    return begun.merge(winners, on=_TOURNAMENT)


@lru_cache(maxsize=1)  # the same
def judged_pairs(results: Results) -> "pd.DataFrame":
    """Return each pair of answers by each judge and method: its winner, and how orders differ."""
    verdicts = _frame(results, "verdicts", [*_ITEM, "winner", "average_scores", "rounds"])
    scores = np.stack([*verdicts.average_scores, np.zeros(2)])[:-1]
    verdicts["sign"] = np.sign(scores[:, 0] - scores[:, 1])
    pairs = verdicts.groupby(_ITEM, sort=False).agg(
        winner=("winner", "first"),
        low=("sign", "min"),
        high=("sign", "max"),
        orders=("sign", "size"),
        rounds=("rounds", "mean"),
    )
    pairs["reversed"] = pairs.low * pairs.high < 0
    pairs["half_tied"] = (pairs.low == 0) != (pairs.high == 0)
    return pairs.reset_index()


def tournaments_section(results: Results) -> Section:
    """Count the tournaments of each judge, those with a winner, and those the first king won."""
    if "contests" not in results:
        return Section("tournaments", "Tournaments", [])
    over = finished_tournaments(results)
    begun = [_frame(results, name, ["query_id", "judge"]) for name in ("contests", "failures")]
    queries = len({query for frame in begun for query in frame.query_id})
    rows = []
    for judge in sorted({judge for frame in begun for judge in frame.judge}):
        own = over[over.judge == judge]
        won, chance = (own.winner_id == own["first"]).mean(), (1 / own.answers).mean()
        number = queries * results.record["options"].get("repeats", 1)
        cells = (number, len(own), Cell(won, "p"), Cell(chance, "p"))
        names = ("tournaments", "with a winner", "first king won", "by chance")
        rows.append({"judge": judge, **dict(zip(names, cells, strict=True))})
    caption = "A match without an answer ends its tournament, which then has no winner."
    parts = [table(rows, {name: name for name in rows[0]}, caption)] if rows else []
    return Section("tournaments", "Tournaments", parts)


def verdicts_section(results: Results) -> Section:
    """Show the verdicts of each judge by each method."""
    rows = []
    for (judge, method), own in judged_pairs(results).groupby(["judge", "method"]):
        both = own[own.orders > 1]
        row: dict[str, Any] = {"judge": judge, "pairs": len(own)}
        for name, side in (("A won", "model_a"), ("B won", "model_b"), ("tie", "tie")):
            row[name] = Cell((own.winner == side).mean(), "p")
        row["reversed"] = Cell(both.reversed.mean() if len(both) else nan, "p")
        row["tie in one order"] = Cell(both.half_tied.mean() if len(both) else nan, "p")
        rows.append(row | {"rounds": Cell(own.rounds.mean(), ".2f"), "method": method})
    if not rows:
        return Section("verdicts", "Verdicts", [])
    caption = (
        "A and B are doc_id_a and doc_id_b of verdicts.parquet. Where both orders were asked and "
        "differ, the verdict is a tie: reversed if A won in one order and B in the other."
    )
    return Section("verdicts", "Verdicts", [table(rows, {n: n for n in rows[0]}, caption)])


def winners_section(results: Results) -> Section:
    """Show which answers won, if names such as those of assistants answer many queries."""
    over = finished_tournaments(results)
    unit = "pairs" if over.empty else "tournaments"
    rows = win_shares(_wins_of_pairs(results) if over.empty else _wins_of_tournaments(results))
    if not rows:
        return Section("winners", "Who won", [])
    columns: dict[str, Any] = {
        "answer": "answer",
        "won": estimate("won", ".0%"),
        "by chance": lambda row: Cell(row["chance"], "p"),
        "queries": "queries",
    }
    tie = "; a tie counts half" if over.empty else ""
    caption = f"The share of its {unit} that it won, the mean over queries, with a 95% interval"
    return Section("winners", "Who won", [table(rows, columns, f"{caption}{tie}.")])


def _wins_of_tournaments(results: Results) -> "pd.DataFrame":
    """Return a row for each answer in each finished tournament."""
    import pandas as pd  # noqa: PLC0415 - as above

    contests = _frame(results, "contests", [*_TOURNAMENT, "round", "left_id", "right_id"])
    over = finished_tournaments(results)
    first = over.rename(columns={"first": "answer"})
    others = contests.rename(columns={"right_id": "answer"})[[*_TOURNAMENT, "answer"]]
    entered = pd.concat([first, others.merge(over, on=_TOURNAMENT)])
    entered["won"] = (entered.answer == entered.winner_id).astype(float)
    entered["chance"] = 1 / entered.answers
    return entered


def _wins_of_pairs(results: Results) -> "pd.DataFrame":
    """Return two rows for each pair, one for each answer; a tie counts half."""
    import pandas as pd  # noqa: PLC0415 - as above

    pairs = judged_pairs(results)
    sides = [
        pairs.assign(
            answer=pairs[name],
            won=np.where(pairs.winner == "tie", 0.5, (pairs.winner == side).astype(float)),
            chance=0.5,
        )
        for name, side in (("doc_id_a", "model_a"), ("doc_id_b", "model_b"))
    ]
    return pd.concat(sides)


def win_shares(entered: "pd.DataFrame") -> list[Mapping[str, Any]]:
    """Return each answer's share of wins, a mean over queries, and the number of these, best first.

    None if ids name the answers to one query only: they are in fewer than two queries on average.
    """
    if entered.empty:
        return []
    by_query = entered.groupby(["answer", "query_id"])[["won", "chance"]].mean()
    shares = by_query.groupby("answer").agg(
        won=("won", "mean"), chance=("chance", "mean"), queries=("won", "size")
    )
    if len(by_query) < 2 * len(shares):
        return []
    ends = share_interval(shares.won.to_numpy(), shares.queries.to_numpy())
    shares["low"], shares["high"] = np.clip(ends, 0, 1)
    shares = shares.reset_index().sort_values(["won", "answer"], ascending=[False, True])
    return [{str(name): value for name, value in row.items()} for row in shares.to_dict("records")]
