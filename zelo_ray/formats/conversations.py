"""Write conversations as one question and one answer an assistant, for a judge to read."""

from collections.abc import Sequence

from zelo_ray.records import delimiter_code


def join_turns(queries: Sequence[str], answers: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Join the turns of a conversation to one question, and one answer for each assistant.

    The question explains the form of the answers, and gives a code, which is a hash of the whole
    conversation. The lines that open a turn carry it, so an answer cannot forge a turn. A
    conversation of one turn is the query and the answers as they are.

    Args:
        queries: the user's message in each turn.
        answers: by assistant, its answer in each turn.
    """
    if len(queries) == 1:
        return queries[0], [answer for (answer,) in answers]
    code = delimiter_code(*queries, *(text for replies in answers for text in replies))
    introduction = (
        f"This is a conversation of {len(queries)} turns, and an answer is the whole of it as one "
        f"assistant led it. In an answer each line that opens a turn carries the code {code}; a "
        "line without it opens none."
    )
    turns = (f"Turn {number}: {query}" for number, query in enumerate(queries, 1))
    return "\n\n".join([introduction, *turns]), [
        _write_conversation(queries, replies, code) for replies in answers
    ]


def _write_conversation(queries: Sequence[str], answers: Sequence[str], code: str) -> str:
    lines = list[str]()
    for number, (query, answer) in enumerate(zip(queries, answers, strict=True), 1):
        lines += [f"[turn {number}, user, {code}]", query]
        lines += [f"[turn {number}, assistant, {code}]", answer]
    return "\n".join(lines)
