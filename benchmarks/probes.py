"""How often `zelo-ray probe` finds a known bias of a simulated judge, and one that is not there.

Each draw is a sample of its own: documents, their copies and a judge's grades, by the functions
that the command uses, without Ray. Columns: documents, queries; the shift that was set; the mean
shift measured; the mean of what is told to be detectable with a chance of 80%; how often it was
found; how often its 95% interval held the true shift; how often any of the other three probes of
the judge was called significant, which Holm's correction keeps below 5%.

A second table is of `recall`: answers of a simulated judge that has read the documents of some
queries, and for the others writes their words in another order. Columns: queries; the chance of
having read, for which there are only two words where it is 0, so that runs repeat by chance; the
mean shift; the mean of what is told to be detectable; how often it was found. A third one, with
the FOLDER of the Cranfield collection, is of answers on the same topics by people who had not read
the documents.
Run: python -m benchmarks.probes [--draws N] [FOLDER]
"""

import argparse
import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.builders import reply_to
from zelo_ray.commands.probe.job import choose_probes, make_plan
from zelo_ray.commands.probe.measured import (
    JudgedGrades,
    ProbeShift,
    ShiftedJudgment,
    measure_shifts,
    read_judgments,
)
from zelo_ray.commands.probe.recall import Recitations, draw_queries
from zelo_ray.commands.probe.sample import draw_sample
from zelo_ray.evaluation.recitation import RUN, find_repeated
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.results import write_tables
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AnnotateOptions, ProbeOptions
from zelo_ray.protocols import Protocol, load_protocol
from zelo_ray.protocols.recitation import NAME as RECITATION
from zelo_ray.protocols.recitation import TABLE, Recitation
from zelo_ray.providers import Settings, build_panel, load_provider
from zelo_ray.records import Grade, Judge

JUDGE = "simulated:judge"
NOISE = 0.3
WORDS = ["oak", "elm", "ash", "fir", "yew", "pine", "larch", "birch", "maple", "cedar"]
ROWS = [(25, 25, 0.0, 1.0), (25, 25, 0.63, 0.5), (50, 25, 0.44, 0.5)]
"""Documents, queries, the bias to instructions in grades, and the share of the draws."""
MEMORIES = [(25, 0.0, 2), (100, 0.0, 2), (25, 0.3, 10), (100, 0.1, 10)]
"""Queries, the chance of having read the documents of one, and how many words there are."""


def write_pools(place: Path, queries: int, number: int, words: Sequence[str] = WORDS) -> None:
    """Pools of three documents whose truth lies between grades, so that a bias is a mean shift."""
    rng = Random(f"pools:{number}")
    lines = []
    for q in range(queries):
        documents = [
            {
                "id": f"d{d}",
                "content": " ".join(rng.choices(words, k=30)),
                "metadata": {"grade": rng.uniform(0.8, 1.8)},
            }
            for d in range(3)
        ]
        lines.append(
            {"query": {"id": f"q{q}", "query": f"which tree is {number}?"}, "documents": documents}
        )
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))


def draw_memory(
    folder: str, queries: int, memory: float, vocabulary: int, number: int
) -> ProbeShift:
    """The figures of one sample of answers from memory."""
    place = Path(folder) / "input.jsonl"
    write_pools(place, queries, number, WORDS[:vocabulary])
    given: dict[str, Any] = {"probes": ("recall",), "seed": number, "resamples": 1000}
    options = ProbeOptions(inputs=(str(place),), out=folder, **given)
    sample = draw_queries(options, [str(place)], folder)
    plan, protocol = make_plan(options, sample.place), load_protocol(RECITATION)
    panel = build_panel((JUDGE,), {JUDGE: {"memory": memory}})
    write_tables(folder, {TABLE: table_of(asyncio.run(ask(protocol, panel, plan)), Recitation)})
    answers = Recitations(folder, sample.place)
    judgments, missing = read_judgments(answers, sample.pairs, [JUDGE])
    (shift,) = measure_shifts(judgments, missing, top=1.0, resamples=1000, seed=number)
    return shift


def measure_memory(queries: int, memory: float, vocabulary: int, draws: int) -> str:
    with TemporaryDirectory() as folder:
        rows = [draw_memory(folder, queries, memory, vocabulary, number) for number in range(draws)]
    return (
        f"| {queries} | {memory:g} | {np.mean([row.shift for row in rows]):+.3f} | "
        f"{np.nanmean([row.detectable for row in rows]):.2f} | "
        f"{np.mean([row.moved for row in rows]):.3f} |"
    )


def measure_topics(folder: Path, queries: int, run: int, draws: int) -> str:
    """Take for answers what others wrote on the same topics, who had not read the documents.

    An answer is the first 100 words of a document that people found relevant, compared with the
    query's other relevant documents, and with those of another query.
    """
    texts = {}
    for line in (folder / "docs.jsonl").read_text().splitlines():
        row = json.loads(line)
        texts[row["docid"]] = row["text"]
    relevant = defaultdict[str, list[str]](list)
    for line in (folder / "qrels_graded_0to3.txt").read_text().splitlines():
        query_id, _, doc_id, grade = line.split()
        if int(grade) > 0:
            relevant[query_id].append(doc_id)
    several = [query_id for query_id, doc_ids in relevant.items() if len(doc_ids) > 1]
    shifts = []
    for number in range(draws):
        rng, rows = Random(number), list[ShiftedJudgment]()
        cycle = rng.sample(several, queries)
        for query_id, other in pairwise([*cycle, cycle[0]]):
            written = rng.choice(relevant[query_id])
            answer = " ".join(texts[written].split()[:100])
            own, by_chance = (
                max(
                    (
                        find_repeated(answer, texts[d], run=run).share
                        for d in relevant[name]
                        if d != written
                    ),
                    default=0.0,
                )
                for name in (query_id, other)
            )
            names = (JUDGE, "recall", query_id, "")
            rows.append(ShiftedJudgment(*names, by_chance, own, own - by_chance, ()))
        shifts += measure_shifts(rows, {}, top=1.0, resamples=1000, seed=number)
    means = (np.mean([getattr(row, name) for row in shifts]) for name in ("shift", "up", "moved"))
    return "| {} | {} | {:+.4f} | {:.3f} | {:.3f} |".format(queries, run, *means)


async def ask(protocol: Protocol, panel: Sequence[Judge], plan: AnnotateOptions) -> list[Any]:
    """What a panel says of all pools of a run with one round, without Ray."""
    provider = load_provider("simulated").connect(Settings())
    judgments = list[Any]()
    for line in read_lines(plan.inputs[0], LineLimits()):
        assert line.pool
        rounds = protocol.rounds(line.pool, panel, plan)
        requests = next(rounds)
        answers = [await provider.send(request) for request in requests]
        replies = [
            reply_to(request.key, answer.text, judge=JUDGE)
            for request, answer in zip(requests, answers, strict=True)
        ]
        try:
            rounds.send(replies)
        except StopIteration as end:
            judgments += end.value
    return judgments


def draw(folder: str, documents: int, queries: int, bias: float, number: int) -> list[ProbeShift]:
    """The figures of one sample."""
    place = Path(folder) / "input.jsonl"
    write_pools(place, queries, number)
    given: dict[str, Any] = {"documents": documents, "seed": number, "resamples": 1000}
    options = ProbeOptions(inputs=(str(place),), out=folder, **given)
    sample = draw_sample(options, choose_probes(options)[0], [str(place)], folder)
    plan, protocol = make_plan(options, sample.place), load_protocol("graded")
    biases = {"injection": bias} if bias else None
    panel = build_panel((JUDGE,), {JUDGE: {"noise": NOISE, "biases": biases}})
    write_tables(folder, {"grades": table_of(asyncio.run(ask(protocol, panel, plan)), Grade)})
    judgments, missing = read_judgments(JudgedGrades(folder), sample.pairs, [JUDGE])
    return measure_shifts(judgments, missing, top=3.0, resamples=1000, seed=number)


def measure(documents: int, queries: int, bias: float, draws: int) -> str:
    shifts, detectable, found, held, alarms = [], [], [], [], []
    with TemporaryDirectory() as folder:
        for number in range(draws):
            rows = {row.probe: row for row in draw(folder, documents, queries, bias, number)}
            row = rows.pop("injection")
            shifts.append(row.shift)
            detectable.append(row.detectable)
            found.append(row.moved)
            held.append(row.low <= bias <= row.high)
            alarms.append(any(other.moved for other in rows.values()) or (not bias and row.moved))
    return (
        f"| {documents} | {queries} | {bias:g} | {np.mean(shifts):+.3f} | "
        f"{np.nanmean(detectable):.2f} | {np.mean(found):.2f} | {np.mean(held):.3f} | "
        f"{np.mean(alarms):.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("cranfield", type=Path, nargs="?", help="folder of the collection")
    flags = parser.parse_args()
    print("| documents | queries | bias | shift | detectable | found | held | false alarm |")
    print("|" + "---:|" * 8)
    for *row, share in ROWS:
        print(measure(*row, round(share * flags.draws)), flush=True)
    print("\n| queries | has read | shift | detectable | found |")
    print("|" + "---:|" * 5)
    for row in MEMORIES:
        print(measure_memory(*row, flags.draws), flush=True)
    if flags.cranfield:
        print("\n| queries | words of a run | shift | that repeat any | found |")
        print("|" + "---:|" * 5)
        for queries, run in ((25, RUN), (100, RUN), (100, 8)):
            print(measure_topics(flags.cranfield, queries, run, flags.draws), flush=True)


if __name__ == "__main__":
    main()
