"""Make the tables of a bake-off's rankers: places, rankings, metrics, and what is missing."""

from math import nan

import numpy as np
import pyarrow as pa

from zelo_ray.commands.bakeoff.families import Families
from zelo_ray.commands.bakeoff.measure import Measured
from zelo_ray.commands.bakeoff.rank import Asked
from zelo_ray.commands.bakeoff.rows import Place, Unjudged, Unranked
from zelo_ray.files.tables import schema_of, table_of
from zelo_ray.records import Mean, Metric, Ranked
from zelo_ray.rerankers.ranking import QueryCost

_UNJUDGED_DEPTH = 10


def tables_of(measured: Measured, asked: Asked, families: Families) -> dict[str, pa.Table]:
    """Return the tables of rankers, and of what each ranked, missed and took."""
    queries, silent = measured.truth.query_ids, set(measured.runs) - set(measured.names)
    means = {row.run: row for row in measured.means if row.measure == measured.leading}
    nothing = Mean("", "", nan, nan, nan, 0)
    failures, places = [*asked.failures], list[Place]()
    for name in [*measured.leaderboard, *sorted(silent)]:
        answered = np.zeros(len(queries), bool)
        if name not in silent:
            answered = measured.rankings[name].answered
        known = {each.query_id for each in failures if each.run == name}
        lost = [queries[q] for q in np.flatnonzero(~answered) if queries[q] not in known]
        failures += [Unranked(name, q, "missing", "it is not in the run", 0) for q in lost]
        mean, ranked = means.get(name, nothing), int(answered.sum())
        dollars, unpriced = asked.paid(name)
        places.append(
            Place(
                *(name, measured.leading, mean.mean, mean.low, mean.high),
                ranked=ranked,
                missing=len(queries) - ranked,
                dollars=dollars,
                unpriced=unpriced,
                note=asked.notes.get(name, ""),
                families=tuple(sorted(families.shared(name))),
                judges=tuple(sorted(families.judges_like(name))),
            )
        )
    columns = schema_of(Ranked).names
    runs = [
        table.select(columns).add_column(0, "run", pa.array([name] * len(table), pa.string()))
        for name, table in measured.runs.items()
    ]
    unjudged = [
        Unjudged(name, *each)
        for name, ranking in measured.rankings.items()
        for each in ranking.unjudged(_UNJUDGED_DEPTH)
    ]
    return {
        "leaderboard": table_of(places, Place),
        "metrics": _metrics(measured),
        "runs": pa.concat_tables(runs),
        "failures": table_of(failures, Unranked),
        "unjudged": table_of(unjudged, Unjudged),
        "times": table_of(asked.costs, QueryCost),
    }


def _metrics(measured: Measured) -> pa.Table:
    """Return every value, measure by measure and ranker by ranker."""
    queries, rankers, measures = measured.truth.query_ids, measured.names, [*measured.values]
    columns = {
        "run": np.tile(np.repeat(rankers, len(queries)), len(measures)),
        "query_id": np.tile(queries, len(measures) * len(rankers)),
        "measure": np.repeat(measures, len(rankers) * len(queries)),
        "value": np.concatenate([values.ravel() for values in measured.values.values()]),
    }
    return pa.table(columns, schema=schema_of(Metric))
