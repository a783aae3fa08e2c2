"""Relevance labels from panels of LLM judges, and fair contests between rerankers, on Ray."""

__version__ = "0.1.0"
