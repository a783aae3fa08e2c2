"""What cheap votes are worth: quality against tokens and dollars, of votes of one token and orders.

    python -m benchmarks.cheap_votes [--queries 100]

Everything is simulated: judges err as the "mid" ones of
`benchmarks.simulated` do. No log-probabilities of judges are on record. So how much more a vote
of one token errs than a reasoned one is an assumption, and so is how much more a document errs
among eight than among two. Each way therefore has three rows: with the errors of reasoned votes,
with `MORE` of them, and with `MOST`. What is in between is for a pilot of your own to say.

Intervals are 95%, over queries. Two minutes of one core.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks import figures
from benchmarks.figures import mean_interval
from benchmarks.simulated import (
    REGIMES,
    RETEST,
    Regime,
    World,
    cycle_asks,
    draw_world,
    names_of,
    zelo_scores,
)
from benchmarks.worth import zelo_by_calls
from zelo_ray.engine.tokens import measure_request
from zelo_ray.fitting.battles import Floats
from zelo_ray.fitting.orders import score_orders
from zelo_ray.fitting.pairs import draw_groups
from zelo_ray.protocols import load_protocol
from zelo_ray.protocols.texts import BYTES_PER_TOKEN
from zelo_ray.providers import build_panel
from zelo_ray.records import Document, Pool, Vote

DOCUMENTS = 25
WORDS = 150
"""Tokens of a document: a passage."""
OUTPUT = {"reasoned vote": 150, "vote of one token": 1, "grade": 150}
"""Tokens of an answer; that of an order is 3 a document, and 6."""
PRICES = (0.10, 0.50)
"""Dollars for a million tokens of input and of output."""


@dataclass(frozen=True, slots=True)
class Loss:
    """How much more a cheap answer errs than a reasoned vote."""

    name: str
    noise: float
    """times the errors of a pair that are a judge's own"""
    position: float
    """what the first place is worth, in logits, for each judge; 0: as for reasoned votes"""

    def regime(self, of: Regime) -> Regime:
        """How a judge errs that answers cheaply."""
        own = tuple(self.noise * sd for sd in of.own_pair)
        place = (self.position,) * 3 if self.position else of.position
        return replace(of, own_pair=own, position=place)


SAME, MORE, MOST = Loss("same errors", 1, 0), Loss("1.5x", 1.5, 1.0), Loss("2x", 2, 2.0)
LOSSES = (SAME, MORE, MOST)


@dataclass(frozen=True, slots=True)
class Way:
    """What one way of judging came to."""

    name: str
    loss: str
    calls: float
    """for a document"""
    tokens: tuple[float, float]
    """of input and of output, for a document"""
    scores: Floats

    @property
    def dollars(self) -> float:
        """For a thousand documents."""
        return sum(n * price for n, price in zip(self.tokens, PRICES, strict=True)) / 1000


# What calls cost


def prompt_tokens(protocol: str, documents: int, **fields: object) -> float:
    """Tokens of a request's prompt, by the bytes of the real one."""
    text = "word " * (WORDS * BYTES_PER_TOKEN // 5)
    pool = Pool(
        "q",
        "a query of eight words, as people type",
        tuple(Document(f"d{place}", text) for place in range(documents)),
    )
    panel = build_panel(("openai:m@http://localhost/v1",), {}, {})
    way = load_protocol(protocol)
    values = {"inputs": ("in",), "out": "out", "protocol": protocol, **fields}
    request: Any = next(way.rounds(pool, panel, way.options.model_validate(values)))[0]
    assert len(request.documents) == documents or protocol == "graded"
    return measure_request(request) / BYTES_PER_TOKEN


def cost(kinds: dict[str, float], size: int = 8) -> tuple[float, float]:
    """Tokens of input and of output of so many calls of each kind."""
    prompts: dict[str, Callable[[], float]] = {
        "reasoned vote": lambda: prompt_tokens("zelo", 2),
        "vote of one token": lambda: prompt_tokens("zelo", 2, answer="token"),
        "grade": lambda: prompt_tokens("graded", 1),
        "order": lambda: prompt_tokens("listwise-votes", size, group=size),
    }
    answers = {**OUTPUT, "order": 3 * size + 6}
    return (
        sum(number * prompts[kind]() for kind, number in kinds.items()),
        sum(number * answers[kind] for kind, number in kinds.items()),
    )


# Ways

CALLS_4 = zelo_by_calls(4)
"""Three grades and a ring of battles."""


def battles(world: World, cycles: int, *, by_size: bool) -> tuple[float, Floats]:
    """As ``zelo`` asks and fits; by the sizes of preferences as with votes of one token."""
    queries, judges, documents = world.grades.shape
    asks = cycle_asks(queries, documents, cycles, judges, seed=0)
    return len(asks) / queries / documents, zelo_scores(world.answer(asks), by_size=by_size)


def orders(
    felt: Callable[[int, int, Sequence[int], np.random.Generator], Floats],
    shape: tuple[int, ...],
    size: int,
    looks: int,
) -> tuple[float, Floats]:
    """As ``listwise-votes`` asks and fits; ``felt`` says how good a judge finds documents shown."""
    queries, judges, documents = shape
    names, rng, calls = names_of(documents), np.random.default_rng(5), 0
    votes: list[list[Vote]] = []
    for query in range(queries):
        rows: list[Vote] = []
        for groups in draw_groups(0, str(query), names, size, looks):
            for group, judge in ((g, j) for g in groups for j in range(judges)):
                shown = rng.permutation([int(name) for name in group]).tolist()
                best = np.argsort(-felt(query, judge, shown, rng))
                rank = {names[shown[at]]: place for place, at in enumerate(best)}
                calls += 1
                rows += [
                    Vote(
                        *(str(query), a, b, f"judge-{judge}", -1.0 if rank[a] < rank[b] else 1.0),
                        *(False, "", f"{query}-{calls}"),
                    )
                    for a, b in combinations(group, 2)
                ]
        votes.append(rows)
    scores = np.zeros((queries, documents))
    for query, fit in enumerate(score_orders(votes)):
        for score in fit.scores:
            scores[query, int(score.doc_id)] = score.score
    return calls / queries / documents, scores


def feelings(world: World, regime: Regime, seed: int) -> Callable[..., Floats]:
    """How documents that are shown together are felt, with the errors of pairs spread over both.

    What belongs to the pair in a battle is the document's among those of its group: sd / sqrt(2)
    each. What all judges feel of a pair, all feel of the document in that group.
    """
    queries, judges, documents = world.grades.shape
    rng = np.random.default_rng(seed)
    bias = world.alike[:, np.newaxis] + regime.own_document * rng.standard_normal(
        (queries, judges, documents)
    )
    own = np.resize(np.array(regime.own_pair), judges)
    place = np.resize(np.array(regime.position), judges)

    def felt(query: int, judge: int, shown: Sequence[int], rng: np.random.Generator) -> Floats:
        common = np.random.default_rng([seed, query, *sorted(shown)]).standard_normal(documents)
        sd = np.hypot(own[judge], RETEST) / np.sqrt(2)
        alike = regime.shared_pair / np.sqrt(2) * common[shown]
        first = place[judge] * (1 - np.arange(len(shown)) / max(1, len(shown) - 1))
        seen = world.truth[query, shown] + bias[query, judge, shown]
        values: Floats = seen + first + alike + sd * rng.standard_normal(len(shown))
        return values

    return felt


def simulated_ways(queries: int, seed: int) -> Iterator[tuple[Way, World]]:
    """All ways on one truth; the cheap ones with each loss."""
    mid = REGIMES["mid"]

    def world_with(loss: Loss) -> World:
        return draw_world(loss.regime(mid), queries, DOCUMENTS, np.random.default_rng(seed))

    usual = world_with(SAME)
    for cycles in (4, 1):
        calls, scores = battles(usual, cycles, by_size=False)
        yield (
            Way(f"zelo, {cycles} cycles", "", calls, cost({"reasoned vote": calls}), scores),
            usual,
        )
    calls, scores, _ = CALLS_4(usual)
    used = cost({"grade": 3.0, "reasoned vote": 1.0})
    yield Way("zelo, 4 calls a document", "", calls, used, scores), usual
    graded = usual.grades.mean(axis=1)
    yield Way("graded, 3 judges", "", 3, cost({"grade": 3.0}), graded), usual
    for loss in LOSSES:
        world = world_with(loss)
        for cycles in (4, 2):
            calls, scores = battles(world, cycles, by_size=True)
            used = cost({"vote of one token": calls})
            yield Way(f"zelo, {cycles} cycles, token", loss.name, calls, used, scores), world
        calls, scores, _ = CALLS_4(world)
        used = cost({"grade": 3.0, "vote of one token": 1.0})
        yield Way("zelo, 4 calls a document, token", loss.name, calls, used, scores), world
        for size, looks in ((8, 3), (8, 6), (5, 3)):
            felt = feelings(world, loss.regime(mid), seed)
            calls, scores = orders(felt, world.grades.shape, size, looks)
            name = f"listwise-votes, {looks} looks at {size}"
            yield Way(name, loss.name, calls, cost({"order": calls}, size), scores), world


def show_simulated(queries: int, seed: int) -> None:
    """Print quality and cost of each way."""
    print(f"Simulated: {queries} queries of {DOCUMENTS} documents, three mid judges\n")
    print("| way | errors | calls | tokens in | out | $ for 1,000 documents | nDCG@10 | tau |")
    print("|---|---|---:|---:|---:|---:|---|---|")
    for way, world in simulated_ways(queries, seed):
        good = figures.ndcg(way.scores, np.exp(world.truth))
        cells = [way.name, way.loss or "reasoned", f"{way.calls:.1f}"]
        cells += [f"{way.tokens[0]:,.0f}", f"{way.tokens[1]:,.0f}", f"{way.dollars:.2f}"]
        cells += [mean_interval(good), mean_interval(figures.tau(way.scores, world.truth))]
        print("|", " | ".join(cells), "|", flush=True)


# What a size is worth


def show_sizes(queries: int, seed: int) -> None:
    """Print what shares of wins are worth against signs, by how sure of themselves judges are."""
    print(
        "\nVotes of one token as shares of a win, and as whole wins by their sign (nDCG@10 / tau)\n"
    )
    print("| judges | logits | whole wins | shares | difference of nDCG@10 |")
    print("|---|---:|---|---|---|")
    for name in ("mid", "hard", "sign"):
        regime = REGIMES[name]
        world = draw_world(regime, queries, DOCUMENTS, np.random.default_rng(seed))
        asks = cycle_asks(queries, DOCUMENTS, 4, 3, seed=0)
        votes = world.answer(asks)
        logits = np.arctanh(np.clip(votes.preference, -0.9999, 0.9999))
        for gain in (0.5, 1, 4, 8) if regime.sizes else (1,):
            sized = replace(votes, preference=np.tanh(gain * logits))
            ways = [zelo_scores(sized, by_size=by_size) for by_size in (False, True)]
            good = [figures.ndcg(scores, np.exp(world.truth)) for scores in ways]
            cells = [
                f"{one.mean():.3f} / {figures.tau(scores, world.truth).mean():.3f}"
                for one, scores in zip(good, ways, strict=True)
            ]
            named = f"{name}, sizes by chance" if not regime.sizes else name
            print("|", named, f"| {gain:g}x |", " | ".join(cells), end=" | ")
            print(figures.difference(good[1], good[0]), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    show_simulated(given.queries, given.seed)
    show_sizes(given.queries, given.seed)


if __name__ == "__main__":
    main()
