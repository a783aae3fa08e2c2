"""Ask a ranker the same once more, by requests with keys of their own.

A measurement of time must not find its answers in the ledger, and a run that goes on must not pay
for it twice. So the requests are those of the ranker, with another number of the repeat.
"""

from dataclasses import replace
from typing import Any

from zelo_ray.protocols.progress import Parallel, Rounds
from zelo_ray.protocols.protocol import Ranker
from zelo_ray.records import Request

AGAIN = "again:"
"""What the name of a ranker that is asked again begins with."""
_REPEAT = 1


def ask_again(ranker: Ranker) -> Ranker:
    """Return the ranker with the same requests under other keys."""

    def rounds(*arguments: Any) -> Rounds:
        return _repeat(ranker.rounds(*arguments))

    return replace(ranker, name=f"{AGAIN}{ranker.name}", rounds=rounds)


def _repeat(rounds: Rounds) -> Rounds:
    replies: list[Any] | None = None
    while True:
        try:
            wanted = next(rounds) if replies is None else rounds.send(replies)
        except StopIteration as ended:
            return ended.value
        if isinstance(wanted, Parallel):
            replies = yield Parallel([_repeat(part) for part in wanted.parts])
            continue
        replies = yield [
            replace(request, repeat=_REPEAT) if isinstance(request, Request) else request
            for request in wanted
        ]
