"""Collect the figures of a run's judgments that warnings are made from."""

from collections.abc import Collection, Mapping
from math import atanh, isfinite, nan, sqrt, tanh
from typing import Any

import numpy as np

from zelo_ray.commands.annotate.report import effective
from zelo_ray.commands.annotate.report.panel_warnings import FEWEST, JudgingFigures, Span
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.evaluation.wilson import wilson_of
from zelo_ray.fitting.effective import correlation_of

_Z = 1.959964


def judging_figures(results: AnnotateResults) -> JudgingFigures:
    """Return the figures of a run, each of what is known."""
    panel, scores, options = results.panel, results.scores, results.options
    protocol_options = results.protocol.own_options
    error = scores.known("std_error")
    worth = effective.worth(results)
    return JudgingFigures(
        judges=[*dict.fromkeys((*results.run["judges"], *effective.names_of(results)))],
        first={name: (panel.first[name], votes) for name, votes in sorted(panel.votes.items())},
        both_orders=bool(options.get("both_orders")) or options.get("repeats", 1) > 1,
        tied=(sum(panel.tied.values()), sum(panel.votes.values())),
        flat=_flat(results),
        agreed={
            two: (panel.agreed[two] / pairs, *wilson_of(panel.agreed[two], pairs))
            for two, pairs in sorted(panel.pairs.items())
            if pairs
        },
        alike=_alike(results),
        same=effective.same(results),
        worth=worth if isfinite(worth[0]) and worth[1] != np.inf else (nan, nan),
        split=(results.ambiguous.num_rows, len(scores.known("grade"))),
        error=float(error.mean()) if len(error) else nan,
        spread=_spread(results),
        prior=options.get("prior_sd") or nan,
        freedom=max(1, len(error) - len(scores.query_ids)),
        unit=results.unit,
        more=_more(protocol_options, options, _documents(results)),
        orders=_orders(protocol_options),
    )


def _flat(results: AnnotateResults) -> dict[str, str]:
    """Find judges that said the same of everything, too often to be chance."""
    panel, by_judge = results.panel, dict[str, str]()
    for name, counts in sorted(results.gradings.counts.items()):
        if counts.sum() >= FEWEST and counts.max() == counts.sum():
            by_judge[name] = f"gave grade {counts.argmax()} to every document"
    for name, votes in sorted(panel.votes.items()):
        if votes >= FEWEST and panel.tied[name] == votes and name not in by_judge:
            by_judge[name] = "called every comparison a tie"
    return by_judge


def _documents(results: AnnotateResults) -> int:
    """Return the median number of documents of a query."""
    scores = results.scores
    sizes = np.diff(np.append(scores.first, len(scores.columns.get("score", ()))))
    return int(np.median(sizes)) if len(sizes) else 0


def _more(option_names: Collection[str], options: Mapping[str, Any], documents: int) -> str:
    """Say which options of the protocol make scores more certain."""
    again = (
        "--repeats 2 and more judges ask more"
        if "repeats" in option_names
        else "More judges ask more"
    )
    if "cycles" in option_names and (cycles := options.get("cycles")):
        if 2 * cycles >= documents - 1:  # every pair is asked
            return again
        return f"--cycles {2 * cycles} asks up to twice as much"
    if "calls_per_document" in option_names and options.get("calls_per_document"):
        return f"--calls-per-document {2 * options['calls_per_document']:g} asks more"
    return again


def _orders(option_names: Collection[str]) -> str:
    """Say which option of the protocol asks each pair in both orders; "" if none does."""
    if "both_orders" in option_names:
        return "Ask each pair in both orders (--both-orders)"
    return "Ask each pair in both orders (--repeats 2)" if "repeats" in option_names else ""


def _alike(results: AnnotateResults) -> dict[tuple[str, str], Span]:
    """Return the correlation of every two judges' grades, with its interval (Fisher's z)."""
    correlations = {}
    for two, table in sorted(results.gradings.confusion.items()):
        r, items = correlation_of(table), int(table.sum())
        if isfinite(r) and items > 3:
            z, reach = atanh(np.clip(r, -0.999999, 0.999999)), _Z / sqrt(items - 3)
            correlations[two] = (r, tanh(z - reach), tanh(z + reach))
    return correlations


def _spread(results: AnnotateResults) -> float:
    """Return the root mean square of scores' standard deviations per query; NaN where unknown."""
    scores = results.scores
    values, first = scores.columns.get("score"), scores.first
    if values is None or not len(values):
        return nan
    sizes = np.diff(np.append(first, len(values)))
    means = np.add.reduceat(values, first) / sizes
    apart = np.add.reduceat((values - np.repeat(means, sizes)) ** 2, first)
    mask = (sizes > 1) & np.isfinite(apart)
    return sqrt(float(np.mean(apart[mask] / (sizes[mask] - 1)))) if mask.any() else nan
