"""What a few grades a query do for scores of different queries: `zelo+graded` on a known truth.

Queries whose documents' worth, in logits, is drawn from four kinds (72% N(-1.5, .45), 16% N(0, .5),
9% N(1.5, .5), 3% N(2.8, .4)) and then moved as a whole by N(0, .8). Votes are those of simulated
judges (noise 1, shared_noise .7); grades are cut at -.75, .75 and 2.15 from the worth with a normal
error, by three judges whose severities are -.4, 0 and .4. Columns: the correlation of all scores
with the truth, as they are, moved by the grades, and moved by the true shifts; how many truths lie
within 1.96 absolute_error; the shifts' standard deviation as learned.
Run: python -m benchmarks.scales [--queries N] [--documents K] [--noise SD]
"""

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from tests.builders import Shelf
from zelo_ray.formats.tables import table_of
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import advance, zelo_graded
from zelo_ray.protocols.zelo_graded import ZeloGradedOptions
from zelo_ray.providers import Provider, Settings, build_panel, load_provider
from zelo_ray.records import AbsoluteScore, Document, Grade, Judge, Pool, Request, Vote

SHIFT = 0.8
KINDS = ((-1.5, 0.45), (0.0, 0.5), (1.5, 0.5), (2.8, 0.4))
SHARES = (0.72, 0.16, 0.09, 0.03)
CUTS = (-0.75, 0.75, 2.15)
SEVERITIES = {"simulated:a": -0.4, "simulated:b": 0.0, "simulated:c": 0.4}


def make_pools(queries: int, documents: int) -> Iterator[Pool]:
    rng = Random(7)
    for q in range(queries):
        shift = rng.gauss(0, SHIFT)
        kinds = rng.choices(KINDS, SHARES, k=documents)
        drawn = (
            Document(f"d{i}", f"text {i} of {q}", {"worth": shift + rng.gauss(*kind)})
            for i, kind in enumerate(kinds)
        )
        yield Pool(f"q{q}", f"question {q}?", tuple(drawn))


def grade(request: Request, noise: float) -> str:
    worth = request.documents[0].metadata["worth"] - SEVERITIES[request.judge.name]
    seen = worth + Random(f"grade:{request.key}").gauss(0, noise)
    said = {"facets_covered": [], "facets_missing": [], "rationale": "simulated"}
    return json.dumps({**said, "grade": sum(seen > cut for cut in CUTS)})


async def judge(
    pools: Sequence[Pool], panel: tuple[Judge, ...], options: AnnotateOptions, noise: float
) -> list[tuple[Vote | Grade, ...]]:
    """Every judgment on each pool, as a run would have them."""
    provider: Provider = load_provider("simulated").connect(Settings())
    judged = []
    for pool in pools:
        shelf = Shelf()
        while (step := advance(zelo_graded.rounds(pool, panel, options), shelf)).missing:
            for request in step.missing:
                pair = len(request.documents) == 2
                text = (await provider.send(request)).text if pair else grade(request, noise)
                shelf.put(request, text)
        judged.append(step.judgments)
    return judged


def figures(pools: Sequence[Pool], scores: Sequence[AbsoluteScore]) -> list[float]:
    """The columns of one row but for the last."""
    worth = {(p.query_id, d.id): d.metadata["worth"] for p in pools for d in p.documents}
    means = {p.query_id: np.mean([d.metadata["worth"] for d in p.documents]) for p in pools}
    truth = np.array([worth[s.query_id, s.doc_id] for s in scores])
    plain = np.array([s.score for s in scores])
    moved = np.array([s.absolute_score for s in scores])
    known = plain + np.array([means[s.query_id] for s in scores])
    off = (moved - moved.mean()) - (truth - truth.mean())
    held = np.abs(off) < 1.96 * np.array([s.absolute_error for s in scores])
    return [*(float(np.corrcoef(x, truth)[0, 1]) for x in (plain, moved, known)), held.mean()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--documents", type=int, default=25)
    parser.add_argument("--noise", type=float, default=0.8, help="sd of a grade's error, in logits")
    flags = parser.parse_args()
    traits = {"truth": "worth", "shared_noise": 0.7}
    panel = build_panel(tuple(SEVERITIES), dict.fromkeys(SEVERITIES, traits), {})
    pools = list(make_pools(flags.queries, flags.documents))
    print("| grades a query | as they are | moved | by true shifts | held | sd of shifts |")
    print("|---:|---:|---:|---:|---:|---:|")
    for grades in (1, 2, 3, 5, 10):
        options = ZeloGradedOptions(
            inputs=("in",), out="out", protocol="zelo+graded", grades=grades
        )
        judged = asyncio.run(judge(pools, panel, options, flags.noise))
        before = [s for fit in zelo_graded.fit(judged, options) for s in fit.scores]
        given = [each for pool in judged for each in pool if isinstance(each, Grade)]
        tables = {"grades": table_of(given, Grade), "scores": table_of(before, AbsoluteScore)}
        learned = zelo_graded.learn(tables, options)
        scores = [s for fit in zelo_graded.fit(judged, options, learned) for s in fit.scores]
        row = [*figures(pools, scores), learned.model.sd if learned.model else np.nan]
        print(f"| {grades} |", " | ".join(f"{value:.3f}" for value in row), "|", flush=True)


if __name__ == "__main__":
    main()
