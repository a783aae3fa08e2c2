"""The report of `agree`: how far judges agree with people and each other, or what changed."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np

from zelo_ray.commands.agree import changes, measure, orders
from zelo_ray.evaluation import consensus
from zelo_ray.evaluation.agreement import scale_name
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.significance import ALPHA
from zelo_ray.evaluation.votes import CHANCE
from zelo_ray.files.judges import HUMAN, OTHERS
from zelo_ray.files.wording import counted
from zelo_ray.report import charts
from zelo_ray.report.figures import Row, Shown, best_first, cell_of, figures_section, pick
from zelo_ray.report.model import (
    Cell,
    Part,
    Report,
    Section,
    Severity,
    Warn,
    chart,
    name_some,
    table,
    warn_of_demonstration,
)
from zelo_ray.report.results import Results

_LEADING = ("kappa-quadratic", "kappa", "alpha-ordinal")
_COLUMNS = ("kappa-quadratic", "kappa", "alpha-ordinal", "agreement", "fleiss", "ac2-quadratic")
"""Coefficients that have a column in tables, if they were computed; charts have all."""
_MANY = 12
"""Raters of whom every two have a picture of their own."""
_LITTLE = 0.2
"""Below this (commonly called "slight" agreement) a judge is of no use."""
_FLIPS = 0.25
"""Of pairs seen in both orders. Random votes reach .5; from half of that, much is noise."""
_SWAY = 0.05
"""How far from .5 the share of what is shown first may be."""
_ITEMS = 10
"""The fewest votes or pairs for a warning of a bias."""
_CONTRADICTED = 0.1
"""Above this share of queries, two sets of labels measure different things."""


def build_report(results: Results) -> Report:
    """Build the report of `agree`."""
    if results.record["compares"] == "runs":
        return _report_of_changes(results)
    return _report_of_raters(results)


# --- two runs of the same judges ------------------------------------------------------------------


def _report_of_changes(results: Results) -> Report:
    rows, record = results.rows("figures"), results.record
    judges = [*dict.fromkeys(row["of"] for row in rows if row["of"] != changes.PANEL)]
    changed, queries = record["changed"], min(row["queries"] for row in rows)
    who = name_some(changed) or f"None of {counted(len(judges), 'judge')}"
    notes = [f"The runs differ: {note}." for note in record["notes"]]
    if queries < record["needed"]:
        needed = counted(record["needed"], "query", "queries")
        few = f"{queries:,} are too few: no change can be significant with fewer than {needed}."
        notes.append(few)
    tested = figures_section(
        "judges",
        "Judges",
        sorted(rows, key=lambda row: row["of"] == changes.PANEL),
        {
            changes.LEVEL: Shown("new less old", "+z.3f", 0.0),
            changes.WITH_OTHERS: Shown("new less old", "+z.3f", 0.0),
            changes.SAME: Shown("share", ".0%"),
            changes.KAPPA: Shown("kappa", ".2f"),
        },
        "Level: of grades their mean, of votes the preference for what is shown first; agreement "
        "with others: with the other judges' old judgments; both new less old, means over queries. "
        "p: paired t-test over queries, after Holm's correction for all judges. Share unchanged, "
        "kappa: new judgments beside old ones; kappa is quadratic for grades, and of votes that of "
        "the winner or a tie.",
        scale="judged",
    )
    old, new = record["options"]["sources"]
    return Report(
        title=f"What changed in {counted(len(judges), 'judge')}",
        tiles={"judges that changed": f"{len(changed)} of {len(judges)}", "queries": queries},
        lead=[f"{who} changed significantly."],
        sections=[*tested, *_changed_judgments(results)],
        notes=notes,
        made=f"{old} against {new}.",
        names=judges,
    )


def _changed_judgments(results: Results) -> Iterator[Section]:
    if "changes" in results:
        head, total = results.tables["changes"].head(300)
        columns: dict[str, Any] = {n: n for n in ("judge", "judged", "query_id", "item")}
        columns |= {side: lambda row, side=side: Cell(row[side], "g") for side in ("old", "new")}
        part = table(head.to_pylist(), columns, file="changes.parquet", total=total, open_rows=10)
        yield Section("changes", "Largest changes of judgments", [part])


# --- raters ---------------------------------------------------------------------------------------


def _report_of_raters(results: Results) -> Report:
    record, rows = results.record, results.rows("figures")
    scale = scale_name(record["options"]["levels"])
    agreed = [row for row in rows if row["what"] in COEFFICIENTS]
    graded = [row for row in agreed if row["scale"] not in measure.PAIR_SCALES]
    graded.sort(key=lambda row: (row["scale"] != scale, row["scale"]))
    voted = [row for row in agreed if row["scale"] in measure.PAIR_SCALES and row["items"]]
    voted.sort(key=lambda row: measure.PAIR_SCALES.index(row["scale"]))
    of_two = {row["what"] for row in graded if row["against"]}
    leading = next((name for name in _LEADING if name in of_two), next(iter(of_two), ""))
    kappas = pick(graded, against=HUMAN, what=leading, scale=scale)
    alphas = pick(voted, against=HUMAN, what="alpha-nominal", scale=measure.PAIRS)
    best, voters = best_first(kappas), best_first(alphas)
    count = len(record["panel"]) or len(record["voters"])
    tiles: dict[str, Any] = {}
    for row in pick(kappas, of=best[0]) if best else ():
        tiles[f"{leading}, best judge"] = cell_of(row)
    return Report(
        title=f"How {counted(count, 'judge')} agree{'s' if count == 1 else ''}"
        f"{' with people' if best or voters else ''}",
        tiles={**tiles, "judges": count, **record["counts"]},
        lead=[
            *_closest(kappas, leading),
            *_closest(alphas, "alpha on pairs"),
            *_trust(results, rows),
        ],
        sections=[
            *_of_pairs(voted, rows, voters),
            *_of_grades(graded, best, leading),
            *_confusion(results, best),
            *_consensus(results, rows),
            *_habits(rows, best or voters),
            *_orders(results, rows),
            *_differing(results),
        ],
        find_warnings=lambda: [
            *_near_chance([r for r in kappas if r["of"] in record["panel"]], "people", leading),
            *_near_chance(alphas, "outcomes", "alpha"),
            *(warn for row in rows for warn in _swayed(row)),
            *_of_labels(results),
            *warn_of_demonstration([*{*record["judges"], *record["voters"]}]),
        ],
        notes=(*record["missing"], *record["notes"]),
        made=f"{record['options']['levels']} grades.",
        names=[*record["judges"], *record["voters"]],
    )


def _closest(rows: Sequence[Row], coefficient: str) -> Iterator[str]:
    """Say which judge agrees with people most, and how far the others are from it."""
    ranked = sorted((r for r in rows if not isnan(r["value"])), key=lambda row: -row["value"])
    for first in ranked[:1]:
        text = f"{first['of']} agrees most with people: {coefficient} {cell_of(first).text()}."
        alike = sum(row["high"] >= first["low"] for row in ranked[1:])
        yield f"{text} {alike:,} of the other intervals overlap with that." if alike else text


def _by(names: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Return rows in the order of their scales, and the best judges first."""
    scales, last = [*dict.fromkeys(row["scale"] for row in rows)], len(names)
    place = {name: n for n, name in enumerate(names)}
    return sorted(rows, key=lambda r: (scales.index(r["scale"]), place.get(r["of"], last)))


def _of_pairs(voted: Sequence[Row], rows: Sequence[Row], best: Sequence[str]) -> Iterator[Section]:
    """Show agreement on pairs: with people, one judge more than another, and with each other."""
    yield from figures_section(
        "outcomes",
        "Verdicts and people",
        _by(best, pick(voted, against=HUMAN)),
        {name: Shown(name) for name in ("agreement", "alpha-nominal", "mcc", "kappa")},
        "How far each judge agrees with people on pairs that both judged. A verdict is the "
        "majority of votes: A is better, a tie, or B is better. Votes: each of the judge's "
        "against each person's.",
    )
    whats = ("more agreement", "more mcc", "more alpha-nominal")
    yield from figures_section(
        "differences",
        "Judge against judge",
        [row for row in rows if row["items"] and row["scale"] == measure.PAIRS],
        {what: Shown(what, "+z.3f", 0.0) for what in whats}
        | {"more alpha-nominal, in %": Shown("more alpha, in %", "+z.1f", 0.0)},
        "By how much more one judge agrees with people than another, on pairs that both and people "
        "judged, over the same samples of queries. Where the interval is above 0, the first agrees "
        "significantly more.",
        against="than",
    )
    yield from figures_section(
        "votes",
        "Judges and each other on pairs",
        [row for row in voted if row["against"] != HUMAN],
        {"agreement": Shown("agreement", neutral=0.5), "kappa": Shown("kappa")},
        "Agreement of every two judges on the pairs that both judged: of their verdicts, which are "
        "the majority of each one's votes, and of single votes.",
        against="and",
        matrix=True,
    )


def _of_grades(graded: Sequence[Row], best: Sequence[str], leading: str) -> Iterator[Section]:
    """Show agreement of grades: with people, of the panel, and of every two judges."""
    names = [*dict.fromkeys(row["what"] for row in graded)]
    columns = [name for name in _COLUMNS if name in names] or names[:3]
    shown = {
        name: Shown(name, neutral=0.5 if name == "agreement" else None, column=name in columns)
        for name in dict.fromkeys([*columns, *names])
    }
    yield from figures_section(
        "people",
        "Judges and people",
        _by(best, pick(graded, against=HUMAN)),
        shown,
        "How far each judge agrees with people on the documents that both graded, the best first; "
        "0 is agreement by chance. A scale such as >=2 counts grades from there on as relevant.",
    )
    yield from figures_section(
        "panel",
        "The panel as a whole",
        pick(graded, against=""),
        shown,
        "How far all judges agree, without people and with people as one more judge, on what two "
        "or more of them judged. If it is lower with people, judges are closer to each other than "
        "to people: they may share an error.",
        who="panel",
    )
    of_two = [row for row in graded if row["against"] and row["scale"] == graded[0]["scale"]]
    judges = {row["against"] for row in of_two} - {HUMAN}
    values = {
        (r["of"], r["against"]): np.nan_to_num(r["value"]) for r in pick(of_two, what=leading)
    }
    of_two.sort(key=lambda row: -values[row["of"], row["against"]])
    yield from figures_section(
        "between",
        "Judges and each other",
        of_two if judges else [],
        {name: shown[name] for name in ([leading] if len(judges) > _MANY else columns)},
        "Every two raters on the documents that both graded, the most alike first. Judges "
        "that grade alike are often of one model family: as a panel they are worth fewer than "
        "their number.",
        against="and",
        matrix=True,
    )


def _confusion(results: Results, best: Sequence[str]) -> Iterator[Section]:
    """Show grades of each judge against grades of people, or else of the other judges."""
    levels = results.record["options"]["levels"]
    counts: dict[tuple[str, str], np.ndarray] = {}
    for row in results.rows("confusion", scale=scale_name(levels)):
        matrix = counts.setdefault(
            (row["rater_a"], row["rater_b"]), np.zeros((levels, levels), int)
        )
        matrix[row["grade_a"], row["grade_b"]] = row["items"]
    pairs = [(HUMAN, judge) for judge in best] or [*counts][: _MANY + 1]
    pairs = [pair for pair in pairs if pair in counts and counts[pair].any()]
    if not pairs or (not best and len(pairs) > _MANY):
        return
    grades, pictures = [*map(str, range(levels))], {}
    for a, b in pairs:
        shares = counts[a, b] / np.maximum(1, counts[a, b].sum(axis=1, keepdims=True))
        pictures[f"{b} beside {a}"] = charts.matrix(grades, grades, shares, form=".0%")
    caption = (
        "Which share of the documents to which one rater gave a grade (rows) has which grade by "
        "the judge (columns). Right of the diagonal, the judge graded higher."
    )
    (a, b), cells = pairs[0], counts[pairs[0]].tolist()
    columns: dict[str, Any] = {"judge": lambda _: b, "beside": lambda _: a, "its grade": str}
    columns |= {f"judge: {n}": lambda grade, n=n: cells[grade][n] for n in range(levels)}
    first = table(range(levels), columns, file="confusion.parquet")
    yield Section("confusion", "Confusion matrices", [chart(pictures, caption, "judge"), first])


def _consensus(results: Results, rows: Sequence[Row]) -> list[Section]:
    """Show how often people agree with a panel, by how far its judges agree."""
    trust, order = results.record["options"]["trust"], [*consensus.LEVELS, consensus.ALL]
    levels = sorted(pick(rows, what=measure.PEOPLE_AGREE), key=lambda row: order.index(row["of"]))
    answers = Shown("share of people's answers that are the panel's", neutral=trust)
    share = Shown("share of all pairs or documents", ".1%")
    return figures_section(
        "consensus",
        "When the judges agree",
        [*levels, *pick(rows, what=measure.SHARE)],
        {measure.PEOPLE_AGREE: answers, measure.SHARE: share},
        "How often people agree with most of the judges, by how many these are. Where an interval "
        f"is above {trust:g}, the panel can be trusted blindly. Pairs that people tie are left "
        "out; a pair on which the judges are evenly split is half right.",
        who="judges",
        scale="of",
    )


def _trust(results: Results, rows: Sequence[Row]) -> Iterator[str]:
    """Say whether the panel can be trusted where all judges agree; of documents, on all grades."""
    trust = results.record["options"]["trust"]
    for row in pick(rows, of=consensus.LEVELS[0], what=measure.PEOPLE_AGREE):
        if ">=" not in row["scale"] and not isnan(row["low"]):
            [share] = pick(rows, of=row["of"], scale=row["scale"], what=measure.SHARE)
            verdict = f"the panel {'can' if row['low'] >= trust else 'cannot'} be trusted blindly"
            is_open = row["low"] < trust <= row["high"]
            where_open = "it cannot be told yet whether the panel can be trusted blindly"
            where = f"Where all judges agree ({share['value']:.0%} of {row['scale']})"
            rest = f"{where_open if is_open else verdict} ({trust:g})."
            yield f"{where}, people agree on {cell_of(row).text()}: {rest}"


# habits of judges, and votes


def _habits(rows: Sequence[Row], best: Sequence[str]) -> list[Section]:
    """Show how severe judges are, and what sways their votes."""
    against = HUMAN if pick(rows, what=measure.LENIENCY, against=HUMAN) else OTHERS
    whom = "people's" if against == HUMAN else "the mean of the other judges"
    habits = [
        {**row, "against": ""}
        for row in rows
        if row["items"] and (row["what"] != measure.LENIENCY or row["against"] == against)
    ]
    return figures_section(
        "judging",
        "Habits of the judges",
        _by(best, habits),
        {
            measure.LENIENCY: Shown(f"mean grade less {whom}", "+z.3f", 0.0),
            measure.POSITION: Shown("share won by what was shown first", neutral=0.5),
            measure.FLIPS: Shown("share of pairs whose winner changes with the order"),
            measure.ONE_SIDED: Shown("share of pairs decided in one order, tied in the other"),
            measure.CYCLES: Shown("share of triples that are cyclic", neutral=CHANCE),
        },
        f"Leniency: mean grade less {whom}, on the same documents. Position bias: share of decided "
        "votes for what was shown first; .5 is none, if the order was random. Order flips: of "
        "pairs seen in both orders, those with another winner; random votes reach .5. Cyclic "
        f"triples: A > B > C > A, of decided triples; random votes reach {CHANCE:g}.",
    )


# two sets of labels


def _orders(results: Results, rows: Sequence[Row]) -> list[Section]:
    """Show whether labels put runs in the same order."""
    taus = pick(rows, what=orders.TAU_B)
    first = best_first(taus)
    whats = {
        orders.TAU_B: Shown("tau-b"),
        orders.TAU_AP: Shown("tau-AP"),
        orders.OPPOSITE: Shown("share of pairs of runs", ".1%"),
        orders.OPPOSITE_SIGNIFICANT: Shown("share of pairs of runs", ".1%"),
    }
    return figures_section(
        "orders",
        "The order of runs",
        sorted((r for r in rows if r["what"] in whats), key=lambda row: first.index(row["of"])),
        whats,
        "How far labels put runs in the same order as those beside: 1 is the same order, 0 no "
        "relation. In tau-AP errors among the best runs weigh more. Intervals are rough. Opposite "
        "order: share of the pairs of runs, and of those that differ significantly by the labels "
        f"beside (p < {ALPHA}, Holm).",
        who="labels of",
        more=[*_boards(results, rows)],
    )


def _boards(results: Results, rows: Sequence[Row]) -> Iterator[Part]:
    """Yield the runs by both sets of labels, and how far every two are apart by each."""
    effects = results.rows("effects")
    if not effects:
        return
    a, b = results.record["relevant"][:2]
    means = pick(rows, scale=orders.MEAN)
    by_a, by_b = ({row["of"]: row for row in pick(means, against=side)} for side in (a, b))
    place_a, place_b = (
        {name: n for n, name in enumerate(best_first(side.values()), 1)} for side in (by_a, by_b)
    )
    columns: Mapping[str, Any] = {
        "run": lambda run: run,
        f"by {a}": lambda run: cell_of(by_a[run]),
        f"by {b}": lambda run: cell_of(by_b[run]),
        f"place by {a}": place_a.get,
        f"place by {b}": place_b.get,
    }
    text = f"Mean {means[0]['what']} with 95% intervals, best first by {b}."
    yield table(place_b, columns, text, file="figures.parquet")

    def d(side: str) -> Any:
        return lambda row: f"{row[f'd_{side}']:+z.2f}{'*' * (row[f'p_{side}'] < ALPHA)}"

    median = [float(np.nanmedian([abs(row[f"d_{side}"]) for row in effects])) for side in "ab"]
    count = [sum(row[f"p_{side}"] < ALPHA for row in effects) for side in "ab"]
    yield table(
        sorted(effects, key=lambda row: -abs(row["d_a"] - row["d_b"])),
        {"run": "run_a", "less": "run_b", f"d by {a}": d("a"), f"d by {b}": d("b")},
        "Cohen's d: the mean difference over queries, in standard deviations of that difference; * "
        f"is significant (p < {ALPHA}, Holm). By {a} {count[0]:,} of {len(effects):,} differ "
        f"significantly, by {b} {count[1]:,}; the median |d| is {median[0]:.2f} and "
        f"{median[1]:.2f}. First come those whose d differ most.",
        file="effects.parquet",
    )


def _differing(results: Results) -> Iterator[Section]:
    """List documents that are relevant by one set of labels alone."""
    rows = results.rows("differing")
    if not rows:
        return
    a, b, cut_a, cut_b = results.record["relevant"]
    columns: dict[str, Any] = {
        "query": "query_id",
        "document": "doc_id",
        a: lambda row: Cell(row["label_a"], ".3g"),
        b: lambda row: Cell(row["label_b"], ".3g"),
        "best": lambda row: "yes" if row["best"] else "",
    }
    queries = counted(len({row["query_id"] for row in rows}), "query", "queries")
    alone = sum(row["label_a"] >= cut_a for row in rows)
    caption = (
        f"In {queries} {alone:,} documents are relevant by {a} alone (from {cut_a:g}), and "
        f"{len(rows) - alone:,} by {b} alone (from {cut_b:g}); a dash is a document that {a} did "
        f"not judge. Queries come first whose best document by {b} is not relevant by {a}."
    )
    more: dict[str, Any] = {"file": "differing.parquet", "total": len(rows), "open_rows": 12}
    part = table(rows[:500], columns, caption, **more)
    yield Section("differing", f"Where {a} and {b} differ", [part])


# warnings


def _turned(effects: Sequence[Row]) -> list[Row]:
    """Return the pairs of runs that differ significantly by both labels, in opposite directions."""
    significant = [row for row in effects if row["p_a"] < ALPHA and row["p_b"] < ALPHA]
    return [row for row in significant if row["difference_a"] * row["difference_b"] < 0]


def _of_labels(results: Results) -> Iterator[Warn]:
    effects = results.rows("effects")
    advice = "Let people label the queries in which they differ: zelo-ray label"
    if turned := _turned(effects):
        pairs = counted(len(turned), "pair of runs differs", "pairs of runs differ")
        text = f"{pairs} significantly by both sets of labels, in opposite directions"
        yield Warn("truth_changed", "doubtful", text, advice, "orders")
    queries = len({row["query_id"] for row in results.rows("differing")})
    if effects and queries > _CONTRADICTED * effects[0]["queries"]:
        text = f"The two sets of labels differ on what is relevant in {queries:,} queries"
        yield Warn("contradiction", "note", text, advice, "differing")


def _near_chance(rows: Sequence[Row], section: str, coefficient: str) -> Iterator[Warn]:
    """Yield a warning for judges whose agreement with people is near chance, or below it."""
    rows = [row for row in rows if not isnan(row["low"])]
    poor = [row for row in rows if row["low"] <= 0 and row["high"] < _LITTLE]
    unsure = [row for row in rows if row["low"] <= 0 and row["high"] >= _LITTLE]

    def figures(some: Sequence[Row]) -> str:
        texts = [f"{row['of']} {cell_of(row, '.2f').text()}" for row in some]
        return f"{coefficient}: {name_some(texts)}"

    if poor:
        text = f"Agreement with people no better than by chance ({figures(poor)})"
        advice = "Leave such a judge out, or read why with zelo-ray explain"
        if len(poor) == len(rows):
            advice = "Give the judges the people's rubric, or use other models"
        severity: Severity = "wrong" if len(poor) == len(rows) else "doubtful"
        yield Warn("chance", severity, text, advice, section)
    if unsure:
        items = counted(min(row["items"] for row in unsure), "item")
        text = f"{items} are too few to tell agreement from chance ({figures(unsure)})"
        yield Warn("few_labels", "doubtful", text, "Label more: zelo-ray label", section)


def _swayed(row: Row) -> Iterator[Warn]:
    """Yield a warning of a judge whose votes hang on the order, where its interval is sure."""
    if row["items"] < _ITEMS or isnan(row["low"]):
        return
    text, figure = "", cell_of(row, ".2f").text()
    if row["what"] == measure.POSITION and (row["low"] > 0.5 + _SWAY or row["high"] < 0.5 - _SWAY):
        place = "first" if row["value"] > 0.5 else "second"
        text = f"prefers what comes {place}: what came first won {figure} of the time"
    if row["what"] == measure.FLIPS and row["low"] > _FLIPS:
        text = f"changes its winner with the order on {figure} of pairs"
    if text:
        advice = "Ask each pair in both orders (annotate --repeats 2), or use another model"
        yield Warn("place", "doubtful", f"{row['of']} {text}", advice, "judging")
