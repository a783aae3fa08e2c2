"""``fit``: ratings from anybody's comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from zelo_ray.commands.fit.queries import Rated, rated
from zelo_ray.errors import InputError
from zelo_ray.fitting.outcomes import OutcomeModel
from zelo_ray.formats.files import writing
from zelo_ray.formats.formulas import guard
from zelo_ray.formats.interchange.comparisons import Comparisons, read_comparisons
from zelo_ray.formats.wording import counted
from zelo_ray.options.fit import FitOptions, kind_of_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Scores and effects that were fitted to comparisons."""

    scores: pa.Table
    """query_id (where the comparisons name any), doc_id, score, std_error, comparisons, rank and
    wins, best first; a tie is half a win"""
    effects: pa.Table
    """query_id, effect (``order`` or ``tie``), value and std_error, in logits"""
    unscored: Mapping[str, str]
    """by query, why it has no scores"""
    rows: int
    """of the comparisons that count"""
    notes: tuple[str, ...] = ()


def fit(options: FitOptions) -> Fitted:
    """Read comparisons, fit them, and write the scores where a place is given.

    Raises:
        OptionError: a column's role does not exist.
        InputError: the comparisons cannot be read or used, or no query has scores.
    """
    comparisons = read_comparisons(options.source, options.named)
    left_out = f"{counted(comparisons.missing, 'row')} without an answer left out"
    fitted = fitted_to(comparisons, options, (left_out,) if comparisons.missing else ())
    if not len(fitted.scores):
        query_id, why = next(iter(fitted.unscored.items()), ("", "it has no comparisons"))
        of = f"query {query_id}: " if comparisons.queries and query_id else ""
        raise InputError(f"{options.source}: {of}{why}")
    if options.out:
        write(options.out, fitted.scores)
    return fitted


def fitted_to(comparisons: Comparisons, options: FitOptions, notes: tuple[str, ...] = ()) -> Fitted:
    """Fit each query by itself. The order of the rows changes no bit.

    Raises:
        InputError: the order effect is wanted, and the rows do not tell who stood first; or no
            item is called as the reference.
    """
    if options.order_effect and not comparisons.ordered:
        raise InputError(
            "order_effect: the columns do not say who stood first; winner and loser do not, and "
            "swapped is to be true or false in every row"
        )
    model = OutcomeModel(
        prior_sd=None if options.mle or options.firth else options.prior_sd,
        firth=options.firth,
        ties=options.ties,
        order=options.order_effect,
    )
    shared = comparisons.votes if options.games is None else options.games == "pairs"
    rating: Rated = rated(comparisons.table, model, options, shared=shared)
    scores = rating.scores if comparisons.queries else rating.scores.drop_columns(["query_id"])
    return Fitted(
        scores=scores,
        effects=rating.effects,
        unscored=rating.unscored,
        rows=len(comparisons.table),
        notes=notes,
    )


def write(url: str, scores: pa.Table) -> None:
    """Write scores as the ending of the file's name says."""
    kind = kind_of_file(url)
    with writing(url) as file:
        if kind == ".parquet":
            pq.write_table(scores, file)
        elif kind in (".csv", ".tsv"):
            mark = "\t" if kind == ".tsv" else ","
            for name in {"query_id", "doc_id"} & {*scores.column_names}:
                names = pa.array(map(guard, scores[name].to_pylist()), pa.string())
                scores = scores.set_column(scores.column_names.index(name), name, names)
            how = pa.csv.WriteOptions(delimiter=mark, quoting_style="needed")
            pa.csv.write_csv(scores, file, how)
        elif kind == ".json":
            file.write(orjson.dumps(scores.to_pylist(), option=orjson.OPT_INDENT_2) + b"\n")
        else:
            for row in scores.to_pylist():
                file.write(orjson.dumps(row) + b"\n")
