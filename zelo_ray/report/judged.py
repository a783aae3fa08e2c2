"""What an annotation run left: each of its files read once, when a section first asks for it."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from zelo_ray.report import details, panel
from zelo_ray.report.page import Link, short
from zelo_ray.report.source import Source


class Annotation:
    """An annotation run, of which each thing is read once, when a section first asks for it."""

    def __init__(self, source: Source, run: Mapping[str, Any]) -> None:
        self.source, self.run = source, run

    @cached_property
    def listed(self) -> list[details.Entry]:
        """The queries of the page, in the order of the input."""
        return details.entries(self.source.lines("annotated.jsonl"))

    @cached_property
    def places(self) -> dict[str, int]:
        """Where a query stands in the list."""
        return {entry.query_id: place for place, entry in enumerate(self.listed)}

    @cached_property
    def scores(self) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
        """All scores, their standard errors, and the mean of these by query."""
        columns = ("query_id", "doc_id", "score", "std_error", "comparisons", "rank")
        values, errors, means = [np.empty(0)], [np.empty(0)], {}
        for query_id, table in details.by_query(self.source.chunks("scores", columns)):
            error = table["std_error"].to_numpy()
            values.append(table["score"].to_numpy())
            errors.append(error)
            means[query_id] = float(error.mean())
            if query_id in self.places:
                entry = self.listed[self.places[query_id]]
                entry.scores, entry.std_error = table, means[query_id]
        return np.concatenate(values), np.concatenate(errors), means

    @cached_property
    def panel(self) -> panel.Panel:
        """The judges' votes, summed up."""
        if not self.source.has("votes.parquet"):
            return panel.Panel()
        return panel.panel_of(self.source.chunks("votes", panel.COLUMNS))

    def link(self, query_id: str) -> str | Link:
        """A query's id, which leads to it if the page lists it."""
        text = short(query_id, 60)
        return Link(text, f"q{self.places[query_id]}") if query_id in self.places else text
