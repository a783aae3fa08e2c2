"""Join the turns of each session to one pool, whose documents are whole conversations.

Judges then compare how assistants led a conversation, not their answers in one turn.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zelo_ray.errors import InputError
from zelo_ray.files.tables import Rejected, ResultsWriter, schema_of, table_of
from zelo_ray.formats.conversations import join_turns
from zelo_ray.formats.pools import Line, LineLimits, parse_line, read_lines, session_in
from zelo_ray.records import Document, Pool

FILE = "sessions.jsonl"
_TORN = "one of its turns was rejected; mend that line"


@dataclass(slots=True)
class JoinedSessions:
    """The result of joining turns to sessions."""

    path: str
    """the file of joined sessions, a valid pool a line"""
    sessions: int = 0
    left_out: list[str] = field(default_factory=list)
    """assistants that do not answer every turn of a session, as ``assistant (session)``"""
    rejected: int = 0
    first_rejection: str = ""


def join_sessions(shards: Sequence[str], out: str) -> JoinedSessions:
    """Join the pools of each session to one pool, and write these to ``sessions.jsonl``.

    Turns are in the order of the input, also across shards. Only assistants (document ids) that
    answer every turn are kept. A session's query has the user's message in each turn, a document
    one assistant's whole conversation. Invalid lines and sessions go to ``rejected.parquet``.
    The input is read twice, so that only sessions with turns to come are kept in memory.

    Args:
        shards: the files of the input.
        out: the run's directory or URL.

    Raises:
        InputError: no line of it is a turn of a session.
    """
    joined = JoinedSessions(f"{out.rstrip('/')}/{FILE}")
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
    """Yield every line, and the reason why it is invalid, or ""."""
    turns = set[tuple[str, str]]()
    for line in (line for shard in shards for line in read_lines(shard, LineLimits())):
        if line.pool is None:
            yield line, line.reason
            continue
        turn = (line.pool.session_id, line.pool.query_id)
        if not turn[0]:
            yield line, "it has no session_id; give it one, or judge with --blocks query"
        elif turn in turns:
            yield line, f"query id {turn[1]!r} occurs twice in session {turn[0]!r}; rename one"
        else:
            turns.add(turn)
            yield line, ""


@dataclass(slots=True)
class _Session:
    """A session of which some turns have been read."""

    id: str
    first: Line
    turns: list[Pool] = field(default_factory=list)


def _sessions(shards: Sequence[str], turns: Counter[str]) -> Iterator[_Session]:
    """Yield each session when its last turn is read."""
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
    """Return the first turn's documents of the assistants that answer in every turn."""
    everywhere = set.intersection(*({document.id for document in turn.documents} for turn in turns))
    return [document for document in turns[0].documents if document.id in everywhere]


def _line(turns: Sequence[Pool]) -> bytes:
    """Return a session as an input line."""
    session_id, contestants = turns[0].session_id, _contestants(turns)
    answers = [[_answer(turn, first.id) for turn in turns] for first in contestants]
    question, led = join_turns([turn.query for turn in turns], answers)
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
    """Return the reason why a joined line is too large; "" if it is valid."""
    limits = LineLimits()
    if len(raw) > limits.line:
        return f"longer than {limits.line:,} bytes"
    return parse_line(FILE, 0, raw, limits).reason
