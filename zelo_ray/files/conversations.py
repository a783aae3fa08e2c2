"""Make pools of conversations: assistants' answers to each question, and sessions as one block."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from zelo_ray.errors import InputError
from zelo_ray.files.make_pools import (
    Notes,
    make_document,
    make_pool,
    merge_fields,
    select_fields,
)
from zelo_ray.files.pools import (
    Line,
    LineLimits,
    PoolRow,
    parse_line,
    read_lines,
    session_in,
    to_line,
)
from zelo_ray.files.rows import Row, Source
from zelo_ray.files.schema import to_id
from zelo_ray.files.tables import Rejected, ResultsWriter, schema_of, table_of
from zelo_ray.records import Document, Pool, delimiter_code

_FILE = "sessions.jsonl"


@dataclass(frozen=True, slots=True)
class _Turn:
    place: str
    session: str
    assistant: str
    qa_id: str
    row: Mapping[str, Any]


def make_assistant_pools(
    sources: Iterable[Source], notes: Notes, show: Sequence[str] = ()
) -> Iterator[PoolRow]:
    """Yield a pool for each question; its documents are the assistants' answers.

    A row is ``{"session_id", "assistant_id", "conversation": [{"qa_id", "query", "assistant"}]}``.
    Questions are the same where session and qa_id are, and pools then name their session; where no
    session has two assistants, where qa_id and query are. ``show`` names fields of turns to keep.
    """
    rows = chain.from_iterable(source.each(partial(_turns, source)) for source in sources)
    turns = [*chain.from_iterable(rows)]
    pairs = {(turn.session, turn.assistant) for turn in turns}
    shared = len(pairs) > len({session for session, _ in pairs})
    groups = defaultdict[tuple[str, str], list[_Turn]](list)
    for turn in turns:
        key = (turn.session, turn.qa_id) if shared else (turn.qa_id, turn.row["query"])
        groups[key].append(turn)
    ids = Counter(group[0].qa_id for group in groups.values())
    for group in groups.values():
        first, answers = group[0], dict[str, Any]()
        for turn in group:
            if turn.row["query"] != first.row["query"] or turn.assistant in answers:
                who = f"{turn.assistant!r} answers qa_id {turn.qa_id!r} of session"
                what = f"{turn.session!r} twice, or it has another query in {first.place}"
                raise InputError(f"{turn.place}: {who} {what}")
            answers[turn.assistant] = turn.row.get("assistant")
        alone = ids[first.qa_id] == 1
        query_id = first.qa_id if alone else f"{first.session}:{first.qa_id}"
        about = merge_fields(first.place, query_id, [select_fields(t.row, show) for t in group])
        session = {"session_id": first.session} if shared and first.session else {}
        query = {"id": query_id, "query": first.row["query"], **session, **about}
        documents = (
            (f"{name} ({first.qa_id})", make_document(name, "", _text_of(answer), {}))
            for name, answer in answers.items()
        )
        yield from make_pool(first.place, query, documents, notes)


def _text_of(answer: Any) -> str:
    return answer if isinstance(answer, str) else ""


def _turns(source: Source, number: int, row: Row) -> list[_Turn]:
    assistant, session = to_id(row.get("assistant_id")), to_id(row.get("session_id")) or ""
    conversation = row.get("conversation")
    if assistant is None or not isinstance(conversation, list):
        raise ValueError("needs assistant_id, and a conversation of qa_id and query")
    turns = []
    for turn in conversation:
        qa_id = to_id(turn.get("qa_id")) if isinstance(turn, Mapping) else None
        if qa_id is None or not isinstance(turn.get("query"), str):
            raise ValueError("a turn of its conversation has no qa_id or no query")
        turns.append(_Turn(source.where(number), session, assistant, qa_id, turn))
    return turns


@dataclass(frozen=True, slots=True)
class JoinedSessions:
    """The result of joining turns to sessions."""

    path: str
    """the file of joined sessions, a valid pool a line"""
    left_out: list[str]
    """assistants that do not answer every turn of a session, as ``assistant (session)``"""
    rejected: int


def join_sessions(shards: Sequence[str], out: str) -> JoinedSessions:
    """Join the pools of each session to one pool, and write these to ``sessions.jsonl`` in ``out``.

    Turns are in the order of the input, also across shards. Only assistants (document ids) that
    answer every turn are kept. A session's query has the user's message in each turn, a document
    one assistant's whole conversation. Invalid lines and sessions go to ``rejected.parquet``.
    """
    limits, sessions, torn = LineLimits(), dict[str, tuple[Line, list[Pool]]](), set[str]()
    bad, joined, left_out = list[tuple[Line, str]](), list[bytes](), list[str]()
    for line in (line for shard in shards for line in read_lines(shard, limits)):
        if line.pool is None:
            bad.append((line, line.reason))
            torn.add(session_in(line.raw))
            continue
        name, query_id = line.pool.session_id, line.pool.query_id
        _, turns = sessions.get(name, (line, []))
        if not name:
            why = "it has no session_id; give it one, or judge with --blocks query"
            bad.append((line, why))
        elif any(turn.query_id == query_id for turn in turns):
            bad.append((line, f"query id {query_id!r} occurs twice in session {name!r}"))
        else:
            sessions.setdefault(name, (line, turns))[1].append(line.pool)
    for name, (first, turns) in sessions.items():
        answers = [{document.id: document for document in turn.documents} for turn in turns]
        everybody = [*dict.fromkeys(document for turn in answers for document in turn)]
        kept = [each for each in everybody if all(each in turn for turn in answers)]
        raw = _session_line(name, turns, [[turn[each] for turn in answers] for each in kept])
        reason = parse_line(_FILE, 0, raw, limits).reason
        if len(raw) > limits.line:
            reason = f"longer than {limits.line:,} bytes"
        if name in torn:
            reason = "one of its turns was rejected; mend that line"
        if reason:
            bad.append((first, f"session {name!r}, joined: {reason}"))
        else:
            joined.append(raw)
            left_out += [f"{each} ({name})" for each in everybody if each not in kept]
    if not joined:
        why = f"{bad[0][0].file}, line {bad[0][0].number}: {bad[0][1]}" if bad else "it is empty"
        raise InputError(f"the input holds no session; {why}")
    rejected = [Rejected(line.file, line.number, why, line.text) for line, why in bad]
    with ResultsWriter(out, {"rejected": schema_of(Rejected)}, [_FILE]) as results:
        results.add("rejected", table_of(rejected, Rejected))
        for raw in joined:
            results.add_line(_FILE, raw)
    return JoinedSessions(f"{out.rstrip('/')}/{_FILE}", left_out, len(bad))


def _session_line(session: str, turns: Sequence[Pool], answers: Sequence[list[Document]]) -> bytes:
    texts = [[document.content for document in documents] for documents in answers]
    question, conversations = join_turns([turn.query for turn in turns], texts)
    documents = [
        {"id": first.id, "content": content, "metadata": first.metadata}
        for (first, *_), content in zip(answers, conversations, strict=True)
    ]
    query = {"id": session, "query": question, "session_id": session}
    turn_ids = [turn.query_id for turn in turns]
    return to_line({"query": query, "turns": turn_ids, "documents": documents})


def join_turns(queries: Sequence[str], answers: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Join the turns of a conversation to one question, and one answer for each assistant.

    The question gives a code, which is a hash of the whole conversation. The lines that open a turn
    carry it, so an answer cannot forge a turn. One turn stays as it is.

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
    conversations = [
        "\n".join(
            f"[turn {number}, user, {code}]\n{query}\n[turn {number}, assistant, {code}]\n{answer}"
            for number, (query, answer) in enumerate(zip(queries, replies, strict=True), 1)
        )
        for replies in answers
    ]
    return "\n\n".join([introduction, *turns]), conversations
