"""Relevance labels from panels of LLM judges, and fair contests between rerankers, on Ray."""

from typing import Protocol

__version__ = "0.1.0"


class Reranker(Protocol):
    """What a reranker of your own is: a class with this method, whether it inherits or not.

    A bake-off names it ``module:Class`` or ``path/to/file.py:Class``, and makes it with its
    ``reranker_options``. Its attribute ``version`` tells when it has changed: while it is the same,
    later runs use the scores of earlier ones; without it, every run asks anew.
    """

    async def score(self, query: str, documents: list[str]) -> list[float]:
        """One finite number for each document, in their order; the higher, the more relevant."""
        ...
