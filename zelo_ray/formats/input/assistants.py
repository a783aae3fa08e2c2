"""Make pools of conversations of assistants: the answers of all assistants to each question.

A row is ``{"session_id", "assistant_id", "conversation": [{"qa_id", "query", "assistant"}]}``, as
gaussia keeps its data sets. What several assistants answer to one question is one pool.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zelo_ray.errors import InputError
from zelo_ray.formats.input.long import ConversionNotes, Pool, id_text
from zelo_ray.formats.interchange.query_fields import merge_fields, select_fields
from zelo_ray.formats.interchange.texts import has_visible_text

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Turn:
    place: str
    session: str
    qa_id: str
    query: str
    assistant: str
    answer: str
    about: Mapping[str, str]


def make_assistant_pools(
    rows: Iterable[tuple[str, Mapping[str, Any]]], left: ConversionNotes, show: Sequence[str] = ()
) -> Iterator[Pool]:
    """Yield a pool for each question; its documents are the assistants' answers.

    Questions are the same where session and qa_id are; where no session has two assistants, where
    qa_id and the query's text are. In the first case pools name their session, so that whole
    conversations can be judged.

    Args:
        rows: where each stands, and the row.
        left: what is left out.
        show: fields of turns to keep, which all turns of a question agree on.

    Raises:
        InputError: a row is none of these, an assistant answers a question twice, or turns of a
            question differ in a field.
    """
    turns = [turn for place, row in rows for turn in _turns(place, row, show)]
    shared = _is_shared(turns)
    groups: dict[Key, list[_Turn]] = {}
    for turn in turns:
        key = (turn.session, turn.qa_id) if shared else (turn.qa_id, turn.query)
        groups.setdefault(key, []).append(turn)
    ids = Counter(group[0].qa_id for group in groups.values())
    for group in groups.values():
        first = group[0]
        alone = ids[first.qa_id] == 1
        query_id = first.qa_id if alone else f"{first.session}:{first.qa_id}"
        answers = _answers(group, left)
        if not answers or not has_visible_text(first.query):
            left.note_left_out("questions without an answer or a text", query_id)
            continue
        session = {"session_id": first.session} if shared and first.session else {}
        about = merge_fields(first.place, query_id, [turn.about for turn in group])
        query = {"id": query_id, "query": first.query, **session, **about}
        yield {"query": query, "documents": answers}


def _turns(place: str, row: Mapping[str, Any], show: Sequence[str]) -> Iterator[_Turn]:
    assistant = id_text(row.get("assistant_id"))
    conversation = row.get("conversation")
    if assistant is None or not isinstance(conversation, list):
        raise InputError(f"{place}: needs assistant_id, and a conversation of qa_id and query")
    for turn in conversation:
        qa_id = id_text(turn.get("qa_id")) if isinstance(turn, Mapping) else None
        query = turn.get("query") if qa_id is not None else None
        if qa_id is None or not isinstance(query, str):
            raise InputError(f"{place}: a turn of its conversation has no qa_id or no query")
        answer = turn.get("assistant")
        session = id_text(row.get("session_id")) or ""
        text = answer if isinstance(answer, str) else ""
        about = select_fields(turn, show)
        yield _Turn(place, session, qa_id, query, assistant, text, about)


def _is_shared(turns: Sequence[_Turn]) -> bool:
    """Return whether sessions are shared by assistants, rather than each having its own."""
    who: dict[str, set[str]] = {}
    for turn in turns:
        who.setdefault(turn.session, set()).add(turn.assistant)
    return any(len(names) > 1 for names in who.values())


def _answers(group: Sequence[_Turn], notes: ConversionNotes) -> list[Pool]:
    answers: dict[str, Pool] = {}
    for turn in group:
        if turn.query != group[0].query:
            raise InputError(
                f"{turn.place}: qa_id {turn.qa_id!r} has another query before: "
                f"sessions {group[0].session!r} and {turn.session!r} must ask the same"
            )
        if turn.assistant in answers:
            raise InputError(
                f"{turn.place}: assistant {turn.assistant!r} answers {turn.qa_id!r} twice"
            )
        if not has_visible_text(turn.answer):
            notes.note_left_out("empty answers", f"{turn.assistant} ({turn.qa_id})")
            continue
        answers[turn.assistant] = {"id": turn.assistant, "content": turn.answer}
    return [*answers.values()]
