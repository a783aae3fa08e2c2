"""Write rows of features for learning to rank, in the form of SVMrank, RankLib and LightGBM."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from zelo_ray.formats.interchange.search_tools import RatedQueries

Scores = Mapping[str, Mapping[tuple[str, str], float]]
"""By run, the scores of documents by query_id and doc_id."""


def letor_lines(rated: RatedQueries, scores: Scores) -> Iterator[bytes]:
    """Yield ``GRADE qid:N 1:SCORE 2:SCORE # query_id doc_id`` for each graded document.

    Features are the scores of the runs, numbered from 1 in their order; one that a run does not
    have is left out, which readers of this form take for 0. A query's rows stand together, as
    readers need it; its number is its place.
    """
    for number, (pool, grades) in enumerate(rated, 1):
        for doc_id, grade in grades:
            features = [
                f"{feature}:{value:.9g}"
                for feature, by_pair in enumerate(scores.values(), 1)
                if isfinite(value := by_pair.get((pool.query_id, doc_id), float("nan")))
            ]
            names = f"{pool.query_id} {doc_id}".replace("#", "%23")
            yield " ".join([str(grade), f"qid:{number}", *features, "#", names]).encode()


def name_features(names: Sequence[str]) -> str:
    """Return what each feature is, for a message."""
    return ", ".join(f"{number} {name}" for number, name in enumerate(names, 1))
