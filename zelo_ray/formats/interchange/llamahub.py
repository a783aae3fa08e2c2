"""LlamaHub's file of people's judgments on MT-Bench, and others of its form.

It is LlamaIndex's ``LabelledPairwiseEvaluatorDataset``: one JSON object ``{"examples": [...]}``.
An example is a ``query``, an ``answer`` and a ``second_answer`` with who wrote them (``answer_by``,
``second_answer_by``: ``{"model_name", "type"}``), and a ``reference_score``: the share of people
who prefer the first, or what that came to (card of MtBenchHumanJudgementDataset, llamahub.ai).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange.compared_pairs import PREFERENCES, sample_pairs
from zelo_ray.formats.interchange.texts import FilledPools, describe_left_out, has_visible_text
from zelo_ray.formats.probe import FileProbe, probe
from zelo_ray.records import Document, Pool

_SECOND, _FIRST = 0.4, 0.6
"""A score below the one is a vote for the second answer, above the other for the first."""


@dataclass(frozen=True, slots=True)
class LlamaHubExample:
    """One judgment on two answers, A and B, of which A stood first when they were first judged.

    Negative preferences are for A; ``place`` says where it was read.
    """

    place: str
    query_id: str
    query: str
    a: Document
    b: Document
    preference: float

    def label(self, judge: str) -> dict[str, Any]:
        """Return the judgment as a row with the columns of ``PREFERENCES``."""
        ids = {"query_id": self.query_id, "doc_id_a": self.a.id, "doc_id_b": self.b.id}
        return {**ids, "preference": self.preference, "judge": judge}


def read_examples(source: FileProbe) -> list[LlamaHubExample]:
    """Read the judgments of a file, in their order.

    Ids of queries are ``{number}:{a}:{b}``: the number counts the file's different queries from 1,
    and both orders of a pair have one id. Ids of answers are the names of who wrote them.

    Raises:
        InputError: an example has not what it should have, or a pair's answers are others than
            where it was judged before.
    """
    numbers: dict[str, int] = {}
    first: dict[tuple[int, frozenset[str]], LlamaHubExample] = {}
    examples: list[LlamaHubExample] = []
    for place, row in source.rows():
        query = _text(place, row, "query")
        if not has_visible_text(query):
            raise InputError(f"{place}: its query is empty")
        number = numbers.setdefault(query, len(numbers) + 1)
        a, b = _answer(place, row, "answer"), _answer(place, row, "second_answer")
        if a.id == b.id:
            raise InputError(f"{place}: answer_by and second_answer_by are the same, {a.id}")
        example = LlamaHubExample(
            place, f"{number}:{a.id}:{b.id}", query, a, b, _preference(place, row)
        )
        of = first.setdefault((number, frozenset((a.id, b.id))), example)
        example = example if of.query_id == example.query_id else _turned(example, of.query_id)
        for answer, earlier in ((example.a, of.a), (example.b, of.b)):
            if answer != earlier:
                raise InputError(f"{place}: another answer of {answer.id} than at {of.place}")
        examples.append(example)
    return examples


def _turned(example: LlamaHubExample, query_id: str) -> LlamaHubExample:
    """Return the same judgment on B and A."""
    return replace(
        example, query_id=query_id, a=example.b, b=example.a, preference=0.0 - example.preference
    )


def make_example_pools(url: str, *, number: int = 0, seed: int = 0) -> tuple[FilledPools, pa.Table]:
    """Make a pool for each pair of answers that was compared; return also the votes on it.

    Args:
        url: path or URL of the file.
        number: how many pairs to draw; 0 for all.
        seed: which are drawn follows from it.

    Returns:
        The pools in the order of the file, and the votes with the columns of ``PREFERENCES``, each
        of a judge of its own, ``example 1`` and on. Pairs with an empty answer are left out, and
        noted.

    Raises:
        InputError: as `examples`, or there are fewer pairs than wanted.
    """
    of: dict[str, list[tuple[int, LlamaHubExample]]] = {}
    for row, example in enumerate(read_examples(_open(url)), 1):
        of.setdefault(example.query_id, []).append((row, example))
    empty = [key for key, [(_, first), *_] in of.items() if not _can_be_shown(first)]
    shown = sample_pairs([key for key in of if key not in {*empty}], number, seed, url)
    pools = [Pool(key, of[key][0][1].query, (of[key][0][1].a, of[key][0][1].b)) for key in shown]
    labels = [judgment.label(f"example {row}") for key in shown for row, judgment in of[key]]
    notes = [line for line in [describe_left_out("pairs with an empty answer", empty)] if line]
    return FilledPools(pools, notes), pa.Table.from_pylist(labels, PREFERENCES)


def _open(url: str) -> FileProbe:
    source = probe(url)
    if source.kind != "llamahub":
        raise InputError(
            f"{url}: holds no examples of two answers, as LlamaHub has them, but {source.summary}"
        )
    return source


def _can_be_shown(example: LlamaHubExample) -> bool:
    return has_visible_text(example.a.content) and has_visible_text(example.b.content)


def _text(place: str, row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise InputError(f"{place}: has no {name}, a text")
    return value


def _answer(place: str, row: Mapping[str, Any], name: str) -> Document:
    text, by = _text(place, row, name), row.get(f"{name}_by")
    who = (by.get("model_name") or by.get("type")) if isinstance(by, dict) else None
    if not (isinstance(who, str) and has_visible_text(who)):
        raise InputError(f"{place}: has no {name}_by that names a model")
    return Document(who, text)


def _preference(place: str, row: Mapping[str, Any]) -> float:
    score = row.get("reference_score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise InputError(f"{place}: the reference_score {score!r} is not a number from 0 to 1")
    return 0.0 if _SECOND <= score <= _FIRST else -1.0 if score > _FIRST else 1.0
