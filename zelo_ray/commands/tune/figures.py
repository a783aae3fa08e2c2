"""Turn what candidates said on the halves into figures: agreement, kappa of grades, and cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np

from zelo_ray.commands.compare_protocols.costs import Bill, bills_by_query
from zelo_ray.commands.compare_protocols.measured import measure
from zelo_ray.commands.compare_protocols.people import People
from zelo_ray.commands.tune.choice import credit_pairs, weights_of
from zelo_ray.commands.tune.halves import Half
from zelo_ray.commands.tune.outcome import CandidateFigures
from zelo_ray.commands.tune.runs import CandidateRuns
from zelo_ray.evaluation.agreement import Figure, estimate_share, measure_agreement
from zelo_ray.evaluation.coefficients import COEFFICIENTS, RatingMatrix
from zelo_ray.files.judges import HUMAN
from zelo_ray.files.tables import read_table
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import load_protocol
from zelo_ray.records import Reply

GRADES = (0, 3)
"""The scale of scores that are grades."""
_KAPPA = {"kappa-quadratic": COEFFICIENTS["kappa-quadratic"]}
_UNKNOWN = Figure(nan, nan, nan, 0)


def _read_scores(out: str) -> Mapping[str, Mapping[str, float]]:
    """Read the scores of a run by query and document."""
    by_query: dict[str, dict[str, float]] = {}
    columns = ("query_id", "doc_id", "score")
    table = read_table(out, "scores", columns)
    for query_id, doc_id, score in zip(*(table[c].to_pylist() for c in columns), strict=True):
        if score is not None and isfinite(score):
            by_query.setdefault(query_id, {})[doc_id] = score
    return by_query


@dataclass(frozen=True, slots=True)
class PaidRequests:
    """Requests about a half: keys by candidate and query id, bills and tokens by key."""

    keys: Mapping[str, Mapping[str, Sequence[str]]]
    bills: Mapping[str, Bill]
    tokens: Mapping[str, int]


def figures_of_half(
    runs: CandidateRuns, half: Half, requests: PaidRequests
) -> list[CandidateFigures]:
    """Return the figures of all candidates that judged a half, in their order."""
    options = runs.options
    bills = {name: bills_by_query(keys, requests.bills) for name, keys in requests.keys.items()}
    verdicts = runs.verdicts(half.name)
    measured = measure(half.items, verdicts, bills, Bill(), compared=())
    rows = []
    for trial in measured.trials:
        name, plan = trial.protocol, runs.plans[trial.protocol, half.name]
        agreement, decided = (trial.figures[key] for key in ("agreement", "agreement_decided"))
        concordance = concordance_of(half, verdicts[name])
        kappa = kappa_of_grades(half, runs.field.people, plan)
        keys = {key for query_keys in requests.keys[name].values() for key in query_keys}
        row = CandidateFigures(
            candidate=name,
            half=half.name,
            protocol=load_protocol(plan.protocol).name,
            differs=runs.candidates[name].differs(options),
            concordance=concordance.value,
            concordance_low=concordance.low,
            concordance_high=concordance.high,
            agreement=agreement.value,
            agreement_low=agreement.low,
            agreement_high=agreement.high,
            decided=decided.value,
            decided_low=decided.low,
            decided_high=decided.high,
            kappa=kappa.value,
            kappa_low=kappa.low,
            kappa_high=kappa.high,
            items=trial.items,
            judged=trial.judged,
            correct=trial.correct,
            queries=trial.queries,
            calls=trial.bill.calls,
            tokens=sum(requests.tokens.get(key, 0) for key in keys),
            dollars=trial.bill.dollars,
            unpriced=trial.bill.unpriced,
        )
        rows.append(row)
    return rows


def concordance_of(half: Half, verdicts: Sequence[int]) -> Figure:
    """Estimate the share of a half's pairs that are ordered as people do, a tie counting half."""
    credit = credit_pairs(half.items, verdicts)
    query = np.unique([item.query_id for item in half.items], return_inverse=True)[1]
    weights = weights_of(half.items)
    right = np.bincount(query, weights * np.nan_to_num(credit))
    judged = np.bincount(query, weights * ~np.isnan(credit))
    return estimate_share(right, judged)


def kappa_of_grades(half: Half, people: People, plan: AnnotateOptions) -> Figure:
    """Return Cohen's kappa, weighted by squares, of a run's grades with people's.

    Scores and the means of several people's grades are rounded, a half to the even grade.

    Returns:
        The estimate; NaN if the run's scores are no grades, or the people's are not 0 to 3.
    """
    lowest, highest = GRADES
    if load_protocol(plan.protocol).score.scale != GRADES:
        return _UNKNOWN
    graded = {item.query_id for item in half.items} & people.grades.keys()
    scores, pairs = _read_scores(plan.out), list[tuple[str, int, int, float]]()
    for query_id in sorted(graded):
        for doc_id, grade in people.grades[query_id].items():
            score = scores.get(query_id, {}).get(doc_id, nan)
            if not lowest <= grade <= highest:
                return _UNKNOWN
            if isfinite(score):
                pairs.append((query_id, round(grade), round(score), people.weigh(query_id, doc_id)))
    if not pairs:
        return _UNKNOWN
    query_ids, by_people, by_run, of_people = zip(*pairs, strict=True)
    queries = np.unique(query_ids, return_inverse=True)[1].astype(np.int64)
    grades = np.array([by_people, by_run], np.int16)
    weights = np.array(of_people) if people.weights else None
    ratings = RatingMatrix((HUMAN, "run"), grades, queries, highest - lowest + 1, weights)
    rows, _ = measure_agreement(ratings, {}, _KAPPA)
    return next((Figure(row.value, row.low, row.high, row.queries) for row in rows), _UNKNOWN)


def tokens_of(rows: Iterable[Reply], wanted: Iterable[str]) -> dict[str, int]:
    """Return the tokens of input and output of each request, by its key: of all billed answers."""
    by_key = dict.fromkeys(wanted, 0)
    for row in rows:
        if row.key in by_key:
            by_key[row.key] += row.input_tokens + row.output_tokens
    return by_key
