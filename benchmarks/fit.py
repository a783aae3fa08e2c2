"""How fast the fit is beside its peers, and whether it orders documents better than counting wins.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.fit FOLDER

Without FOLDER only the speeds are told, of the fit and of all that is between votes and scores.

One BLAS thread is what Ray gives a task; on a busy machine more threads wait for each other.
FOLDER holds the recorded GPT-4o battles on TREC DL 2019, of Narabzad's
llm-relevance-judgement-comparison. Needs choix, evalica and ir-measures.
"""

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import process_time

import choix
import evalica
import ir_measures
import numpy as np
from ir_measures import nDCG

from tests.games import bradley_terry
from zelo_ray.fitting.bradley_terry import CHUNK_CELLS, score_votes
from zelo_ray.fitting.pairs import ring_pairs
from zelo_ray.records import Vote

CYCLES, TRUE_SD, PANEL_SD, PRIOR_SD, ROUNDS = 4, 2.0, 1.2, 2.5, 3
QUERIES = {10: 1000, 25: 400, 100: 60}

Run = dict[str, dict[str, float]]


def play(documents: int, query: int) -> list[tuple[int, int]]:
    """Winner and loser of one Bradley-Terry game for each sampled pair."""
    rng = Random(f"{documents}:{query}")
    truth = np.array([rng.gauss(0, TRUE_SD) for _ in range(documents)])
    return [
        (i, j) if rng.random() < 1 / (1 + np.exp(truth[j] - truth[i])) else (j, i)
        for a, b, *_ in ring_pairs(0, f"{rng.random()}", map(str, range(documents)), CYCLES)
        for i, j in [(int(a), int(b))]
    ]


def contestants(documents: int) -> dict[str, Callable[[], object]]:
    """Each fits all queries once. The shape that a peer wants is prepared beforehand."""
    queries = [play(documents, query) for query in range(QUERIES[documents])]
    votes = [
        [Vote("q", f"{i:03}", f"{j:03}", "judge", -1.0, False, "", "") for i, j in games]
        for games in queries
    ]
    wins = np.zeros((len(queries), documents, documents))
    for query, games in enumerate(queries):
        wins[(query, *zip(*games, strict=True))] = 1
    chunk = max(1, CHUNK_CELLS // documents**2)
    columns = [(*zip(*games, strict=True), [evalica.Winner.X] * len(games)) for games in queries]
    alpha = 0.5 / PRIOR_SD**2
    return {
        "bradley_terry (scores, errors)": lambda: [
            bradley_terry(wins[i : i + chunk], PRIOR_SD) for i in range(0, len(wins), chunk)
        ],
        "score_votes (from Vote objects)": lambda: score_votes(votes, PRIOR_SD),
        "choix.opt_pairwise, same objective": lambda: [
            choix.opt_pairwise(documents, games, alpha=alpha) for games in queries
        ],
        "choix.ilsr_pairwise_dense, a=.01": lambda: [
            choix.ilsr_pairwise_dense(query, alpha=0.01, max_iter=10_000) for query in wins
        ],
        "evalica.bradley_terry, no prior": lambda: [
            evalica.bradley_terry(xs, ys, winners) for xs, ys, winners in columns
        ],
    }


def panel_votes(documents: int, query: int) -> list[Vote]:
    """Three judges' votes on each sampled pair; what they see of a pair they see alike in part.

    Of all pairs a judge gets about .72 right, and two judges agree on as many.
    """
    rng = np.random.default_rng([documents, query])
    truth = rng.normal(0, PANEL_SD, documents)
    votes = []
    for a, b, *_ in ring_pairs(0, f"{query}", map(str, range(documents)), CYCLES):
        i, j = int(a), int(b)
        seen = truth[i] - truth[j] + rng.normal(0, 0.7)
        for judge in range(3):
            preference = -np.tanh((seen + rng.normal(0, 0.8)) / 2)
            named = (f"q{query:05}", f"d{i:03}", f"d{j:03}", f"vendor:judge-{judge}")
            votes.append(Vote(*named, float(preference), False, "", ""))
    return votes


def zbench_fit(wins: np.ndarray) -> np.ndarray:
    """The iteration that zbench fits a query by (Newman 2023, JMLR 24:238), and where it stops.

    Its loss is that of all cells, as it computes it; all else is done as cheaply as numpy can.
    """
    scores, last = np.zeros(len(wins)), np.inf
    for step in range(1000):
        strength = np.exp(scores)
        share = 1 / (strength[:, np.newaxis] + strength)
        met = wins * share
        ratio = (met @ strength) / (strength * met.sum(axis=0))
        loss = -(wins * np.log(strength[:, np.newaxis] * share)).sum()
        scores = scores + (1 + step) ** -0.125 * np.log(ratio)
        scores -= scores.mean()
        if step >= 3 and abs(last - loss) < 1e-4:
            break
        last = loss
    return scores


def zbench_wins(votes: list[Vote]) -> np.ndarray:
    """The matrix that it fits: half a win of each document against itself keeps it from haste."""
    place = {name: i for i, name in enumerate(sorted({d for v in votes for d in _pair(v)}))}
    wins = 0.5 * np.eye(len(place))
    for vote in votes:
        a, b = place[vote.doc_id_a], place[vote.doc_id_b]
        wins[(b, a) if vote.preference > 0 else (a, b)] += 1 / 3
    return wins


def _pair(vote: Vote) -> tuple[str, str]:
    return vote.doc_id_a, vote.doc_id_b


def paths(documents: int) -> dict[str, Callable[[], object]]:
    """From votes to scores: each does all queries once."""
    votes = [panel_votes(documents, query) for query in range(QUERIES[documents])]
    wins = [zbench_wins(own) for own in votes]
    return {
        "zbench's iteration, from matrices": lambda: [zbench_fit(own) for own in wins],
        "score_votes, from Vote objects": lambda: score_votes(votes, PRIOR_SD),
    }


def race(fitters: dict[str, Callable[[], object]], queries: int) -> dict[str, float]:
    """Queries a second, the best of rounds in which the contestants take turns."""
    best = dict.fromkeys(fitters, np.inf)
    for _ in range(ROUNDS):
        for name, fitter in fitters.items():
            start = process_time()
            fitter()
            best[name] = min(best[name], process_time() - start)
    return {name: queries / seconds for name, seconds in best.items()}


def print_speed() -> None:
    print(
        f"Queries a second, {CYCLES} cycles, one game a pair; best of {ROUNDS} interleaved rounds"
    )
    print("(x: bradley_terry is that many times as fast)\n")
    speeds = {n: race(contestants(n), queries) for n, queries in QUERIES.items()}
    print_rows(
        {n: {name: (s, first(of) / s) for name, s in of.items()} for n, of in speeds.items()}
    )
    print(
        "\nchoix.opt_pairwise solves the same problem. The others do not: ilsr adds .01 to the"
        "\nrates of its chain; evalica has no prior and stops after 100 steps, and most of these"
        "\nqueries have no finite maximum likelihood. None of the peers gives errors.\n"
    )


def print_paths() -> None:
    print(f"Queries a second from votes to scores, {CYCLES} cycles, three judges on every pair")
    print("(x: as many times as fast as zbench's iteration alone, whose matrices are given)\n")
    speeds = {n: race(paths(n), queries) for n, queries in QUERIES.items()}
    print_rows(
        {n: {name: (s, s / first(of)) for name, s in of.items()} for n, of in speeds.items()}
    )
    print()


def first(speeds: dict[str, float]) -> float:
    return next(iter(speeds.values()))


def print_rows(cells: dict[int, dict[str, tuple[float, float]]]) -> None:
    """One row a contestant: its speed and a ratio for each number of documents."""
    print(f"{'':36}" + "".join(f"{f'K={documents}':>19}" for documents in cells))
    for name in next(iter(cells.values())):
        row = "".join(f"{of[name][0]:11,.0f} {of[name][1]:6,.1f}x" for of in cells.values())
        print(f"{name:36}{row}")


def read_battles(folder: Path, rounds: range) -> list[list[Vote]]:
    """One vote for each recorded battle, by query.

    Each battle was judged in both orders. One that changed with the order is a tie here; the record
    gives it to the shorter passage. The first three rounds do not tell which these were; in the
    later ones they are a third.
    """
    votes = defaultdict(list)
    with (folder / "pairwise_gpt4o.tsv").open() as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            if int(row["round"]) in rounds:
                preference = 0.0 if row["order_consistency"] == "inconsistent_tie" else -1.0
                battle = (row["qid"], row["winner"], row["loser"], "gpt-4o", preference)
                votes[row["qid"]].append(Vote(*battle, swapped=False, reasoning="", key=""))
    return list(votes.values())


def read_column(path: Path) -> Run:
    """The last column of a qrels file, by query and document."""
    values: Run = defaultdict(dict)
    for line in path.read_text().splitlines():
        query_id, _, doc_id, value = line.split()
        values[query_id][doc_id] = float(value)
    return values


def bradley_terry_run(query_votes: list[list[Vote]]) -> Run:
    fits = score_votes(query_votes, PRIOR_SD)
    for votes, fit in zip(query_votes, fits, strict=True):
        if fit.reason:
            print(f"query {votes[0].query_id} has no scores: {fit.reason}")
    return {
        fit.scores[0].query_id: {score.doc_id: score.score for score in fit.scores}
        for fit in fits
        if fit.scores
    }


def win_rate_run(query_votes: list[list[Vote]]) -> Run:
    """Wins per battle, a tie being half a win."""
    run = {}
    for votes in query_votes:
        won: Counter[str] = Counter()
        fought: Counter[str] = Counter()
        for vote in votes:
            fought.update([vote.doc_id_a, vote.doc_id_b])
            won[vote.doc_id_a] += (1 - vote.preference) / 2
            won[vote.doc_id_b] += (1 + vote.preference) / 2
        run[votes[0].query_id] = {doc_id: won[doc_id] / n for doc_id, n in fought.items()}
    return run


def print_orders(folder: Path) -> None:
    battles, first = read_battles(folder, range(99)), read_battles(folder, range(1))
    rates = win_rate_run(battles)
    counts = read_column(folder / "pairwise_gpt4o_wincounts.qrels")
    rng = Random(0)
    runs = {
        "all rounds: Bradley-Terry": bradley_terry_run(battles),
        "all rounds: wins, as recorded": {
            query_id: {doc_id: counts[query_id].get(doc_id, 0.0) for doc_id in fought}
            for query_id, fought in rates.items()
        },
        "all rounds: wins per battle": rates,
        "first round: Bradley-Terry": bradley_terry_run(first),
        "first round: wins per battle": win_rate_run(first),
        "any order": {q: {doc: rng.random() for doc in sorted(rates[q])} for q in rates},
    }
    qrels = {
        query_id: {doc_id: int(grade) for doc_id, grade in grades.items()}
        for query_id, grades in read_column(folder / "qrels.txt").items()
    }
    metrics = {
        name: {m.query_id: m.value for m in ir_measures.iter_calc([nDCG @ 10], qrels, run)}
        for name, run in runs.items()
    }
    baseline = metrics["all rounds: Bradley-Terry"]
    documents = sum(len(fought) for fought in rates.values())
    print(f"nDCG@10 (linear gain) against human grades, {sum(map(len, battles)):,} GPT-4o battles,")
    print(f"{len(baseline)} queries; change against the first row with its standard error\n")
    for name, values in metrics.items():
        change = np.array([values[query_id] - baseline[query_id] for query_id in baseline])
        error = change.std(ddof=1) / len(change) ** 0.5
        print(f"{name:36}{np.mean(list(values.values())):7.4f}{change.mean():+9.4f} ± {error:.4f}")
    print(
        f"\nOnly the {documents:,} documents that humans found relevant (grades 1 to 3) fought, so"
        "\nonly they are ordered: this tells how well the best are told from the good, and is not"
        "\nto be compared with the nDCG of a whole run. Equal scores are broken by document id, as"
        "\ntrec_eval does. Later rounds hold only the better documents, so wins reward survival."
    )


if __name__ == "__main__":
    print_paths()
    print_speed()
    for given in sys.argv[1:]:
        print_orders(Path(given))
