"""Files of results made by hand: grades, comparisons of judges, of labels and of protocols."""

from dataclasses import asdict

import numpy as np
import pyarrow.parquet as pq

from tests.helpers.builders import pool_of, results_of, write_run
from tests.helpers.hills import write_rows
from zelo_ray import cli
from zelo_ray.commands.report import write_report
from zelo_ray.files.tables import table_of
from zelo_ray.records import AbsoluteScore, Failure, Grade, GradedScore, Rater, Share

JUDGES = ("openai:one", "anthropic:two", "gemini:three")


RATERS = (
    Rater("openai:one", 0.8, 0.1, 0.3, 0.05, 0.7, 40),
    Rater("anthropic:two", -0.6, 0.1, 0.7, 0.1, 0.29, 40),
    Rater("gemini:three", 0.1, 0.2, float("inf"), float("nan"), 0.01, 40),
    Rater("human", 0.3, 0.1, 0.4, 0.2, 0.0, 2),
)


def grades_of(queries, documents, judges, repeats, say, seed=0):
    """Random grades, query by query; of the last document of each query they are 0, 3, 0 ..."""
    rng = np.random.default_rng(seed)
    for query in range(queries):
        for document in range(documents):
            for place, judge in enumerate(judges):
                for _ in range(repeats):
                    split = document == documents - 1
                    grade = 3 * (place % 2) if split else int(rng.integers(4))
                    ids = (f"{say}q{query}", f"{say}d{document}", f"{say}{judge}")
                    why = ((f"{say}covered", "more"), (f"{say}missing",), f"{say}because")
                    yield Grade(*ids, grade, *why, "key")


def write_graded(out, queries=5, documents=4, judges=JUDGES, repeats=1, say="", **more):
    """The files of a graded run; the panel's word is the lower median of all grades.

    Args:
        say: a text that every field of data begins with.
        more: ``pooling``; ``humans``, how many human grades there are; ``std_error``.
    """
    out.mkdir(exist_ok=True)
    grades = list(grades_of(queries, documents, judges, repeats, say))
    by_item = {}
    for one in grades:
        by_item.setdefault((one.query_id, one.doc_id), []).append(one.grade)
    scores = []
    for (query_id, doc_id), given in by_item.items():
        word, rank = sorted(given)[(len(given) - 1) // 2], 1 + len(scores) % documents
        apart = float(np.abs(np.subtract.outer(given, given)).mean())
        head = (query_id, doc_id, word + 0.25, more.get("std_error", 0.5), len(given), rank)
        split = doc_id.endswith(f"d{documents - 1}")
        scores.append(GradedScore(*head, word, float(np.median(given)), apart, split))
    humans = more.get("humans", 0)
    ends = (0.35, 0.62) if humans else (float("nan"),) * 2
    shares = [Share(m, 0.5, 0.48, *ends, len(scores), humans) for m in ("grade", ">=1", ">=2")]
    raters = [
        Rater(**asdict(rater) | {"judge": f"{say}{rater.judge}"})
        for rater in RATERS
        if humans or rater.judge != "human"
    ]
    failures = [Failure(f"{say}q0", (f"{say}d1",), f"{say}{JUDGES[0]}", "refused", say, 2, "key")]
    for name, rows, record in (("raters", raters, Rater), ("shares", shares, Share)):
        pq.write_table(table_of(rows, record), out / f"{name}.parquet")
    options = {"protocol": "graded", "pooling": more.get("pooling", "thurstone")}
    options |= {"repeats": repeats, "ambiguous": 1.5}
    tables = {"grades": (grades, Grade), "failures": (failures, Failure)}
    write_rows(out, options, scores, GradedScore, **tables)
    return grades, scores


def write_both(out, say=""):
    """Battles put on one scale by a grade of each of two documents of a query."""
    results = results_of(out, [pool_of((3, 1, 1), f"{say}q{i}") for i in range(2)])
    write_run(out, results, protocol="zelo", calls_per_document=2)
    scores = pq.read_table(out / "scores.parquet").to_pylist()
    shifts = [(1.0, 0.4), (float("nan"),) * 2]
    rows = [
        AbsoluteScore(**row, absolute_score=row["score"] + shift, absolute_error=error)
        for row in scores
        for shift, error in [shifts[int(row["query_id"][-1])]]
    ]
    pq.write_table(table_of(rows, AbsoluteScore), out / "scores.parquet")
    why = (("covered",), (), f"{say}because", "key")
    grades = [Grade(f"{say}q0", f"d{i}", JUDGES[i], 3 - i, *why) for i in range(2)]
    pq.write_table(table_of(grades, Grade), out / "grades.parquet")
    write_report(str(out))


QUERIES, DOCUMENTS = 8, 10
RUNS = ("first", "second", "third")


def write_qrels(path, grades):
    lines = [f"q{i // DOCUMENTS} 0 d{i} {grade}\n" for i, grade in enumerate(grades)]
    path.write_text("".join(lines))
    return path


def agree(folder, *words):
    """Let ``agree`` measure judges that err on so many documents."""
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 4, QUERIES * DOCUMENTS)
    (folder / "judges").mkdir(parents=True)
    for name, noise in (("good", 0.2), ("fair", 0.5), ("poor", 0.9)):
        errs = rng.random(len(truth)) < noise
        grades = np.where(errs, rng.integers(0, 4, len(truth)), truth)
        write_qrels(folder / "judges" / f"{name}.txt", grades)
    given = [folder / "judges", "--human", write_qrels(folder / "people.qrels", truth)]
    given += [*words, "--out", folder / "out"]
    assert cli.main(["agree", *map(str, given)]) == 0


def write_runs(folder):
    """Runs that order documents by their number, and ever more of them at random."""
    rng = np.random.default_rng(1)
    paths = []
    for place, name in enumerate(RUNS):
        lines = [
            f"q{i // DOCUMENTS} Q0 d{i} 1 {(i % DOCUMENTS) + place * 5 * rng.random():.4f} {name}\n"
            for i in range(QUERIES * DOCUMENTS)
        ]
        paths.append(folder / f"{name}.run")
        paths[-1].write_text("".join(lines))
    return paths
