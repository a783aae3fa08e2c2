"""Runs of best-of and of debates, made by hand: their files, and the page of them."""

import json
from dataclasses import asdict, replace

import numpy as np
import pyarrow.parquet as pq

from tests.report.test_report import page_of
from zelo_ray.commands.report import write_report
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.storage import write_json
from zelo_ray.files.tables import table_of
from zelo_ray.records import TIE, Contest, CrownedScore, Failure, Score, Verdict, Winner

TOURNAMENTS = (  # who is king first and who challenges; k the king won, c the challenger, t tied
    ("q0", "j1", 0, "abc", "kk"),
    ("q0", "j1", 1, "bca", "ct"),
    ("q0", "j2", 0, "abc", "kk"),
    ("q0", "j2", 1, "bca", "kc"),
    ("q1", "j1", 0, "abc", "cc"),
    ("q1", "j1", 1, "bca", "ck"),
    ("q1", "j2", 0, "abc", "k"),  # the second contest failed
    ("q1", "j2", 1, "bca", ""),
)
VERDICTS = (  # scores of A and B, round by round; whether B was shown first
    ("q0", "a", "b", "j1", ((90, 80), (88, 80)), False),
    ("q0", "a", "b", "j1", ((70, 80), (88, 90)), True),
    ("q0", "a", "b", "j2", ((70, 71),), True),
    ("q0", "a", "b", "j2", ((60, 71),), False),
    ("q1", "a", "b", "j1", ((60, 60), (61, 61), (60, 60)), False),
    ("q1", "a", "b", "j1", ((60, 60),), True),
)


def rows_of_tournaments(told=TOURNAMENTS, say=""):
    """The rows of contests, winners and failures."""
    contests, winners, failures = [], [], []
    for query, judge, repeat, line, outcomes in told:
        ids = {"session_id": f"{say}session", "query_id": f"{say}{query}"}
        ids |= {"judge": f"{say}{judge}", "repeat": repeat}
        names = [f"{say}{name}" for name in line]
        king = names[0]
        for number, (challenger, outcome) in enumerate(zip(names[1:], outcomes, strict=False), 1):
            left, king = king, challenger if outcome == "c" else king
            row = Contest(
                **ids,
                round=number,
                left_id=left,
                right_id=challenger,
                winner_id=TIE if outcome == "t" else king,
                confidence=0.75,
                verdict=f"{say}in short {number}",
                reasoning=f"{say}because",
                swapped=number == 2,
                king_id=king,
                key="key",
            )
            contests.append(row)
        if len(outcomes) == len(line) - 1:
            winners.append(Winner(**ids, winner_id=king, contests=len(outcomes)))
        else:
            pair = (king, names[len(outcomes) + 1])
            failed = (ids["query_id"], pair, ids["judge"], "refused", f"{say}no")
            failures.append(Failure(*failed, attempts=1, key="key"))
    return contests, winners, failures


def rows_of_verdicts(told=VERDICTS, say=""):
    """Verdicts, those of two orders that differ made ties."""
    found = []
    for query, a, b, judge, history, swapped in told:
        means = tuple(float(mean) for mean in np.mean(history, axis=0))
        each = [f"{number}" for number in range(1, len(history) + 1)]
        winner = TIE if means[0] == means[1] else "model_a" if means[0] > means[1] else "model_b"
        found.append(
            Verdict(
                query_id=f"{say}{query}",
                doc_id_a=f"{say}{a}",
                doc_id_b=f"{say}{b}",
                method="samre",
                judge=f"{say}{judge}",
                winner=winner,
                average_scores=means,
                rounds=len(history),
                score_history=tuple((float(x), float(y)) for x, y in history),
                arguments=tuple((f"{say}for A {n}", f"{say}for B {n}") for n in each),
                feedback=tuple(f"{say}do better {n}" for n in each),
                reasoning=tuple(f"{say}because {n}" for n in each),
                swapped=swapped,
                flipped=False,
                keys=("key",),
            )
        )
    by_pair = {}
    for verdict in found:
        by_pair.setdefault((verdict.query_id, verdict.judge), set()).add(verdict.winner)
    return [
        replace(verdict, winner=TIE, flipped=True)
        if len(by_pair[verdict.query_id, verdict.judge]) > 1
        else verdict
        for verdict in found
    ]


def write_rows(out, options, scores, record, **tables):
    """The files of a run, the table of its judgments first, and their page."""
    out.mkdir(exist_ok=True)
    for name, (rows, kind) in tables.items():
        pq.write_table(table_of(rows, kind), out / f"{name}.parquet")
    pq.write_table(table_of(scores, record), out / "scores.parquet")
    by_query = {}
    for score in scores:
        by_query.setdefault(score.query_id, []).append(score.doc_id)
    lines = [
        {
            "query": {"id": query_id, "query": f"{query_id}?"},
            "documents": [{"id": doc_id, "content": f"text of {doc_id}"} for doc_id in doc_ids],
        }
        for query_id, doc_ids in by_query.items()
    ]
    (out / "annotated.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    count, queries = len(scores), len(by_query)
    judgments = len(next(iter(tables.values()))[0])
    summary = asdict(Summary("", queries, count, count, judgments, dollars_in_all=0.5))
    summary |= by_judge({name: rows for name, (rows, _) in tables.items() if name != "winners"})
    judges = {"j1": asdict(Tally(answered=9, spared=3, dollars=0.5))}
    value = {
        "kind": "annotate",
        "run_id": "20261101T000000Z-abc",
        "options": {"seed": 0, **options},
    }
    write_json(str(out), "run.json", value | {"summary": summary, "judges": judges})
    write_report(str(out))
    return page_of(out)


def by_judge(tables):
    """What a summary says of each judge, from the rows of tables by name."""
    judged, failed, reasons = {}, {}, {}
    for name, rows in tables.items():
        for row in rows:
            counts = (failed if name == "failures" else judged).setdefault(row.judge, {})
            kind = row.status if name == "failures" else name
            counts[kind] = counts.get(kind, 0) + 1
            if name == "failures":
                reason = f"{row.judge}: {row.status}, {row.reason}"
                reasons[reason] = reasons.get(reason, 0) + 1
    answers = {judge: sum(counts.values()) for judge, counts in judged.items()}
    return {
        "judgments_by_judge": judged,
        "answers_by_judge": answers,
        "failures_by_judge": failed,
        "reasons": reasons,
    }


def write_contests(out, say="", told=TOURNAMENTS, **options):
    """The files of a best-of run, and their page."""
    contests, winners, failures = rows_of_tournaments(told, say)
    scores = [
        CrownedScore(f"{say}{query}", f"{say}{doc}", 1.0 - place, 0.5, 3, place + 1, 0.5)
        for query in ("q0", "q1")
        for place, doc in enumerate("cab")
    ]
    options = {"protocol": "best-of", "order": "random", "repeats": 2} | options
    rows = {"contests": (contests, Contest), "winners": (winners, Winner)}
    rows["failures"] = (failures, Failure)
    return write_rows(out, options, scores, CrownedScore, **rows)


def write_verdicts(out, say="", told=VERDICTS, **options):
    """The files of a run of debates, and their page."""
    scores = [
        Score(f"{say}{query}", f"{say}{doc}", 0.5 - place, 0.5, 3, place + 1)
        for query in ("q0", "q1")
        for place, doc in enumerate("ba")
    ]
    options = {"protocol": "samre", "cycles": 4, "rounds": None, "both_orders": True} | options
    rows = {"verdicts": (rows_of_verdicts(told, say), Verdict), "failures": ([], Failure)}
    return write_rows(out, options, scores, Score, **rows)
