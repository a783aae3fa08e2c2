"""Build the report of an annotation run: its scores, and the behaviour of its judges."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import nan
from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np

from zelo_ray.commands.annotate import judges, queries, scores
from zelo_ray.commands.annotate.warnings import find_warnings
from zelo_ray.engine.replies import format_dollars
from zelo_ray.evaluation.significance import share_interval
from zelo_ray.files.tables import StoredTable, iter_rows, schema_of
from zelo_ray.files.wording import counted
from zelo_ray.protocols import protocol_of_record
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.records import Failure, Score
from zelo_ray.report.model import Cell, Part, Report, Section, Table, Value, estimate, table
from zelo_ray.report.progress import duration
from zelo_ray.report.results import Results

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


# Tournaments and verdicts

_TOURNAMENT = ("query_id", "judge", "repeat")
_WON = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}  # how far A won


def _read(results: Results, name: str, *columns: str) -> list[tuple[Any, ...]]:
    return [*iter_rows(results.tables[name].select(columns), *columns)] if name in results else []


@lru_cache(maxsize=1)  # two sections look at it
def finished_tournaments(results: Results) -> list[tuple[str, str, list[str], str]]:
    """Return tournaments with a winner: query, judge, answers (the first king first), winner."""
    entered = dict[tuple[Any, ...], list[str]]()
    contests = _read(results, "contests", *_TOURNAMENT, "left_id", "right_id", "round")
    for *key, king, other, _ in sorted(contests, key=itemgetter(-1)):
        entered.setdefault(tuple(key), [king]).append(other)
    won = {tuple(key): name for *key, name in _read(results, "winners", *_TOURNAMENT, "winner_id")}
    return [(*key[:2], entered[key], won[key]) for key in entered if key in won]


@lru_cache(maxsize=1)  # the same
def judged_pairs(results: Results) -> dict[tuple[str, ...], tuple[str, list[float]]]:
    """Return, by judge, method, query, A and B, the winner, and by order the sign of A's lead."""
    pairs = dict[tuple[str, ...], tuple[str, list[float]]]()
    columns = ("judge", "method", "query_id", "doc_id_a", "doc_id_b", "winner", "average_scores")
    for *key, winner, (a, b) in _read(results, "verdicts", *columns):
        pairs.setdefault(tuple(key), (winner, []))[1].append(float(np.sign(a - b)))
    return pairs


def tournaments_section(results: Results) -> Section:
    """Count the tournaments of each judge, those with a winner, and those the first king won."""
    over, rows = finished_tournaments(results), list[dict[str, Any]]()
    begun = {each for n in ("contests", "failures") for each in _read(results, n, *_TOURNAMENT[:2])}
    for judge in sorted({judge for _, judge in begun}) if "contests" in results else ():
        own = [each for each in over if each[1] == judge]
        queries, repeats = {query for query, _ in begun}, results.record["options"].get("repeats")
        rows.append(
            {
                "judge": judge,
                "tournaments": len(queries) * (repeats or 1),
                "with a winner": len(own),
                "first king won": _share(winner == answers[0] for *_, answers, winner in own),
                "by chance": _share(1 / len(answers) for *_, answers, _ in own),
            }
        )
    caption = "A match without an answer ends its tournament, which then has no winner."
    return Section("tournaments", "Tournaments", _table_of(rows, caption))


def _share(values: Iterable[float]) -> Cell:
    return Cell(fmean(each) if (each := [*values]) else nan, "p")


def _table_of(rows: Sequence[Mapping[str, Any]], caption: str) -> list[Part]:
    return [table(rows, {name: name for name in rows[0]}, caption)] if rows else []


def verdicts_section(results: Results) -> Section:
    """Show how often each judge tied by each method, and how often the order made it turn."""
    pairs = judged_pairs(results)
    rows = list[dict[str, Any]]()
    for judge, method in sorted({key[:2] for key in pairs}):
        own = [pair for key, pair in pairs.items() if key[:2] == (judge, method)]
        both = [{*signs} for _, signs in own if len(signs) > 1]
        rows.append(
            {
                "judge": judge,
                "pairs": len(own),
                "tie": _share(winner == "tie" for winner, _ in own),
                "reversed": _share({-1, 1} <= signs for signs in both),
                "tie in one order": _share(len(signs) > 1 and 0 in signs for signs in both),
                "method": method,
            }
        )
    caption = (
        "Where both orders were asked and differ, the verdict is a tie: reversed if A won in one "
        "order and B in the other."
    )
    return Section("verdicts", "Verdicts", _table_of(rows, caption))


def winners_section(results: Results) -> Section:
    """Show which answers won, if names such as those of assistants answer many queries."""
    over, entered = finished_tournaments(results), list[tuple[str, str, float, float]]()
    for query_id, _, answers, winner in over:
        entered += [(name, query_id, name == winner, 1 / len(answers)) for name in answers]
    for (*_, query_id, a, b), (winner, _) in judged_pairs(results).items() if not over else ():
        won = _WON[winner]
        entered += [(a, query_id, won, 0.5), (b, query_id, 1 - won, 0.5)]
    columns: dict[str, Any] = {
        "answer": "answer",
        "won": estimate("won", ".0%"),
        "by chance": lambda row: Cell(row["chance"], "p"),
        "queries": "queries",
    }
    unit, tie = ("tournaments", "") if over else ("pairs", "; a tie counts half")
    caption = f"The share of its {unit} that it won, the mean over queries, with a 95% interval"
    rows = win_shares(entered)
    shown = [table(rows, columns, f"{caption}{tie}.")] if rows else []
    return Section("winners", "Who won", shown)


def win_shares(entered: Iterable[tuple[str, str, float, float]]) -> list[dict[str, Any]]:
    """Return each answer's share of wins, a mean over queries, and the number of these, best first.

    ``entered`` has an answer, a query, how far it won, and the chance of that. None if ids name the
    answers to one query only: they are in fewer than two queries on average.
    """
    by_answer = dict[str, dict[str, list[tuple[float, float]]]]()
    for answer, query_id, won, chance in entered:
        by_answer.setdefault(answer, {}).setdefault(query_id, []).append((won, chance))
    if sum(map(len, by_answer.values())) < 2 * len(by_answer):
        return []
    rows = list[dict[str, Any]]()
    for answer, by_query in by_answer.items():
        means = np.array([np.mean(each, axis=0) for each in by_query.values()])
        won, chance = means.mean(axis=0).tolist()
        low, high = np.clip(share_interval(won, len(means)), 0, 1).tolist()
        row = {"answer": answer, "won": won, "low": low, "high": high, "chance": chance}
        rows.append(row | {"queries": len(means)})
    return sorted(rows, key=lambda row: (-row["won"], row["answer"]))
