"""Runs against a truth, with a panel's grades and people's, and what comes of them."""

import math

import numpy as np
import pyarrow as pa

from zelo_ray.evaluation.measures import (
    Truth,
    evaluate,
    parse_measure,
    rank_run,
)
from zelo_ray.evaluation.people.frame import build_frame
from zelo_ray.files.tables import schema_of
from zelo_ray.records import Qrel, Ranked


def qrels_of(truth, std_error=math.nan):
    """Qrels from {query: {document: relevance}}."""
    rows = [(q, d, float(r), std_error) for q, docs in truth.items() for d, r in docs.items()]
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    return pa.table([list(column) for column in columns], schema=schema_of(Qrel))


def run_of(run):
    """A run from {query: {document: score}}."""
    rows = [(q, d, float(s)) for q, docs in run.items() for d, s in docs.items()]
    columns = zip(*rows, strict=True) if rows else [[]] * 3
    return pa.table([list(column) for column in columns], schema=schema_of(Ranked))


def metrics_of(texts, truth, run):
    """By measure and query."""
    truth = Truth(qrels_of(truth))
    values = evaluate([parse_measure(text) for text in texts], rank_run(truth, run_of(run)))
    return {
        text: dict(zip(truth.query_ids, row.tolist(), strict=True))
        for text, row in zip(texts, values, strict=True)
    }


def table(value, columns):
    return pa.table(dict(zip((*("query_id", "doc_id"), value), map(list, columns), strict=True)))


def world(seed=0, queries=12, documents=9, error=0.8, best=(0, 4)):
    """People's grades, a panel's, and two runs, one of them the better one."""
    rng = np.random.default_rng(seed)
    people, panel, runs = {}, [], {"a": [], "b": []}
    for q in range(queries):
        for d in range(documents):
            ids = (f"q{q}", f"d{d}")
            people[ids] = float(rng.integers(*best))
            wrong = round(people[ids] + rng.normal(0, error) + 0.4)
            if d < documents - 1:  # the last one was judged by nobody
                panel.append((*ids, float(min(3, max(0, wrong)))))
            for name, noise in (("a", 0.8), ("b", 2.0)):
                if rng.random() < 0.9:
                    score = round(people[ids] + rng.normal(0, noise), 1)  # ties, too
                    runs[name].append((*ids, score))
    truth = Truth(table("relevance", zip(*panel, strict=True)))
    return people, truth, {n: table("score", zip(*r, strict=True)) for n, r in runs.items()}


def framed(name="nDCG@5", **how):
    people, truth, runs = world(**how)
    rankings = {arm: rank_run(truth, run) for arm, run in runs.items()}
    frame = build_frame(parse_measure(name), rankings)
    return frame, np.array([people[pair] for pair in frame.ids]), rankings
