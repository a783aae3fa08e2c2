"""Whole conversations as pools: the turns of a session joined, an answer being a conversation.

Judges then compare how assistants led a conversation, not what they said in one turn of it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zelo_ray.errors import InputError
from zelo_ray.formats.conversations import conversation
from zelo_ray.formats.pools import Line, LineLimits, parse_line, read_lines, session_in
from zelo_ray.formats.results import ResultsWriter
from zelo_ray.formats.tables import Rejected, schema_of, table_of
from zelo_ray.records import Document, Pool

FILE = "sessions.jsonl"
_TORN = "a turn of it was set aside, so that it has a hole; mend that line"


@dataclass(slots=True)
class Joined:
    """The result of joining turns to sessions."""

    path: str
    """of the file that holds a pool a session, all of them good"""
    sessions: int = 0
    left_out: list[str] = field(default_factory=list)
    """assistants that do not answer every turn of a session, as ``assistant (session)``"""
    rejected: int = 0
    first_rejection: str = ""


def join_sessions(shards: Sequence[str], out: str) -> Joined:
    """Join the pools of each session to one, and write them to ``sessions.jsonl``.

    Turns come in the order of the input, also across shards; contestants are the assistants
    (document ids) that answer them all. A session's query holds what the user said in each turn,
    a document what one assistant made of the whole of it. What is bad goes to ``rejected.parquet``.
    The input is read twice, so that only sessions whose last turn is still to come are held.

    Args:
        shards: the files of the input.
        out: the run's directory or URL.

    Raises:
        InputError: no line of it is a turn of a session.
    """
    joined = Joined(f"{out.rstrip('/')}/{FILE}")
    with ResultsWriter(out, {"rejected": schema_of(Rejected)}, [FILE], rows=1000) as results:

        def reject(line: Line, reason: str) -> None:
            raw = line.raw.decode("utf-8", "backslashreplace")
            bad = Rejected(line.file, line.number, reason, raw)
            results.add("rejected", table_of([bad], Rejected))
            joined.rejected += 1
            where = f"{line.file}, line {line.number}"
            joined.first_rejection = joined.first_rejection or f"{where}: {reason}"

        turns, torn = Counter[str](), set[str]()
        for line, reason in _read(shards):
            if line.pool and not reason:
                turns[line.pool.session_id] += 1
                continue
            reject(line, reason)
            if line.pool is None:
                torn.add(session_in(line.raw))
        for session in _sessions(shards, turns):
            raw = _line(session.turns)
            if reason := _TORN if session.id in torn else _too_large(raw):
                reject(session.first, f"session {session.id!r}, joined: {reason}")
                continue
            results.add_line(FILE, raw)
            joined.sessions += 1
            stay = {document.id for document in _contestants(session.turns)}
            doc_ids = dict.fromkeys(
                document.id for turn in session.turns for document in turn.documents
            )
            joined.left_out += [f"{name} ({session.id})" for name in doc_ids if name not in stay]
    if not joined.sessions:
        why = joined.first_rejection or "it is empty"
        raise InputError(f"the input holds no session; {why}")
    return joined


def _read(shards: Sequence[str]) -> Iterator[tuple[Line, str]]:
    """Yield every line, and what is wrong with it, or ""."""
    turns = set[tuple[str, str]]()
    for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
        if line.pool is None:
            yield line, line.reason
            continue
        turn = (line.pool.session_id, line.pool.query_id)
        if not turn[0]:
            yield line, "it has no session_id; give it one, or judge with --blocks query"
        elif turn in turns:
            yield line, f"query id {turn[1]!r} has come before in session {turn[0]!r}; rename one"
        else:
            turns.add(turn)
            yield line, ""


@dataclass(slots=True)
class _Session:
    """A session on its way: the turns that have come."""

    id: str
    first: Line
    turns: list[Pool] = field(default_factory=list)


def _sessions(shards: Sequence[str], turns: Counter[str]) -> Iterator[_Session]:
    """Yield each session as soon as its last turn was read."""
    open_ = dict[str, _Session]()
    for line, reason in _read(shards):
        if line.pool is None or reason:
            continue
        session_id = line.pool.session_id
        session = open_.setdefault(session_id, _Session(session_id, line))
        session.turns.append(line.pool)
        if len(session.turns) == turns[session_id]:
            yield open_.pop(session_id)


def _contestants(turns: Sequence[Pool]) -> list[Document]:
    """Return the assistants of the first turn that answer in every other turn, too."""
    everywhere = set.intersection(*({document.id for document in turn.documents} for turn in turns))
    return [document for document in turns[0].documents if document.id in everywhere]


def _line(turns: Sequence[Pool]) -> bytes:
    """Return a session as an input line."""
    session_id, contestants = turns[0].session_id, _contestants(turns)
    answers = [[_answer(turn, first.id) for turn in turns] for first in contestants]
    question, led = conversation([turn.query for turn in turns], answers)
    documents = [
        {"id": first.id, "content": content, "metadata": first.metadata}
        for first, content in zip(contestants, led, strict=True)
    ]
    query = {"id": session_id, "query": question, "session_id": session_id}
    line = {"query": query, "turns": [turn.query_id for turn in turns], "documents": documents}
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _answer(turn: Pool, doc_id: str) -> str:
    return next(document.content for document in turn.documents if document.id == doc_id)


def _too_large(raw: bytes) -> str:
    """Return why a joined line would be refused when read; empty if it is good."""
    limits = LineLimits()
    if len(raw) > limits.line:
        return f"longer than {limits.line:,} bytes"
    return parse_line(FILE, 0, raw, limits).reason
