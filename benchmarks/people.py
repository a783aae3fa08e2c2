"""Do intervals hold what people would say? Runs under panels, corrected by some of people's grades.

For each pair of runs the queries of the collection are the population: a trial draws as many of
them with replacement, lets people label some documents of these, and asks whether the 95% interval
holds the people's mean difference over all queries. The grades of the collection are the people;
the measure is the gain of the first ten on the panel's scale: nDCG@10 by people's grades, divided
by the ideal of the panel's. Printed by panel and number of labels:

* coverage and width of the panel alone, people alone, whole queries corrected, and corrected by
  documents that the tool draws: by Student's t, which the tool reports where there are labels, and
  by t over all queries; then what the same figures are as people's own nDCG@10, which they are not
  called: coverage of its difference, and the slope of the mean differences on the true ones;
* the labels needed until the standard error is 1.25 times that with all labels (median of pairs);
* A/A: false alarms (p < .05) where the two runs' lists are exchanged by chance, query by query, and
  where the panel then overrates all that one of them ranks higher; both again where documents are
  drawn for a third run as well, so that few labels tell of the two;
  looks: the same for someone who looks after 50, 100, 200 and 400 labels and stops when it is sure.

Run: python -m benchmarks.people [--pairs 120] [--trials 20]
It reads TREC DL 2019 (tests/golden/SOURCES.md).
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import Grades, published, read_grades
from zelo_ray.evaluation.measures import Ranking, Truth, parse_measure, rank_run
from zelo_ray.evaluation.people.corrected import (
    FEWEST,
    correct_metrics,
    metrics_by_panel,
    metrics_by_people,
)
from zelo_ray.evaluation.people.frame import Frame, build_frame
from zelo_ray.evaluation.people.sampling import (
    inclusion_probabilities,
    label_sizes,
    sample_threshold,
)
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import student_test
from zelo_ray.files.judgments import read_runs

LABELS = (50, 100, 200, 400)
NEEDED = (30, 60, 100, 150, 200, 250, 300, 400, 500, 600, 800)
FACTOR, LEVEL = 1.25, 0.05
PANELS = {
    "good": ("gpt-4_umbrela_graded", "gpt-4o_umbrela_graded", "llama3.3-70b_4prompts_graded"),
    "weak": ("llama3-8b_4prompts_graded",),
}
Drawn = tuple[Floats, Floats]
"""What labels are worth, NaN where there is none, and the chances of being labelled, [rows]."""


@dataclass(frozen=True)
class Contest:
    """Two runs under a panel, with what people would say of every document."""

    frame: Frame
    people: Floats
    size: Floats
    own: Floats
    """the people's difference in their own nDCG@10, by query"""

    @property
    def truth(self) -> Floats:
        """The people's difference by query."""
        return apart(self.frame.by_query(self.frame.weight * self.people))

    def resampled(self, rng: np.random.Generator, *, exchange: bool = False) -> "Contest":
        """Other queries like these; with ``exchange`` the two runs change places by chance."""
        queries = len(self.frame.query_ids)
        starts = np.searchsorted(self.frame.query, np.arange(queries + 1))
        chosen = rng.integers(0, queries, queries)
        rows = np.concatenate([np.arange(starts[q], starts[q + 1]) for q in chosen])
        query = np.repeat(np.arange(queries), np.diff(starts)[chosen])
        weight = self.frame.weight[:, rows]
        if exchange:
            turned = rng.integers(0, 2, queries)[query] == 1
            weight = np.where(turned, weight[::-1], weight)
        frame = replace(self.frame, query=query, weight=weight, panel=self.frame.panel[rows])
        return Contest(frame, self.people[rows], self.size[rows], self.own[chosen])

    def drawn(self, rng: np.random.Generator, labels: int) -> Drawn:
        """Documents as the tool draws them."""
        priority = self.size / (1 - rng.random(len(self.size)))
        return self._of(priority, sample_threshold(priority, labels))

    def drawn_on(self, rng: np.random.Generator) -> Iterator[Drawn]:
        """The same sample, made larger and larger."""
        priority = self.size / (1 - rng.random(len(self.size)))
        for labels in LABELS:
            yield self._of(priority, sample_threshold(priority, labels))

    def whole(self, rng: np.random.Generator, labels: int) -> Drawn:
        """Whole queries, as many as have so many documents that matter."""
        queries = len(self.frame.query_ids)
        matter = np.bincount(self.frame.query[self.size > 0], minlength=queries)
        order = rng.permutation(queries)
        fit = np.searchsorted(np.cumsum(matter[order]), labels, side="right")
        many = int(np.clip(fit, 5, queries))
        known = np.isin(self.frame.query, order[:many])
        return np.where(known, self.people, np.nan), np.full(len(known), many / queries)

    def _of(self, priority: Floats, threshold: float) -> Drawn:
        known = priority > threshold
        return np.where(known, self.people, np.nan), inclusion_probabilities(self.size, threshold)


def apart(values: Floats) -> Floats:
    return values[0] - values[1]


def by_documents(contest: Contest, drawn: Drawn) -> Floats:
    return correct_metrics(contest.frame, *drawn)


def by_people(contest: Contest, drawn: Drawn) -> Floats:
    return metrics_by_people(contest.frame, *drawn)


def by_queries(contest: Contest, drawn: Drawn) -> Floats:
    return correct_metrics(contest.frame, *drawn, whole_queries=True)


WAYS: dict[str, tuple[Callable[..., Drawn], Callable[[Contest, Drawn], Floats]]] = {
    "people alone": (Contest.drawn, by_people),
    "whole queries, corrected": (Contest.whole, by_queries),
    "drawn documents, corrected": (Contest.drawn, by_documents),
}


def coverage(contests: Sequence[Contest], trials: int, rng: np.random.Generator) -> None:
    """Print how often intervals hold the people's difference, and how wide they are."""
    held = defaultdict[tuple[str, int], list[tuple[float, ...]]](list)
    for contest in contests:
        keys, rows, queries = list[tuple[str, int]](), list[Floats](), list[int]()
        for _ in range(trials):
            sample = contest.resampled(rng)
            for key, drawn, estimate in estimates(sample, rng):
                keys.append(key)
                rows.append(apart(estimate(sample, drawn)))
                queries.append(len(np.unique(sample.frame.query[~np.isnan(drawn[0])])))
        found, wanted, own = np.stack(rows), contest.truth.mean(), contest.own.mean()
        plain, labelled = (student_test(found, 0.95, n) for n in (None, np.array(queries)))
        lower = np.where(np.isnan(labelled.low), plain.low, labelled.low)
        upper = np.where(np.isnan(labelled.low), plain.high, labelled.high)
        within = (plain.low <= wanted) & (wanted <= plain.high)
        holds, holds_own = ((lower <= true) & (true <= upper) for true in (wanted, own))
        products = found.mean(axis=1) * own, np.full(len(found), own**2)
        figures = (holds, upper - lower, within, holds_own, *products)
        for key, *one in zip(keys, *figures, strict=True):
            held[key].append(tuple(map(float, one)))
    for (way, n), each in held.items():
        *figures, product, square = np.array(each).mean(axis=0)
        figures.append(product / square)
        print(f"  {way:27} {n or '':>5}", *(f" {figure:.3f}" for figure in figures))


def estimates(
    sample: Contest, rng: np.random.Generator
) -> Iterator[tuple[tuple[str, int], Drawn, Callable[[Contest, Drawn], Floats]]]:
    """Every way to come to a difference, with the labels that it is given."""
    nothing = np.full(len(sample.people), np.nan), np.ones(len(sample.people))
    yield ("the panel alone", 0), nothing, lambda contest, _: metrics_by_panel(contest.frame)
    for way, (draw, estimate) in WAYS.items():
        for n in LABELS:
            yield (way, n), draw(sample, rng, n), estimate
    yield ("all labels", 0), (sample.people, np.ones(len(sample.people))), by_documents


def needed(contests: Sequence[Contest], draws: int, rng: np.random.Generator) -> None:
    """Print how many labels bring the error near that of all labels, median over pairs.

    The error is that of the draws, as they scatter, and of the queries, which people tell.
    """
    found = defaultdict[str, list[float]](list)
    for contest in contests:
        whole = contest.truth.var(ddof=1) / len(contest.truth)
        for way, (draw, estimate) in WAYS.items():
            errors = []
            for n in NEEDED:
                each = (estimate(contest, draw(contest, rng, n)) for _ in range(draws))
                errors.append(np.var([apart(values).mean() for values in each], ddof=1))
            found[way].append(first_below(np.sqrt((np.array(errors) + whole) / whole)))
    medians = {way: np.nanmedian(each) for way, each in found.items()}
    base = medians["whole queries, corrected"]
    for way, median in medians.items():
        never = np.isnan(found[way]).sum()
        share = f"{median / base:.2f} of whole queries"
        print(f"  {way:27} {median:5.0f} labels, {share} ({never} of {len(contests)} never)")


def first_below(ratios: Floats) -> float:
    """Labels at which the ratio passes FACTOR, between the numbers that were tried."""
    steps = zip(pairwise(NEEDED), pairwise(ratios), strict=True)
    if ratios[0] <= FACTOR:
        return float(NEEDED[0])
    for (low, high), (before, after) in steps:
        if after <= FACTOR:
            return low + (before - FACTOR) / (before - after) * (high - low)
    return float(np.nan)


def alarms(
    contests: Sequence[Contest], trials: int, rng: np.random.Generator, favour: float
) -> None:
    """Print how often two runs that are alike to people are told apart.

    Args:
        contests: pairs of runs.
        trials: for each of them.
        rng: all chance follows from it.
        favour: by how many grades the panel overrates what one of the two ranks higher.
    """
    found = list[list[float]]()
    for contest in contests:
        for _ in range(3 * trials):
            sample = contest.resampled(rng, exchange=True)
            better = np.sign(apart(sample.frame.weight))
            panel = np.clip(sample.frame.panel + favour * better, 0, 3)
            sample = replace(sample, frame=replace(sample.frame, panel=panel))
            found.append([p_of(sample, drawn) for drawn in sample.drawn_on(rng)])
    p = np.array(found)
    for n, each in zip(LABELS, p.T, strict=True):
        print(f"  {f'{n} labels':27} {(each < LEVEL).mean():.3f} of {len(each):,}")
    print(f"  {'looks after each of these':27} {(p < LEVEL).any(axis=1).mean():.3f}")


def p_of(sample: Contest, drawn: Drawn) -> float:
    rows = ~np.isnan(drawn[0]) & (apart(sample.frame.weight) != 0)
    queries = len(np.unique(sample.frame.query[rows])) if rows.sum() >= FEWEST else 0
    difference = apart(by_documents(sample, drawn))[np.newaxis]
    return float(student_test(difference, 0.95, np.array([queries])).p[0])


def contests_of(
    folder: Path, judges: Sequence[str], pairs: int, seed: int
) -> tuple[list[Contest], list[Contest]]:
    """Pairs of a collection's runs, drawn by chance, under the mean grade of some judges.

    The same twice: documents are drawn for the two, and for a third one as well.
    """
    people = read_grades(folder / "qrels.txt")
    panel = [read_grades(folder / "judges" / f"{judge}.txt") for judge in judges]
    rows = [
        (
            query_id,
            doc_id,
            float(np.mean([each[query_id][doc_id] for each in panel if doc_id in each[query_id]])),
        )
        for query_id in sorted(people)
        for doc_id in sorted({doc_id for each in panel for doc_id in each[query_id]})
    ]
    columns = dict(zip(("query_id", "doc_id", "relevance"), zip(*rows, strict=True), strict=True))
    truth = Truth(pa.table({name: list(column) for name, column in columns.items()}))
    paths = sorted((folder / "runs_top10").glob("*.run"))
    ranked = {
        name: rank_run(truth, run)
        for name, run in read_runs(f"{path.stem}={path}" for path in paths).items()
    }
    both = [*combinations(ranked, 2)]
    rng = np.random.default_rng(seed)
    chosen = [both[i] for i in rng.permutation(len(both))[:pairs]]
    third = [rng.choice([name for name in ranked if name not in pair]) for pair in chosen]
    alone = [contest_of([ranked[name] for name in pair], people) for pair in chosen]
    beside = [
        contest_of([ranked[name] for name in (*pair, other)], people)
        for pair, other in zip(chosen, third, strict=True)
    ]
    return alone, beside


def contest_of(rankings: Sequence[Ranking], people: Grades) -> Contest:
    """A contest of the first two, whose documents are drawn for all of them."""
    frame = build_frame(parse_measure("nDCG@10"), {str(n): one for n, one in enumerate(rankings)})
    said = np.array([people[query_id].get(doc_id, 0.0) for query_id, doc_id in frame.ids])
    size = label_sizes(frame)
    two = replace(frame, weight=frame.weight[:2], answered=frame.answered[:2])
    ideal = people_ideal(people, frame.query_ids)
    own = two.divided_by(ideal)
    return Contest(two, said, size, apart(own.by_query(own.weight * said)))


def people_ideal(people: Grades, query_ids: Sequence[str]) -> Floats:
    """The ideal DCG@10 of all that people graded, [queries]."""
    best = (sorted(people[query_id].values(), reverse=True)[:10] for query_id in query_ids)
    return np.array([sum(g / np.log2(n + 2) for n, g in enumerate(one)) for one in best])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=120)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = published() / "trec_dl19"
    for name, judges in PANELS.items():
        rng = partial(np.random.default_rng, given.seed)
        contests, beside = contests_of(folder, judges, given.pairs, given.seed)
        print(f"{name} judges ({', '.join(judges)}): {len(contests)} pairs of runs")
        print("  whose word                 labels  holds  width (of t) (own: holds, slope)")
        coverage(contests, given.trials, rng())
        print(f"labels until the error is {FACTOR} times that with all of them")
        needed(contests, 2 * given.trials, rng())
        for each, where in ((contests, ""), (beside, ", where a third is labelled for")):
            print(f"A/A: two runs that are alike, told apart at p < .05{where}")
            alarms(each, given.trials, rng(), 0.0)
            print("the same under a panel that overrates one of them by a grade")
            alarms(each, given.trials, rng(), 1.0)


if __name__ == "__main__":
    main()
