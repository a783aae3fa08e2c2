"""Provide fits and measures over frames and mappings, without files."""

from collections.abc import Mapping, Sequence
from math import nan
from os import fspath
from typing import Any

import numpy as np
import pyarrow as pa

from zelo_ray.api.bakeoff import qrels_table, run_table
from zelo_ray.api.frames import frame_to_table
from zelo_ray.api.results import Results
from zelo_ray.api.settings import is_place
from zelo_ray.api.tables import Table
from zelo_ray.commands.fit import fit_comparisons, write
from zelo_ray.commands.fit.comparisons import comparisons_in_memory, read_comparisons
from zelo_ray.evaluation.measures import Truth, default_measures, evaluate, parse_measures, rank_run
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.schema import split_columns
from zelo_ray.formats.probe import probe_table
from zelo_ray.options import FitOptions, load_options

_PRIOR_SD = 2.5


class FittedScores(Table):
    """Scores of documents.

    Attributes:
        unscored: by query, why it has no scores.
    """

    def __init__(self, table: pa.Table, unscored: Mapping[str, str]) -> None:
        super().__init__(table)
        self.unscored = dict(unscored)


class Metrics(Table):
    """Table of measures, one row per query of the truth: ``query_id`` and a column per measure."""

    def means(self) -> dict[str, float]:
        """Return the mean of each measure over the queries that define it; NaN where none does."""
        averages = {}
        for name in self.columns[1:]:
            values = self.to_arrow()[name].to_numpy()
            numbers = values[~np.isnan(values)]
            averages[name] = float(numbers.mean()) if numbers.size else nan
        return averages


def fit_votes(votes: Any, prior_sd: float = _PRIOR_SD, **options: Any) -> FittedScores:
    """Turn comparisons of two items, such as votes on pairs of documents, into scores.

    Fit Bradley-Terry query by query; by default with a Gaussian prior, and ties as half a win. Only
    the sign of a preference counts. With ``doc_id_a`` and ``doc_id_b`` a pair is one game, shared
    by the judges that voted on it; otherwise each row is a game. See `fitting.ratings`.

    Args:
        votes: a frame, a list of dicts, or the path or URL of a file: with winner and loser; or
            with two items (doc_id_a and doc_id_b, a and b, left and right, home and away ...) and
            preference in [-1, 1] (negative: A is better), winner, or a_wins and b_wins. Perhaps
            query_id, judge, ties, weight and swapped.
        prior_sd: standard deviation of the prior of a score, in logits.
        **options: those of ``zelo-ray fit``: ``mle``, ``scale``, ``out``; and ``columns``, a
            mapping from roles to names.

    Returns:
        query_id (where there is one), doc_id, score and std_error (logits, centred on 0 in each
        query), comparisons, rank (from 1) and wins; ``unscored`` has the queries whose comparisons
        determine no scores.

    Raises:
        InputError: a column or an id is missing, an answer is invalid, or an item is compared with
            itself.
        OptionError: an option is invalid.
        ValueError: the prior is not positive.

    Example:
        >>> votes = [
        ...     {"query_id": "q1", "doc_id_a": "x", "doc_id_b": "y", "preference": -0.8},
        ...     {"query_id": "q1", "doc_id_a": "y", "doc_id_b": "z", "preference": -1},
        ... ]
        >>> fit_votes(votes).to_pandas()[["doc_id", "score", "rank"]].round(2).values.tolist()
        [['x', 1.32, 1], ['y', 0.0, 2], ['z', -1.32, 3]]
    """
    if not 0 < prior_sd < np.inf:
        raise ValueError(f"prior_sd must be positive and finite, not {prior_sd}")
    arguments = {name: value for name, value in options.items() if value is not None}
    arguments |= {} if prior_sd == _PRIOR_SD else {"prior_sd": prior_sd}
    arguments |= {"out": fspath(arguments["out"])} if "out" in arguments else {}
    place = fspath(votes) if is_place(votes) else "-"
    settings = load_options(FitOptions, {**arguments, "source": place})
    if is_place(votes):
        comparisons = read_comparisons(place, split_columns(settings.columns))
    else:
        source = probe_table("votes", frame_to_table(votes, "votes"))
        comparisons = comparisons_in_memory(source, split_columns(settings.columns))
    fitted = fit_comparisons(comparisons, settings)
    if settings.out:
        write(settings.out, fitted.scores)
    return FittedScores(fitted.scores, fitted.unscored)


def measure(run: Any, qrels: Any, measures: Sequence[str] | str | None = None) -> Metrics:
    """Measure how well a run orders the documents of some qrels, query by query.

    Equal to ir_measures and trec_eval where they have the same measure; the conventions are those
    of `zelo_ray.evaluation.measures`: a query that the run lacks gets 0.

    Args:
        run: a frame of query_id, doc_id, score; a mapping of queries to documents to scores; or the
            path of a run: TREC, Parquet, or annotated JSONL.
        qrels: a frame of query_id, doc_id, relevance (or score, or grade); such a mapping; a `Run`;
            or the path of judgments of any kind, also annotated JSONL.
        measures: as ir_measures writes them; if None, those that suit the qrels.

    Returns:
        A row a query of the qrels and a column a measure; ``.means()`` has the means.

    Raises:
        MeasureError: there is no such measure.
        InputError, QrelsError, RunError: the run or the qrels are invalid.

    Example:
        >>> qrels = {"q1": {"d1": 3, "d2": 0, "d3": 1}}
        >>> run = {"q1": {"d1": 0.9, "d2": 0.8, "d3": 0.1}}
        >>> measure(run, qrels, ["nDCG@10", "P@2"]).means()
        {'nDCG@10': 0.963940433317, 'P@2': 0.5}
    """
    truth = Truth(_qrels(qrels))
    ranking = rank_run(truth, run_table(run, "run"))
    measure_names = [measures] if isinstance(measures, str) else measures
    wanted = default_measures(truth) if measure_names is None else parse_measures(measure_names)
    values = evaluate(wanted, ranking)
    columns = dict(zip(map(str, wanted), values, strict=True))
    return Metrics(pa.table({"query_id": pa.array(truth.query_ids, pa.string()), **columns}))


def _qrels(qrels: Any) -> pa.Table:
    if isinstance(qrels, Results):
        return read_qrels(qrels.out)
    if is_place(qrels):
        return read_qrels(fspath(qrels))
    return qrels_table(qrels, "qrels")
