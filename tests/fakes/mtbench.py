"""MT-Bench's answers, marked with what people said of them, for the judge that knows."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from zelo_ray.formats import fastchat
from zelo_ray.records import Document, Pool


def pairs(folder: Path, number: int, seed: int = 0) -> list[Pool]:
    """Pairs that people compared; the better answer is worth 1, the other 0, and half for a tie.

    Args:
        folder: questions, models' answers and people's votes as FastChat lays them out.
        number: how many.
        seed: of the choice.
    """
    votes = str(folder / "human.jsonl")
    filled, labels = fastchat.make_pair_pools(*_given(folder), votes, number=number, seed=seed)
    sums = defaultdict[str, float](float)
    for vote in labels.to_pylist():
        sums[vote["query_id"]] += vote["preference"]
    found = []
    for pool in filled.pools:
        lean = sums[pool.query_id]
        worth = 0.5 if lean == 0 else float(lean > 0)
        found.append(_marked(pool, (1 - worth, worth)))
    return found


def pools(folder: Path, number: int, *, without: set[str]) -> list[Pool]:
    """First turns with every model's answer, each worth more than the one before it.

    Args:
        folder: questions and models' answers.
        number: how many.
        without: questions that are left out.
    """
    turns = fastchat.make_turn_pools(*_given(folder)).pools
    first = [pool for pool in turns if pool.query_id.endswith("-1")]
    kept = [pool for pool in first if pool.query_id.removesuffix("-1") not in without][:number]
    return [_marked(pool, range(len(pool.documents))) for pool in kept]


def _given(folder: Path) -> tuple[str, list[str]]:
    return str(folder / "question.jsonl"), [str(folder / "model_answer")]


def _marked(pool: Pool, worths) -> Pool:
    """The mark comes first, where no cut takes it away."""
    marked = (
        Document(document.id, f"[[worth={worth:g}]]\n{document.content}", {"grade": worth})
        for document, worth in zip(pool.documents, worths, strict=True)
    )
    return replace(pool, documents=tuple(marked))
