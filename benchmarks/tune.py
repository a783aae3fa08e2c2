"""What a choice among candidates is worth: recorded judges beside people, and equals by chance.

    python -m benchmarks.tune [--draws 1000]

It reads llmjudge2024 and trec_dl19: see tests/golden/SOURCES.md. First: recorded judges as
candidates. With 40 splits of the queries drawn by chance, each with five judges as what is as it
is: how optimistic the figures of the first half are, and what is gained on the second. Then equals:
candidates that are equally good, whose errors go together by query. How often the chosen one is
called significantly better, measured on the second half, and on the half on which it was chosen.
Last, a candidate that guesses where another says a tie: how often it is called better, by each
measure. Every figure is by the functions of the command. Two minutes of one core.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.data import Grades, published, read_grades
from zelo_ray.commands.compare.items import Item, People, pairs_of
from zelo_ray.evaluation.pairs import Gain, LabelledPairs, choose, measure_gain
from zelo_ray.evaluation.significance import ALPHA
from zelo_ray.evaluation.votes import A_BETTER, B_BETTER, TIE

Verdicts = dict[str, list[int]]
SPLITS = 40
AS_IT_IS = "as it is"
DEPTH = 20  # documents of a query
CANDIDATES, QUERIES, PAIRS = 8, 50, 15


def words_of(scores: Grades, items: Sequence[Item]) -> list[int]:
    """Return the verdicts that grades of documents give; -1 where one is missing."""
    rows = []
    for item in items:
        graded = scores.get(item.query_id, {})
        a, b = (graded.get(doc_id) for doc_id in (item.doc_id_a, item.doc_id_b))
        missing = a is None or b is None
        rows.append(-1 if missing else TIE if a == b else A_BETTER if a > b else B_BETTER)
    return rows


def recorded(folder: Path, qrels: str, judges: str, depth: int) -> tuple[list[Item], Verdicts]:
    """Return pairs of people's grades, of the first documents of a query, and judges' verdicts."""
    grades = read_grades(folder / qrels)
    human = {
        query_id: {doc: min(3.0, float(grade)) for doc, grade in sorted(row.items())[:depth]}
        for query_id, row in sorted(grades.items())
    }
    people = People({q: {(d,): g for d, g in row.items()} for q, row in human.items()})
    items = [item for query_id in human for item in people.items(query_id, list(human[query_id]))]
    files = sorted((folder / judges).glob("*.txt"))
    return items, {path.stem: words_of(read_grades(path), items) for path in files}


def take(
    items: Sequence[Item], verdicts: Verdicts, queries: set[str]
) -> tuple[LabelledPairs, Verdicts]:
    """Return what is about some queries."""
    kept = [n for n, item in enumerate(items) if item.query_id in queries]
    return pairs_of([items[n] for n in kept]), {
        name: [row[n] for n in kept] for name, row in verdicts.items()
    }


def tuned(
    one: tuple[LabelledPairs, Verdicts],
    two: tuple[LabelledPairs, Verdicts],
    as_it_is: str,
) -> tuple[Gain, Gain] | None:
    """Choose on the first half; return the gains on both; None if what is as it is was chosen."""
    names = [as_it_is, *(name for name in one[1] if name != as_it_is)]
    chosen = choose(one[0], {name: one[1][name] for name in names})
    if chosen == as_it_is:
        return None
    first, second = (measure_gain(*half, chosen, as_it_is, tested=True) for half in (one, two))
    return first, second


def halves(
    items: Sequence[Item], verdicts: Verdicts, first: set[str]
) -> tuple[tuple[LabelledPairs, Verdicts], tuple[LabelledPairs, Verdicts]]:
    """Return what is about some queries, and about the others."""
    others = {item.query_id for item in items} - first
    return take(items, verdicts, first), take(items, verdicts, others)


def by_chance_splits(title: str, items: list[Item], verdicts: Verdicts) -> None:
    """Print what choices by many splits of the queries come to."""
    names = np.array(sorted({item.query_id for item in items}))
    rng = np.random.default_rng(0)
    rows, kept = list[tuple[Gain, Gain]](), 0
    for _ in range(SPLITS):
        first = set(names[rng.permutation(len(names))[: len(names) // 2]].tolist())
        one, two = halves(items, verdicts, first)
        for as_it_is in rng.permutation([*verdicts])[:5].tolist():
            found = tuned(one, two, as_it_is)
            rows += [found] if found else []
            kept += found is None
    seen, held_out = (np.array([pair[n].difference for pair in rows]) for n in (0, 1))
    value = [np.mean([pair[n].value for pair in rows]) for n in (0, 1)]
    better = np.mean([pair[1].is_better for pair in rows])
    cells = (
        *(title, len(verdicts), len(names), f"{value[0]:.3f}", f"{value[1]:.3f}"),
        *(f"{seen.mean():+.3f}", f"{held_out.mean():+.3f}", f"{(seen - held_out).mean():+.3f}"),
        *(f"{better:.2f}", f"{kept} of {kept + len(rows)}"),
    )
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def is_worse(gain: Gain) -> bool:
    """Tell whether a way is significantly worse than the other."""
    return gain.difference < 0 and gain.p <= ALPHA


def made_up_items(queries: int) -> list[Item]:
    """Return pairs of which people prefer the first."""
    return [
        Item(f"q{q:03}", f"a{n}", f"b{n}", A_BETTER) for q in range(queries) for n in range(PAIRS)
    ]


def equals(draws: int, candidates: int) -> None:
    """Print how often the best of equal candidates is called better than what is as it is."""
    rng = np.random.default_rng(1)
    items = made_up_items(2 * QUERIES)
    first = {f"q{q:03}" for q in range(QUERIES)}
    names = [AS_IT_IS, *(f"candidate {n}" for n in range(1, candidates))]
    counts = {"second half": [0, 0, 0], "same half": [0, 0, 0]}
    optimism = []
    for _ in range(draws):
        hard = rng.normal(0.8, 0.8, 2 * QUERIES)  # of each query, shared by all candidates
        own = rng.normal(0, 0.4, (candidates, 2 * QUERIES))
        chance = 1 / (1 + np.exp(-(hard + own)))
        right = rng.random((candidates, 2 * QUERIES, PAIRS)) < chance[..., np.newaxis]
        verdicts = {
            name: np.where(row, A_BETTER, B_BETTER).ravel().tolist()
            for name, row in zip(names, right, strict=True)
        }
        one, two = halves(items, verdicts, first)
        chosen = choose(*one)
        for title, half in (("second half", two), ("same half", one)):
            if chosen == AS_IT_IS:
                continue
            gain = measure_gain(*half, chosen, AS_IT_IS, tested=True)
            counts[title][0] += gain.is_better
            counts[title][1] += is_worse(gain)
            counts[title][2] += 1
            if title == "same half":
                optimism.append(gain.difference)
    for title, (better, worse, tested) in counts.items():
        shares = (f"{number / max(tested, 1):.3f}" for number in (better, worse))
        cells = (candidates, title, f"{tested} of {draws}", *shares)
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    print(f"the gain seen where {candidates} equals were chosen from: {np.mean(optimism):+.3f}")


def guesses(draws: int) -> None:
    """Print how often a candidate that guesses is called better than one that says a tie."""
    rng = np.random.default_rng(2)
    items = made_up_items(QUERIES)
    found = {"concordance": [0, 0], "agreement": [0, 0]}
    for _ in range(draws):
        known = rng.random(len(items)) < 0.6
        ties = np.where(known, A_BETTER, TIE)
        guessed = np.where(known | (rng.random(len(items)) < 0.5), A_BETTER, B_BETTER)
        verdicts = {AS_IT_IS: ties.tolist(), "guesses": guessed.tolist()}
        for measure, counts in found.items():
            gain = measure_gain(
                *(pairs_of(items), verdicts, "guesses", AS_IT_IS),
                measure=measure,
                tested=True,
            )
            counts[0] += gain.is_better
            counts[1] += is_worse(gain)
    for measure, (better, worse) in found.items():
        print(f"| {measure} | {better / draws:.3f} | {worse / draws:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    found = {
        "LLMJudge 2024": recorded(
            published() / "llmjudge2024", "llmjudge_test_qrel_idx.txt", "submissions", DEPTH
        ),
        "TREC DL 2019": recorded(published() / "trec_dl19", "qrels.txt", "judges", DEPTH),
    }
    heads = ("judges", "queries", "first half", "second", "gain seen", "held out", "optimism")
    print(f"| data | {' | '.join(heads)} | better | kept as it is |")
    for title, (items, verdicts) in found.items():
        by_chance_splits(title, items, verdicts)
    print("| candidates | measured on the | tested | better | worse |")
    for candidates in (CANDIDATES, 2):
        equals(options.draws, candidates)
    print("| measure | guesses are better | worse |")
    guesses(min(options.draws, 300))


if __name__ == "__main__":
    main()
