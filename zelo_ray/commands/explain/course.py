"""The course of a query, in lines: every contest in order, or every verdict, and every failure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from zelo_ray.commands.explain.lines import courts, ended_with, indented, named
from zelo_ray.formats.wording import counted
from zelo_ray.records import Contest, Failure, Verdict, Winner


def of_tournaments(
    contests: Sequence[Contest], winners: Sequence[Winner], *, together: bool
) -> Iterator[Iterator[str]]:
    """Each tournament of a query: who challenged whom, and who was king after it.

    Args:
        contests: of the query.
        winners: of the query.
        together: whether the panel decided each tournament together.
    """
    kings = {(each.judge, each.repeat): each.winner_id for each in winners}
    several = any(each.repeat for each in contests)
    for key, held in courts(contests, together=together):
        head = f"tournament of {named(*key, several=several)}, {ended_with(kings.get(key))}"
        yield _tournament(head, held, together=together)


def _tournament(head: str, contests: Sequence[Contest], *, together: bool) -> Iterator[str]:
    yield head
    for each in sorted(contests, key=lambda one: (one.round, one.judge)):
        won = f"{each.winner_id} won" if each.preference else "a tie"
        first = each.right_id if each.swapped else each.left_id
        who = f"{each.judge}, " if together else ""
        yield (
            f"  round {each.round}  king {each.left_id} against {each.right_id}: {won}  {who}"
            f"confidence {each.confidence:.2f}, {first} shown first; then king: {each.king_id}"
        )
        yield from indented(each.verdict)


def of_pairs(verdicts: Sequence[Verdict]) -> Iterator[Iterator[str]]:
    """Each pair of a query, with every verdict on it."""
    pairs = dict.fromkeys((each.doc_id_a, each.doc_id_b) for each in verdicts)
    for a, b in pairs:
        yield _pair([each for each in verdicts if (each.doc_id_a, each.doc_id_b) == (a, b)])


def _pair(verdicts: Sequence[Verdict]) -> Iterator[str]:
    a, b = verdicts[0].doc_id_a, verdicts[0].doc_id_b
    yield f"{a} against {b}"
    for each in sorted(verdicts, key=lambda one: (one.judge, one.swapped)):
        one, other = each.average_scores
        won = "a tie" if one == other else f"{a if one > other else b} won"
        tie = " in this order; the orders differ, so a tie" if each.flipped else ""
        yield (
            f"  {won}, {one:.4g} to {other:.4g}{tie}  {each.judge} by {each.method}, "
            f"{b if each.swapped else a} shown first"
        )
        if each.rounds > 1:
            told = ", ".join(f"{x:.4g} to {y:.4g}" for x, y in each.score_history)
            yield from indented(f"round by round: {told}")


def of_failures(failures: Sequence[Failure]) -> Iterator[str]:
    """What gave no judgment, and why: once for each judge, pair and reason, however often."""
    found = Counter((f.judge, tuple(sorted(f.doc_ids)), f.status, f.reason) for f in failures)
    for (judge, doc_ids, status, reason), times in found.items():
        often = f", {counted(times, 'time')}" if times > 1 else ""
        yield f"no judgment from {judge} on {' and '.join(doc_ids)}: {status} ({reason}){often}"
