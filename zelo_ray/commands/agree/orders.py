"""Compare two sets of labels: the order in which they put runs, and documents they differ on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.command_options import AgreeOptions
from zelo_ray.errors import InputError, OptionError
from zelo_ray.evaluation.measures import Measure, Truth, evaluate, parse_measure, rank_run
from zelo_ray.evaluation.significance import ALPHA, TIE, compare_pairs, mean_metrics
from zelo_ray.evaluation.systems import discordant, estimate_tau, tau_ap, tau_b
from zelo_ray.files.candidates import describe_doubts
from zelo_ray.files.judges import HUMAN, OTHERS, PANEL, AllJudgments
from zelo_ray.files.judgments import has_logits, read_qrels, read_runs
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import list_directory
from zelo_ray.files.wording import counted
from zelo_ray.names import did_you_mean, split_name
from zelo_ray.records import Comparison
from zelo_ray.report.figures import Figure, make_figure

TAU_B, TAU_AP = "tau-b", "tau-AP"
OPPOSITE, OPPOSITE_SIGNIFICANT = "opposite order", "opposite order, of significant pairs"
MEAN = "mean by labels"
"""The scale of figures that are a run's mean by labels."""
_ITEM = ["query_id", "doc_id"]
_SORTED = [(name, "ascending") for name in _ITEM]
_SCORES = "scores of "


@dataclass
class Orders:
    """What is known of the order of runs, and of documents on which labels differ.

    ``compared`` are two raters, and the lowest relevant label of each.
    """

    figures: list[Figure] = field(default_factory=list)
    effects: list[dict[str, Any]] = field(default_factory=list)
    differing: pa.Table = field(default_factory=lambda: pa.table({}))
    compared: tuple[str, str, float, float] | None = None
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


class _Board:
    """Runs measured by one rater's labels: ``values`` is [runs, queries]."""

    def __init__(
        self, rater: str, labels: pa.Table, runs: Mapping[str, pa.Table], measure: Measure
    ) -> None:
        self.rater, self.labels, self.runs, self.measure = rater, labels, runs, measure
        truth = Truth(labels)
        rankings = [rank_run(truth, run) for run in runs.values()]
        self.values = np.stack([evaluate([measure], ranking)[0] for ranking in rankings])
        self.answered = np.stack([ranking.answered for ranking in rankings])
        self.common = np.where(self.answered, self.values, np.nan)

    @cached_property
    def comparisons(self) -> dict[tuple[str, str], Comparison]:
        """Return every two runs compared on the queries that both answered."""
        rows = compare_pairs({"": self.common}, [*self.runs], confidence=0.95)
        return {(row.run_a, row.run_b): row for row in rows}

    def only(self, others: pa.Table, keys: Sequence[str]) -> "_Board":
        """Return the board by the labels of those items, or queries, that others have, too."""
        labels = self.labels.join(others.select(keys), list(keys), join_type="left semi")
        if len(labels) == len(self.labels):
            return self
        return _Board(self.rater, labels.sort_by(_SORTED), self.runs, self.measure)

    def means(self) -> Iterator[Figure]:
        """Yield the runs' means; a query that a run did not answer counts as 0."""
        estimates = mean_metrics(self.values, 0.95)
        columns = (estimates.mean, estimates.low, estimates.high, estimates.queries)
        rows = zip(self.runs, *(column.tolist() for column in columns), strict=True)
        for run, value, low, high, queries in rows:
            what = str(self.measure)
            yield Figure(run, self.rater, what, MEAN, value, low, high, queries=queries)

    def cohens_d(self, pair: tuple[str, str]) -> float:
        """Return the mean difference of two runs in standard deviations of the difference.

        0 if all are 0, infinite if all are equal and not 0, NaN with fewer than two.
        """
        first, second = (self.common[[*self.runs].index(run)] for run in pair)
        differences = (first - second)[~np.isnan(first - second)]
        if len(differences) < 2:
            return nan
        mean, spread = float(differences.mean()), float(differences.std(ddof=1))
        if abs(mean) <= TIE:
            return 0.0
        return mean / spread if spread > TIE else float(np.copysign(np.inf, mean))


def measure_orders(judgments: AllJudgments, options: AgreeOptions) -> Orders:
    """Compare the order of runs by each rater's labels with that by people's or other judges'."""
    labels, orders = _labels(judgments, options), Orders()
    runs = read_runs(options.runs, split_columns(options.columns)) if options.runs else {}
    measure = parse_measure(options.measure)
    if measure.kind.about_labels:
        raise OptionError(f"{measure} measures the labels, not a run")
    orders.notes += describe_doubts(runs, measure.cutoff) if runs else []
    pair = orders.compared = _two_sets(labels, judgments, options)
    if pair:
        orders.differing = find_differing(labels[pair[0]], labels[pair[1]], *pair[2:])
    if not runs:
        return orders
    boards = {name: _Board(name, table, runs, measure) for name, table in labels.items()}
    chosen = bool(options.relevant)  # what one side does not know is not relevant there
    pairs = [*_board_pairs(boards, judgments)]
    if pair and chosen:
        pairs = [(boards[pair[0]], boards[pair[1]])]
    for first, second in pairs:
        keys = ["query_id"] if chosen else _ITEM
        a, b = first.only(second.labels, keys), second.only(first.labels, keys)
        if len(runs) > 1 and len(a.labels) and len(b.labels):
            orders.figures += _compare_orders(a, b)
        if not chosen and second.rater in judgments.judges and len(a.labels) < len(first.labels):
            orders.missing.append(
                f"{second.rater} graded {len(a.labels):,} of the "
                f"{counted(len(first.labels), 'document')} that {first.rater} graded, and its "
                "order of runs is by these"
            )
        if pair and (a.rater, b.rater) == pair[:2]:
            boards |= {a.rater: a, b.rater: b}
            orders.effects = [*_effects(a, b)]
            orders.missing += [
                f"{run} did not rank {counted(int(n), 'query', 'queries')}, which count as 0"
                for run, n in zip(runs, (~a.answered).sum(axis=1), strict=True)
                if n
            ]
    orders.figures += [figure for board in boards.values() for figure in board.means()]
    if not any(row.what == TAU_B for row in orders.figures):
        orders.missing.append(
            f"the order of runs needs two runs, and labels of two raters: there are {len(runs)}, "
            f"and labels of {', '.join(labels) or 'nobody'}"
        )
    return orders


def _labels(judgments: AllJudgments, options: AgreeOptions) -> dict[str, pa.Table]:
    """Return the labels of people, of every judge, of the panel, and scores of runs of votes."""
    graded = {HUMAN: judgments.human} if len(judgments.human) else {}
    for judge in judgments.judges:
        graded[judge] = judgments.grades.filter(pc.equal(judgments.grades["judge"], judge))
    labels = {
        name: _mean(table.rename_columns({"grade": "relevance"})) for name, table in graded.items()
    }
    if len(judgments.panel) > 1:
        labels[PANEL] = _mean(pa.concat_tables([labels[judge] for judge in judgments.panel]))
    for source in options.sources:
        place = split_name(source)[1].rstrip("/")
        names = list_directory(place) or ()
        if "scores.parquet" in names and "grades.parquet" not in names and has_logits(place):
            scores = read_qrels(place).select([*_ITEM, "relevance"])
            labels[f"{_SCORES}{place}"] = scores.sort_by(_SORTED)
    return labels


def _mean(labels: pa.Table) -> pa.Table:
    table = labels.group_by(_ITEM).aggregate([("relevance", "mean")])
    return table.rename_columns({"relevance_mean": "relevance"}).sort_by(_SORTED)


def _two_sets(
    labels: Mapping[str, pa.Table], judgments: AllJudgments, options: AgreeOptions
) -> tuple[str, str, float, float] | None:
    """Return the raters of the two sets to compare, with their lowest relevant labels."""
    cuts = dict(each.rpartition("=")[::2] for each in options.relevant)
    if unknown := [name for name in cuts if name not in labels]:
        near, known_labels = did_you_mean(unknown[0], labels), f"there are {', '.join(labels)}"
        raise OptionError(f"--relevant: no labels of {unknown[0]}{near}; {known_labels}")
    judges = [PANEL] if PANEL in labels else [*judgments.judges]
    names = [*cuts] or [*([HUMAN] if HUMAN in labels else []), *judges[:1]]
    if len(names) != 2 and not cuts and len(judgments.judges) == 2:
        names = [*judgments.judges]
    if len(names) != 2:
        return None
    a, b = names
    if not {*labels[a]["query_id"].to_pylist()} & {*labels[b]["query_id"].to_pylist()}:
        if cuts:
            raise InputError(f"no query has labels of both {a} and {b}")
        return None

    def lowest(name: str) -> float:
        usual = 1.0 if pc.max(labels[name]["relevance"]).as_py() <= 1 else 2.0
        return float(cuts.get(name) or usual)

    return a, b, lowest(a), lowest(b)


def _board_pairs(
    boards: Mapping[str, _Board], judgments: AllJudgments
) -> Iterator[tuple[_Board, _Board]]:
    """Yield the reference (people, else the other judges) with each other board."""
    if HUMAN in boards:
        yield from ((boards[HUMAN], board) for name, board in boards.items() if name != HUMAN)
        return
    for judge in judgments.judges:
        others = [boards[name] for name in judgments.panel if name != judge]
        if len(others) == 1:
            yield others[0], boards[judge]
        elif others:
            labels = _mean(pa.concat_tables([board.labels for board in others]))
            board = boards[judge]
            yield _Board(OTHERS, labels, board.runs, board.measure), board
    scored = [board for name, board in boards.items() if name.startswith(_SCORES)]
    reference = boards.get(PANEL) or next((boards[name] for name in judgments.judges), None)
    yield from ((reference, board) for board in scored if reference)
    yield from combinations(scored, 2) if not reference else ()


def _compare_orders(a: _Board, b: _Board) -> list[Figure]:
    """Return how far the order by B's labels is that by A's."""
    one, other = (np.nan_to_num(board.values) for board in (a, b))
    names, scale = (b.rater, a.rater), str(a.measure)
    figures = [
        make_figure(*names, what, estimate_tau(one, other, tau), scale=scale, items=len(a.runs))
        for what, tau in ((TAU_B, tau_b), (TAU_AP, tau_ap))
    ]
    against = discordant(one.mean(axis=1), other.mean(axis=1))
    significant = np.array([row.p_holm < ALPHA for row in a.comparisons.values()])
    for what, pairs in ((OPPOSITE, np.ones_like(significant)), (OPPOSITE_SIGNIFICANT, significant)):
        count = int(pairs.sum())
        share = float((against & pairs).sum() / count) if count else nan
        figures.append(Figure(*names, what, scale, share, items=count))
    return figures


def _effects(a: _Board, b: _Board) -> Iterator[dict[str, Any]]:
    """Yield every two runs by both labels; A and B have the same queries, in the same order.

    ``difference`` is of the means on the queries that both runs answered, ``d`` the same in
    standard deviations over queries (Cohen's d of paired samples, d_z of Lakens 2013, Front.
    Psychol. 4:863, with n - 1), and ``p`` of the paired t-test, after Holm's correction over all
    pairs of runs by these labels.
    """
    for pair, row in a.comparisons.items():
        sides = {"a": (a, row), "b": (b, b.comparisons[pair])}
        effect: dict[str, Any] = {f"rater_{n}": board.rater for n, (board, _) in sides.items()}
        effect |= dict(zip(("run_a", "run_b"), pair, strict=True))
        for side, (board, each) in sides.items():
            figures = (each.difference, board.cohens_d(pair), each.p_holm)
            names = (f"difference_{side}", f"d_{side}", f"p_{side}")
            effect |= dict(zip(names, figures, strict=True))
        yield effect | {"queries": row.wins + row.ties + row.losses}


def find_differing(first: pa.Table, second: pa.Table, cut_a: float, cut_b: float) -> pa.Table:
    """Return the documents that one set calls relevant and the other does not, the worst first.

    A label by A is NaN if it has none; documents that B does not label do not count. ``best``: by B
    no document of the query is better, and none of the best is relevant by A. Worst are queries
    with such a document; then those whose label is farthest from the cut; then those with the most.
    """
    a, b = (
        table.select([*_ITEM, "relevance"]).to_pandas().rename(columns={"relevance": name})
        for table, name in ((first, "label_a"), (second, "label_b"))
    )
    rows = b[b["query_id"].isin(a["query_id"])].merge(a, on=_ITEM, how="left")
    query, by_a, by_b = rows["query_id"], rows["label_a"] >= cut_a, rows["label_b"] >= cut_b
    is_top = rows["label_b"] == rows.groupby("query_id")["label_b"].transform("max")
    is_known = (by_a & is_top).groupby(query).transform("any")  # to A
    rows = rows.assign(best=is_top & by_b & ~is_known, far=(rows["label_b"] - cut_b).abs())
    rows = rows[by_a != by_b]
    groups = rows.groupby("query_id")
    rows = rows.assign(
        beaten=groups["best"].transform("any"),
        farthest=groups["far"].transform("max"),
        size=groups["far"].transform("size"),
    )
    order = ["beaten", "farthest", "size", "query_id", "best", "far", "doc_id"]
    rows = rows.sort_values(order, ascending=[name in ("query_id", "doc_id") for name in order])
    return pa.table({name: rows[name].tolist() for name in (*_ITEM, "label_a", "label_b", "best")})
