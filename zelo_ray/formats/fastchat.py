"""FastChat's files (MT-Bench): questions of one or more turns, and models' answers, as pools.

``question.jsonl`` has ``{"question_id", "turns": [...]}``, an answers file (one a model)
``{"question_id", "model_id", "choices": [{"turns": [...]}]}``, of which the first choice counts.
People's votes are read by `judgments.votes`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.conversations import join_turns
from zelo_ray.formats.files import list_directory
from zelo_ray.formats.interchange.compared_pairs import PREFERENCES, sample_pairs
from zelo_ray.formats.interchange.texts import FilledPools, describe_left_out, has_visible_text
from zelo_ray.formats.judgments.judgments_file import read_judgments
from zelo_ray.formats.pools import is_jsonl
from zelo_ray.formats.probe import probe
from zelo_ray.formats.wording import counted
from zelo_ray.records import Document, Pool

_Turns = tuple[str, ...]
_Vote = Mapping[str, Any]


def make_turn_pools(questions: str, answers: Sequence[str]) -> FilledPools:
    """Make a pool for each question and turn, with the answers of all models.

    A later turn's query is all that the user had said by then, and its answers are the whole
    conversation (see `conversations`), as people saw it who voted. So these pools are turns of no
    session. Ids are ``{question_id}-{turn}`` and the model ids.

    Args:
        questions: path or URL of the questions.
        answers: of the answers: files, or directories of JSON lines.

    Returns:
        Pools in the order of the questions, documents in that of the files. Answers that are empty
        are left out, and noted.

    Raises:
        InputError: a line is not as above, a question or an answer is there twice, or a model
            lacks an answer.
    """
    models = _answers(answers)
    pools: list[Pool] = []
    empty: list[str] = []
    for place, question_id, turns in _questions(questions):
        by_model = {
            model: _own(place, question_id, turns, model, of) for model, of in models.items()
        }
        for turn in range(1, len(turns) + 1):
            query_id = f"{question_id}-{turn}"
            empty += [
                f"{query_id} {m}"
                for m, texts in by_model.items()
                if not has_visible_text(texts[turn - 1])
            ]
            replies = {
                model: texts[:turn]
                for model, texts in by_model.items()
                if has_visible_text(texts[turn - 1])
            }
            question, led = join_turns(turns[:turn], [*replies.values()])
            documents = tuple(map(Document, replies, led))
            pools.append(Pool(query_id, question, documents))
    if not pools:
        raise InputError(f"{questions}: has no question")
    return FilledPools(
        pools, [line for line in [describe_left_out("empty answers", empty)] if line]
    )


def make_pair_pools(
    questions: str, answers: Sequence[str], votes: str, *, number: int = 0, seed: int = 0
) -> tuple[FilledPools, pa.Table]:
    """Make a pool for each pair of answers that people compared; return also the votes on it.

    The query id is ``{question_id}-{turn}:{a}:{b}``; A is the model that the first vote on the two
    has as ``model_a``, and stands first.

    Args:
        questions: as in `pools`.
        answers: as in `pools`.
        votes: path or URL of people's votes, FastChat's lines.
        number: how many pairs to draw; 0 for all.
        seed: which are drawn follows from it.

    Returns:
        The pools in the order of the questions, and the votes with the columns of
        ``PREFERENCES``, A and B as in the pool. Pairs with an empty answer are left out, and noted.

    Raises:
        InputError: as `pools`, a vote is on an answer that is not there, or there are fewer pairs
            than wanted.
    """
    filled = make_turn_pools(questions, answers)
    compared = _compared(votes, filled.pools)
    shown = [
        (pool, of)
        for pool in filled.pools
        for of in compared.get(pool.query_id, {}).values()
        if _two(of) <= {document.id for document in pool.documents}
    ]
    pair_pools: list[Pool] = []
    labels: list[Mapping[str, Any]] = []
    for pool, of in sample_pairs(shown, number, seed, votes):
        a, b = of[0]["doc_id_a"], of[0]["doc_id_b"]
        query_id = f"{pool.query_id}:{a}:{b}"
        answer = {document.id: document for document in pool.documents}
        pair_pools.append(Pool(query_id, pool.query, (answer[a], answer[b])))
        labels += [_label(vote, query_id, a, b) for vote in of]
    return FilledPools(pair_pools, filled.notes), pa.Table.from_pylist(labels, PREFERENCES)


def _compared(votes: str, pools: Iterable[Pool]) -> dict[str, dict[frozenset[str], list[_Vote]]]:
    """Group the votes by query and by pair of answers."""
    queries = {pool.query_id for pool in pools}
    models = {document.id for pool in pools for document in pool.documents}
    part = read_judgments(votes, "human")
    if not part.votes:
        raise InputError(f"{votes}: holds no votes on pairs")
    groups: dict[str, dict[frozenset[str], list[_Vote]]] = {}
    for row, vote in enumerate(part.table.to_pylist()):
        query_id, two = vote["query_id"], _two([vote])
        if query_id not in queries:
            raise InputError(f"{part.place(row)}: no question has the turn {query_id}")
        if strange := sorted(two - models):
            raise InputError(f"{part.place(row)}: there are no answers of {strange[0]}")
        groups.setdefault(query_id, {}).setdefault(two, []).append(vote)
    return {
        query_id: {two: groups[query_id][two] for two in sorted(groups[query_id], key=sorted)}
        for query_id in groups
    }


def _two(votes: Sequence[_Vote]) -> frozenset[str]:
    return frozenset((votes[0]["doc_id_a"], votes[0]["doc_id_b"]))


def _label(vote: _Vote, query_id: str, a: str, b: str) -> _Vote:
    """Return a vote as one on the pair A and B, even if it had B as its first answer."""
    turn = 1.0 if vote["doc_id_a"] == a else -1.0
    keys = {"query_id": query_id, "doc_id_a": a, "doc_id_b": b, "judge": vote["judge"]}
    return keys | {"preference": turn * vote["preference"] + 0.0}


def _questions(url: str) -> Iterator[tuple[str, str, _Turns]]:
    """Yield the place of each question, its id and its turns."""
    ids: set[str] = set()
    for place, row in probe(url).rows():
        question_id = _id(place, row, "question_id")
        turns = _turns(place, row)
        if not all(map(has_visible_text, turns)):
            raise InputError(f"{place}: a turn of question {question_id} is empty")
        if question_id in ids:
            raise InputError(f"{place}: question {question_id} is there twice")
        ids.add(question_id)
        yield place, question_id, turns


def _answers(urls: Iterable[str]) -> dict[str, dict[str, tuple[str, _Turns]]]:
    """Read the answers by model and question: the place of each, and its turns."""
    by_model: dict[str, dict[str, tuple[str, _Turns]]] = {}
    for place, row in (line for url in _files(urls) for line in probe(url).rows()):
        model, question_id = _id(place, row, "model_id"), _id(place, row, "question_id")
        choices = row.get("choices")
        if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
            raise InputError(f"{place}: has no choices")
        by_question = by_model.setdefault(model, {})
        if question_id in by_question:
            raise InputError(f"{place}: a second answer of {model} to question {question_id}")
        by_question[question_id] = place, _turns(place, choices[0])
    if not by_model:
        raise InputError(f"{', '.join(urls)}: no answers")
    return by_model


def _files(urls: Iterable[str]) -> Iterator[str]:
    for url in urls:
        names = list_directory(url)
        if names is None:
            yield url
            continue
        lines = [name for name in names if is_jsonl(name)]
        if not lines:
            raise InputError(f"{url}: holds no .jsonl file")
        yield from (f"{url.rstrip('/')}/{name}" for name in lines)


def _own(
    place: str, question_id: str, label: _Turns, model: str, of: Mapping[str, tuple[str, _Turns]]
) -> _Turns:
    """Return a model's answers to a question, one for each turn."""
    if question_id not in of:
        file = next(iter(of.values()))[0].rpartition(":")[0]
        raise InputError(f"{place}: question {question_id} has no answer of {model} ({file})")
    origin, turns = of[question_id]
    if len(turns) != len(label):
        raise InputError(
            f"{origin}: {model} answers {counted(len(turns), 'turn')} of question {question_id}, "
            f"which has {len(label):,}"
        )
    return turns


def _id(place: str, row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise InputError(f"{place}: has no {name}")
    return str(value)


def _turns(place: str, row: Mapping[str, Any]) -> _Turns:
    turns = row.get("turns")
    if not (isinstance(turns, list) and turns and all(isinstance(text, str) for text in turns)):
        raise InputError(f"{place}: has no turns, a list of texts")
    return tuple(turns)
