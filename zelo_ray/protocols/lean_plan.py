"""Plan lean's questions: grades and battles first, then where the top ranks are uncertain.

The later battles follow from the query's own answers and a model of the judges that exists
beforehand, so that the same input asks the same questions, also after a restart.
"""

import json
from collections import Counter
from collections.abc import Sequence
from math import floor
from typing import Any

from zelo_ray.fitting import panel as judged
from zelo_ray.fitting.battles import battles_of
from zelo_ray.fitting.pairs import Pair, audit_share, count_pairs, first_turn, ring_pairs
from zelo_ray.protocols import Rounds
from zelo_ray.protocols.grading import GradeRequest, grade_requests
from zelo_ray.protocols.options import LeanOptions
from zelo_ray.protocols.zelo import VoteRequest, judge_in_turn, shown_documents, vote_request
from zelo_ray.records import Failure, Grade, Judge, Pool, Vote

_LARGE = 50  # documents from which a second later round pays
_LEAST_GAIN = 0.1  # of the expected loss: a round that lowers it by so much is followed by another


def rounds(pool: Pool, panel: Sequence[Judge], options: LeanOptions) -> Rounds:
    """Grade every document, let it battle others, then ask more about the top ranks."""
    first: list[GradeRequest | VoteRequest] = [
        *_first_grades(pool, panel, options),
        *_first_votes(pool, panel, options),
    ]
    if not first:
        return []
    replies = yield [item.request for item in first]
    rows: list[Any] = [item.read(reply) for item, reply in zip(first, replies, strict=True)]
    present = _answering_judges(panel, rows)
    room, before, total = _room(pool, options, len(first)), float("inf"), 0
    for rounds_left in range(_later_rounds(pool, options), 0, -1):
        pairs, loss = _most_uncertain_pairs(pool, options, rows, room // rounds_left)
        if not pairs or loss > (1 - _LEAST_GAIN) * before:
            break
        shown = shown_documents(pool, options)
        ballots = [
            vote_request(
                pool, (shown[a], shown[b]), _later_judge(pool, present, options, at), options
            )
            for at, (a, b) in enumerate(pairs, total)
        ]
        replies = yield [ballot.request for ballot in ballots]
        rows += [
            ballot.read(reply)
            for ballot, reply in zip(ballots, replies, strict=True)
            if reply.attempts  # what was never asked, as money ran out, is no failure here
        ]
        room, before, total = room - len(ballots), loss, total + len(ballots)
    return rows


def count(pool: Pool, panel: Sequence[Judge], options: LeanOptions) -> dict[str, int]:
    """Count the requests of the first round, and a judge's share of all possible later ones."""
    doc_ids = _ids(pool, options)
    counts = Counter(
        judge.name for doc_id in doc_ids for judge in _graders(pool, panel, doc_id, options)
    )
    for _, judge, times in _plan(pool, panel, options):
        counts[judge.name] += times
    room = _room(pool, options, counts.total()) if _later_rounds(pool, options) else 0
    for number in range(min(room, _unasked(len(doc_ids), options.first_round(len(panel))[1]))):
        counts[_later_judge(pool, panel, options, number).name] += 1
    return {judge.name: counts[judge.name] for judge in panel}


def _first_grades(pool: Pool, panel: Sequence[Judge], options: LeanOptions) -> list[GradeRequest]:
    return [
        sheet
        for document in pool.documents[: options.document_limit]
        for judge in _graders(pool, panel, document.id, options)
        for sheet in grade_requests(pool, document, judge, options)
    ]


def _first_votes(pool: Pool, panel: Sequence[Judge], options: LeanOptions) -> list[VoteRequest]:
    shown = shown_documents(pool, options)
    return [
        vote_request(pool, (shown[pair.a], shown[pair.b]), judge, options, repeat)
        for pair, judge, times in _plan(pool, panel, options)
        for repeat in range(times)
    ]


def _plan(
    pool: Pool, panel: Sequence[Judge], options: LeanOptions
) -> list[tuple[Pair, Judge, int]]:
    """Plan who votes on each pair of the rings, and how often (in an audit, all judges twice)."""
    doc_ids = _ids(pool, options)
    grades, rings = options.first_round(len(panel))
    pairs = ring_pairs(options.seed, pool.query_id, doc_ids, rings)
    room = options.calls_per_document - grades - rings
    share = audit_share(options.audits, rings, len(panel), room)
    calls = options.calls_per_document * len(doc_ids) - grades * len(doc_ids) - len(pairs)
    limit = floor(calls / (2 * len(panel) - 1) + 1e-9)
    audits = sorted(pair.draw for pair in pairs if pair.draw < share)[:limit]
    assignments = list[tuple[Pair, Judge, int]]()
    for pair in pairs:
        if pair.draw in audits:
            assignments += [(pair, judge, 2) for judge in panel]
        else:
            assignments.append((pair, judge_in_turn(panel, pair.turn), 1))
    return assignments


def _most_uncertain_pairs(
    pool: Pool, options: LeanOptions, heard: Sequence[Any], pairs: int
) -> tuple[list[tuple[str, str]], float]:
    """Return the pairs to ask in a later round, and the expected loss without it.

    Args:
        pool: the query.
        options: of the job.
        heard: all that was judged or failed so far.
        pairs: so many pairs.
    """
    votes = [row for row in heard if isinstance(row, Vote)]
    grades = [row for row in heard if isinstance(row, Grade)]
    if not (votes and pairs) or len(votes) + len(grades) < options.min_coverage * len(heard):
        return [], 0.0
    doc_ids = sorted(_ids(pool, options))
    battles = battles_of([votes], [doc_ids])
    marks = judged.grades_of(battles, [grades])
    (posterior,) = judged.posteriors(battles, marks, given_model(options, battles.judges))
    mean, covariance = posterior.mean[0], posterior.covariance[0]
    seed = f"{options.seed}:{pool.query_id}:{len(heard)}"
    loss = judged.expected_loss(mean, covariance, seed=seed)
    if loss < options.until_loss:
        return [], loss
    chosen = judged.choose_pairs(
        mean,
        covariance,
        {*zip(battles.a.tolist(), battles.b.tolist(), strict=True)},
        count=pairs,
        most_per_document=2 * pairs // len(doc_ids) + 2,
        seed=seed,
    )
    return [(doc_ids[a], doc_ids[b]) for a, b in chosen], loss


def _answering_judges(panel: Sequence[Judge], votes: Sequence[Any]) -> list[Judge]:
    """Return the judges, except those who were asked and gave no judgment."""
    failed = {row.judge for row in votes if isinstance(row, Failure)}
    silent = failed - {row.judge for row in votes if not isinstance(row, Failure)}
    return [judge for judge in panel if judge.name not in silent] or list(panel)


def _ids(pool: Pool, options: LeanOptions) -> list[str]:
    return [document.id for document in pool.documents[: options.document_limit]]


def _graders(pool: Pool, panel: Sequence[Judge], doc_id: str, options: LeanOptions) -> list[Judge]:
    """Return the judges that grade a document: from the one after those of its ring pairs on."""
    grades, rings = options.first_round(len(panel))
    first = first_turn(options.seed, pool.query_id, doc_id) + rings
    return [judge_in_turn(panel, first + turn) for turn in range(grades)]


def _later_judge(pool: Pool, panel: Sequence[Judge], options: LeanOptions, number: int) -> Judge:
    return judge_in_turn(panel, first_turn(options.seed, pool.query_id, "") + number)


def _later_rounds(pool: Pool, options: LeanOptions) -> int:
    if options.later_rounds is not None:
        return options.later_rounds
    return 1 if len(_ids(pool, options)) < _LARGE else 2


def _room(pool: Pool, options: LeanOptions, asked_count: int) -> int:
    """Return how many calls are left for later rounds."""
    return max(0, floor(options.calls_per_document * len(_ids(pool, options)) + 1e-9) - asked_count)


def _unasked(documents: int, rings: int) -> int:
    return documents * (documents - 1) // 2 - count_pairs(documents, rings)


def given_model(options: LeanOptions, judges: Sequence[str]) -> judged.PanelModel:
    """Return the model of the judges that is known before a run."""
    if options.judges_from is None:
        return judged.default_model(judges)
    return judged.PanelModel.from_json(json.loads(options.judges_from)).for_judges(judges)
