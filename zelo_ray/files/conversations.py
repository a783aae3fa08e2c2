"""Join the pools of a conversation's turns to one pool of whole conversations."""

from collections.abc import Sequence
from dataclasses import dataclass

from zelo_ray.errors import InputError
from zelo_ray.files.pools import Line, LineLimits, parse_line, read_lines, session_in, to_line
from zelo_ray.files.tables import Rejected, ResultsWriter, schema_of, table_of
from zelo_ray.records import Pool, delimiter_code

_FILE = "sessions.jsonl"


@dataclass(frozen=True, slots=True)
class JoinedSessions:
    """The result of joining turns to sessions."""

    path: str  # the file of joined sessions, a valid pool a line
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
        reason, pool = line.reason, line.pool
        if pool is None:
            torn.add(session_in(line.raw))
        elif not pool.session_id:
            reason = "it has no session_id; give it one, or judge with --blocks query"
        else:
            _, turns = sessions.setdefault(pool.session_id, (line, []))
            if any(turn.query_id == pool.query_id for turn in turns):
                reason = f"query id {pool.query_id!r} occurs twice in session {pool.session_id!r}"
            turns += [] if reason else [pool]
        bad += [(line, reason)] if reason else []
    for name, (first, turns) in sessions.items():
        raw, lacking = _session_line(name, turns)
        long = f"longer than {limits.line:,} bytes" if len(raw) > limits.line else ""
        torn_turn = "one of its turns was rejected; mend that line" if name in torn else ""
        reason = torn_turn or long or parse_line(_FILE, 0, raw, limits).reason
        if reason:
            bad.append((first, f"session {name!r}, joined: {reason}"))
        else:
            joined.append(raw)
            left_out += [f"{assistant} ({name})" for assistant in lacking]
    if not joined:
        why = f"{bad[0][0].file}, line {bad[0][0].number}: {bad[0][1]}" if bad else "it is empty"
        raise InputError(f"the input holds no session; {why}")
    rejected = [Rejected(line.file, line.number, why, line.text) for line, why in bad]
    with ResultsWriter(out, {"rejected": schema_of(Rejected)}, [_FILE]) as results:
        results.add("rejected", table_of(rejected, Rejected))
        for raw in joined:
            results.add_line(_FILE, raw)
    return JoinedSessions(f"{out.rstrip('/')}/{_FILE}", left_out, len(bad))


def _session_line(session: str, turns: Sequence[Pool]) -> tuple[bytes, list[str]]:
    """Return the line of a joined session, and the assistants that do not answer every turn."""
    answers = [{document.id: document for document in turn.documents} for turn in turns]
    everybody = dict.fromkeys(id_ for turn in answers for id_ in turn)
    kept = [id_ for id_ in everybody if all(id_ in turn for turn in answers)]
    texts = [[turn[id_].content for turn in answers] for id_ in kept]
    question, conversations = join_turns([turn.query for turn in turns], texts)
    documents = [
        {"id": id_, "content": content, "metadata": answers[0][id_].metadata}
        for id_, content in zip(kept, conversations, strict=True)
    ]
    query = {"id": session, "query": question, "session_id": session}
    turn_ids = [turn.query_id for turn in turns]
    line = {"query": query, "turns": turn_ids, "documents": documents}
    return to_line(line), [id_ for id_ in everybody if id_ not in kept]


def join_turns(queries: Sequence[str], answers: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Join the turns of a conversation to one question, and one answer for each assistant.

    ``answers`` has each assistant's answer in each turn. The question gives a code, which is a hash
    of the whole conversation; the lines that open a turn carry it, so an answer cannot forge one.
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
