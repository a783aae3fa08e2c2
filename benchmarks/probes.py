"""How often `zelo-ray probe` finds a known bias of a simulated judge, and one that is not there.

Each draw is a sample of its own: documents, their copies and a judge's grades, by the functions
that the command uses, without Ray. Columns: documents, queries; the shift that was set; the mean
shift measured; the mean of what is told to be detectable with a chance of 80%; how often it was
found; how often its 95% interval held the true shift; how often any of the other three probes of
the judge was called significant, which Holm's correction keeps below 5%.

Run: python -m benchmarks.probes [--draws N]
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.helpers.builders import reply_to
from zelo_ray.command_options import ProbeOptions
from zelo_ray.commands.probe.changes import draw_sample
from zelo_ray.commands.probe.measure import measure_shifts, read_judgments
from zelo_ray.commands.probe.run import choose_probes, make_plan
from zelo_ray.evaluation.significance import ALPHA
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.tables import table_of, write_tables
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Protocol, load_protocol
from zelo_ray.providers import Settings, build_panel, load_provider
from zelo_ray.records import Grade, Judge
from zelo_ray.report.figures import Figure

JUDGE = "simulated:judge"
NOISE = 0.3
WORDS = ["oak", "elm", "ash", "fir", "yew", "pine", "larch", "birch", "maple", "cedar"]
ROWS = [(25, 25, 0.0, 1.0), (25, 25, 0.63, 0.5), (50, 25, 0.44, 0.5)]
"""Documents, queries, the bias to instructions in grades, and the share of the draws."""


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


def draw(folder: str, documents: int, queries: int, bias: float, number: int) -> list[Figure]:
    """The figures of one sample."""
    place = Path(folder) / "input.jsonl"
    write_pools(place, queries, number)
    given: dict[str, Any] = {"documents": documents, "seed": number}
    options = ProbeOptions(inputs=(str(place),), out=folder, **given)
    sample = draw_sample(options, choose_probes(options), [str(place)], folder)
    plan, protocol = make_plan(options, sample.place), load_protocol("graded")
    biases = {"injection": bias} if bias else None
    panel = build_panel((JUDGE,), {JUDGE: {"noise": NOISE, "biases": biases}})
    write_tables(folder, {"grades": table_of(asyncio.run(ask(protocol, panel, plan)), Grade)})
    judgments, _ = read_judgments(folder, "graded", sample.pairs, [JUDGE])
    return measure_shifts(judgments)


def measure(documents: int, queries: int, bias: float, draws: int) -> str:
    shifts, detectable, found, held, alarms = [], [], [], [], []
    with TemporaryDirectory() as folder:
        for number in range(draws):
            figures = draw(folder, documents, queries, bias, number)
            rows = {row.against: row for row in figures if row.what == "shift"}
            row = rows.pop("injection")
            shifts.append(row.value)
            of_injection = (each for each in figures if each.against == "injection")
            detectable.append(next(r.value for r in of_injection if r.what == "detectable"))
            found.append(row.p < ALPHA)
            held.append(row.low <= bias <= row.high)
            moved = any(other.p < ALPHA for other in rows.values())
            alarms.append(moved or (not bias and row.p < ALPHA))
    return (
        f"| {documents} | {queries} | {bias:g} | {np.mean(shifts):+.3f} | "
        f"{np.nanmean(detectable):.2f} | {np.mean(found):.2f} | {np.mean(held):.3f} | "
        f"{np.mean(alarms):.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    flags = parser.parse_args()
    print("| documents | queries | bias | shift | detectable | found | held | false alarm |")
    print("|" + "---:|" * 8)
    for *row, share in ROWS:
        print(measure(*row, round(share * flags.draws)), flush=True)


if __name__ == "__main__":
    main()
