"""The error of scores about people: by default, and learned from people's grades."""

import csv
from collections import defaultdict
from random import Random

import numpy as np
import pytest
from scipy.special import ndtr

from tests.helpers.builders import options_of
from zelo_ray.fitting.scores import score_votes
from zelo_ray.fitting.truth_error import (
    GRADE_SD,
    SHARE,
    learn_share,
    truth_errors,
)
from zelo_ray.protocols import Evidence, graded
from zelo_ray.records import Grade, Vote


def read_grades(path):
    grades = {}
    for line in path.read_text().splitlines():
        query_id, _, doc_id, grade = line.split()
        grades[query_id, doc_id] = int(grade)
    return grades


def read_battles(path):
    """A vote of GPT-4o for each battle, by query: in both orders, a tie where they differ."""
    queries = defaultdict(list)
    with path.open() as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            said = 0.0 if row["order_consistency"] == "inconsistent_tie" else -1.0
            named = (row["qid"], row["winner"], row["loser"], "gpt-4o")
            queries[row["qid"]].append(Vote(*named, said, False, "", ""))
    return queries


def drawn(votes, calls):
    """So many battles a document, first those that link all of them."""
    group = {doc_id: {doc_id} for vote in votes for doc_id in (vote.doc_id_a, vote.doc_id_b)}
    linking, others = [], []
    for vote in Random(votes[0].query_id).sample(votes, len(votes)):
        a, b = group[vote.doc_id_a], group[vote.doc_id_b]
        (others if a is b else linking).append(vote)
        if a is not b:
            a |= b
            group.update(dict.fromkeys(b, a))
    more = round(calls * len(group)) - len(linking)
    return linking + others[: max(0, more)]


def columns_of(fits, human):
    """Numbers of queries, scores, standard errors and human grades of all documents."""
    rows = [
        (number, one.score, one.std_error, human[one.query_id, one.doc_id])
        for number, fit in enumerate(fits)
        for one in fit.scores
    ]
    query, *numbers = (np.array(column) for column in zip(*rows, strict=True))
    return query, *numbers


def calibration_error(query, scores, errors, human):
    """Expected calibration error, in ten bins, of who is above whom by human grades."""
    sure, right = [], []
    for number in np.unique(query):
        own = np.flatnonzero(query == number)
        i, j = (own[side] for side in np.nonzero(human[own][:, np.newaxis] > human[own]))
        p = ndtr((scores[i] - scores[j]) / np.hypot(errors[i], errors[j]))
        sure.append(np.maximum(p, 1 - p))
        right.append(p > 0.5)
    sure, right = np.concatenate(sure), np.concatenate(right)
    place = np.minimum((sure - 0.5) * 20, 9).astype(int)
    return np.abs(np.bincount(place, sure) - np.bincount(place, right)).sum() / len(sure)


@pytest.mark.parametrize(
    ("calls", "alone", "usual", "learned"),
    [(2, 0.053, 0.005, 0.014), (3.5, 0.090, 0.008, 0.020)],
)
def test_probabilities_of_an_order_are_those_of_people(published, calls, alone, usual, learned):
    """Battles of DL19 by GPT-4o against NIST's grades; a share learned on the other queries."""
    human = read_grades(published / "trec_dl19" / "qrels.txt")
    battles = read_battles(published / "trec_dl19" / "pairwise_gpt4o.tsv")
    columns = columns_of(score_votes([drawn(v, calls) for v in battles.values()]), human)
    query, scores, errors, grades = columns
    shares = np.empty(len(query))
    for half in range(2):
        own = query % 2 == half
        shares[own] = learn_share(*(column[~own] for column in columns)).found
    expected = {"alone": (alone, 0.0), "usual": (usual, SHARE), "learned": (learned, shares)}
    for name, (error, share) in expected.items():
        beyond = truth_errors(query, scores, errors, share)
        found = calibration_error(query, scores, beyond, grades)
        assert found == pytest.approx(error, abs=0.004), name
    assert max(learned, usual) <= 0.05


def test_intervals_of_grades_hold_the_persons_grade(published):
    """Three judges of DL19: by their own error alone in less than two of three documents."""
    folder = published / "trec_dl19"
    human = read_grades(folder / "qrels.txt")
    judges = ("gpt-4_umbrela", "gpt-4o_umbrela", "llama3.3-70b_4prompts")
    by_query = defaultdict(list)
    for judge in judges:
        for (query_id, doc_id), grade in read_grades(folder / f"judges/{judge}_graded.txt").items():
            by_query[query_id].append(Grade(query_id, doc_id, judge, grade, (), (), "", ""))

    def scored(pooling):
        options = options_of(protocol="graded", pooling=pooling)
        pools = list(by_query.values())
        learned = graded.learn(pools, Evidence(judges), options)
        fits = graded.fit(pools, options, learned)
        return [one for fit in fits for one in fit.scores]

    def share_held(scores, name):
        off = [one.score - human[one.query_id, one.doc_id] for one in scores]
        errors = [getattr(one, name) for one in scores]
        assert len(off) == 9260
        return np.mean(np.abs(off) <= 1.96 * np.array(errors))

    modelled, means = scored("thurstone"), scored("mean")
    assert share_held(means, "std_error") < 0.7
    assert 0.93 < share_held(means, "truth_error") < 0.98
    assert means[0].truth_error == pytest.approx(np.hypot(means[0].std_error, GRADE_SD))
    assert share_held(modelled, "std_error") == pytest.approx(0.65, abs=0.01)
    assert share_held(modelled, "truth_error") == pytest.approx(0.95, abs=0.01)
    assert modelled[0].truth_error == pytest.approx(np.hypot(modelled[0].std_error, GRADE_SD))


def simulated(queries, share, seed=0, documents=30):
    """Scores that lie by ``share`` of their spread, and by their error, from what people say."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(queries), documents)
    scores = rng.normal(0, 1.5, len(query))
    errors = np.full(len(query), 0.3)
    truth = scores + rng.normal(0, np.hypot(errors, share * 1.5))
    return query, scores, errors, truth


def test_the_share_is_learned_from_the_order_of_grades_and_few_labels_count_in_part():
    for share in (0.3, 1.5):
        found = learn_share(*simulated(60, share))
        assert found.value == found.found == pytest.approx(share, rel=0.2)
        assert found.queries == 60
    query, scores, errors, human = simulated(60, 2.0)
    some = learn_share(query, scores, errors, np.where(query < 10, human, np.nan))
    assert some.queries == 10
    assert SHARE < some.value < some.found
    for nothing in (np.full(len(query), np.nan), np.ones(len(query))):  # the latter orders nothing
        found = learn_share(query, scores, errors, nothing)
        assert (found.value, found.queries) == (SHARE, 0)
