"""MT-Bench's answers, marked with what people said of them, for the judge that knows."""

from dataclasses import replace
from pathlib import Path

from benchmarks.mt_bench import draw, read_fastchat, read_turns
from zelo_ray.records import Document, Pool


def pairs(folder: Path, number: int) -> list[Pool]:
    """Pairs that people compared; the better answer is worth 1, the other 0, and half for a tie.

    Args:
        folder: questions, models' answers and people's votes as FastChat lays them out.
        number: how many.
    """
    found = []
    for both in draw(read_fastchat(folder), number):
        lean = sum(vote["preference"] for vote in both.votes)
        worth = 0.5 if lean == 0 else float(lean > 0)
        found.append(_marked(both.pool, (1 - worth, worth)))
    return found


def pools(folder: Path, number: int, *, without: set[str]) -> list[Pool]:
    """First turns with every model's answer, each worth more than the one before it.

    Args:
        folder: questions and models' answers.
        number: how many.
        without: questions that are left out.
    """
    first = [pool for pool in read_turns(folder) if pool.query_id.endswith("-1")]
    kept = [pool for pool in first if pool.query_id.removesuffix("-1") not in without][:number]
    return [_marked(pool, range(len(pool.documents))) for pool in kept]


def _marked(pool: Pool, worths) -> Pool:
    """The mark comes first, where no cut takes it away."""
    marked = (
        Document(document.id, f"[[worth={worth:g}]]\n{document.content}", {"grade": worth})
        for document, worth in zip(pool.documents, worths, strict=True)
    )
    return replace(pool, documents=tuple(marked))
