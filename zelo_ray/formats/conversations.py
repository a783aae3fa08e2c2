"""Conversations as a judge reads them: what the user said, and what each assistant answered."""

from collections.abc import Sequence

from zelo_ray.records import code_for


def conversation(queries: Sequence[str], answers: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Make one question of the turns of a conversation, and one answer of each assistant.

    The question says what the answers are, and gives a code that follows from all that was said, by
    a hash. The lines that open a turn carry it, so no answer can make up a turn. Of one turn it is
    the query and the answers as they are.

    Args:
        queries: what the user said, turn by turn.
        answers: what each assistant answered, turn by turn.
    """
    if len(queries) == 1:
        return queries[0], [answer for (answer,) in answers]
    code = code_for(*queries, *(text for replies in answers for text in replies))
    introduction = (
        f"This is a conversation of {len(queries)} turns, and an answer is the whole of it as one "
        f"assistant led it. In an answer each line that opens a turn carries the code {code}; a "
        "line without it opens none."
    )
    turns = (f"Turn {number}: {query}" for number, query in enumerate(queries, 1))
    return "\n\n".join([introduction, *turns]), [
        _led(queries, replies, code) for replies in answers
    ]


def _led(queries: Sequence[str], answers: Sequence[str], code: str) -> str:
    lines = list[str]()
    for number, (query, answer) in enumerate(zip(queries, answers, strict=True), 1):
        lines += [f"[turn {number}, user, {code}]", query]
        lines += [f"[turn {number}, assistant, {code}]", answer]
    return "\n".join(lines)
