"""The report of `agree`: how far judges agree with people and each other, or what changed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise, takewhile
from math import isinf, isnan, nan
from typing import Any

import numpy as np

from zelo_ray.commands.agree import changes, orders, votes
from zelo_ray.commands.agree.grades import LENIENCY
from zelo_ray.evaluation.agreement import scale_name
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.votes import CHANCE
from zelo_ray.files.judges import HUMAN, OTHERS, PANEL, WITH_HUMAN
from zelo_ray.files.wording import counted
from zelo_ray.fitting import consensus
from zelo_ray.report import charts
from zelo_ray.report.demonstration import warn_of_demonstration
from zelo_ray.report.figures import Row, Shown, best_first, cell_of, figures_section, pick
from zelo_ray.report.model import (
    DASH,
    Cell,
    Chart,
    Part,
    Report,
    Section,
    Table,
    Value,
    Warn,
    chart,
    estimate,
    name_some,
    table,
)
from zelo_ray.report.results import Results

_LEADING = ("kappa-quadratic", "kappa", "alpha-ordinal")
_COLUMNS = ("kappa-quadratic", "kappa", "alpha-ordinal", "agreement")
_OF_MANY = ("fleiss", "alpha-ordinal", "ac2-quadratic")
"""Coefficients that have a column in tables, if they were computed."""
_VERDICTS = ("agreement", "alpha-nominal", "mcc", "kappa")
_MANY_RATERS = 12
_DIFFERENCES, _DIFFERING = 60, 500
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
_READING = (
    "For kappa, pi, alpha, AC and MCC, 0 is agreement by chance and 1 is perfect agreement. "
    "Intervals are 95%, over samples of 5 queries or more. A dash is an undefined figure: all "
    "judgments are the same, or no item was judged in common."
)


def build_report(results: Results) -> Report:
    """Build the report of `agree`."""
    if results.record["compares"] == "runs":
        return _report_of_changes(results)
    return _Raters(results).report()


# --- two runs of the same judges ------------------------------------------------------------------


def _report_of_changes(results: Results) -> Report:
    rows, record = results.rows("figures"), results.record
    judges = [*dict.fromkeys(row["of"] for row in rows if row["of"] != changes.PANEL)]
    changed, queries = record["changed"], min(row["queries"] for row in rows)
    lead = "The judge did not change significantly."
    if len(judges) > 1:
        lead = f"None of the {len(judges):,} judges changed significantly."
    if changed:
        lead = f"{name_some(changed)} changed significantly."
    notes = [f"The runs differ: {note}." for note in record["notes"]]
    if len(judges) == 1:
        notes.append(
            "With one judge only its level was tested: kappa and the share of unchanged judgments "
            "show whether it began to guess."
        )
    few = queries < record["needed"]
    if few:
        needed = counted(record["needed"], "query", "queries")
        notes.append(
            f"{queries:,} are too few: no change can be significant with less than {needed}."
        )
    old, new = record["options"]["sources"]
    return Report(
        title=f"What changed in {counted(len(judges), 'judge')}",
        tiles={"judges that changed": f"{len(changed)} of {len(judges)}", "queries": queries},
        lead=[lead],
        sections=[_tests_section(rows), *_changes_section(results)],
        notes=notes,
        made=f"{old} against {new}.",
    )


def _tests_section(rows: Sequence[Row]) -> Section:
    names = {
        (changes.GRADES, changes.LEVEL): "mean grade",
        (changes.VOTES, changes.LEVEL): "preference for what is shown first",
        (changes.GRADES, changes.WITH_OTHERS): "agreement with others' grades",
        (changes.VOTES, changes.WITH_OTHERS): "agreement with others' votes",
    }
    again = {
        (row["of"], row["scale"], row["what"]): row["value"]
        for row in rows
        if row["what"] in (changes.SAME, changes.KAPPA)
    }

    def repeated(what: str, form: str) -> Any:
        return lambda row: Cell(again.get((row["of"], row["scale"], what)), form)

    tests = [row for row in rows if row["what"] in (changes.LEVEL, changes.WITH_OTHERS)]
    tests.sort(key=lambda row: row["of"] == changes.PANEL)
    columns: Mapping[str, Any] = {
        "judge": "of",
        "result": lambda row: "changed" if row["p"] < changes.ALPHA else "not significant",
        "in what": lambda row: names[row["scale"], row["what"]],
        "change": estimate(form="+z.3f"),
        "p (Holm)": lambda row: Cell(row["p"], ".2g"),
        "same": repeated(changes.SAME, ".0%"),
        "kappa": repeated(changes.KAPPA, ".2f"),
        "judgments": "items",
        "queries": "queries",
    }
    caption = (
        "Change: new minus old, a mean over queries with its 95% interval. p: paired t-test over "
        "queries, after Holm's correction for all judges. Agreement with others: how far a judge "
        "agrees with the other judges' old judgments. Same, kappa: a judge's new judgments against "
        "its old ones; kappa is quadratic for grades, and of votes that of the winner or a tie."
    )
    return Section("judges", "Judges", [table(tests, columns, caption, file="figures.parquet")])


def _changes_section(results: Results) -> Iterator[Section]:
    if "changes" in results:
        head, total = results.tables["changes"].head(300)
        columns = {name: name for name in ("judge", "judged", "query_id", "item")}
        numbers = {side: lambda row, side=side: Cell(row[side], "g") for side in ("old", "new")}
        rows = table(
            head.to_pylist(),
            {**columns, **numbers},
            file="changes.parquet",
            total=total,
            open_rows=10,
        )
        yield Section("changes", "Largest changes of judgments", [rows])


# --- raters ---------------------------------------------------------------------------------------


class _Raters:
    """The figures of raters, in the order and under the names in which they are shown."""

    def __init__(self, results: Results) -> None:
        self.results, self.record = results, results.record
        self.rows = results.rows("figures")
        self.judges: list[str] = [*results.record["judges"]]
        levels = results.record["options"]["levels"]
        agreed = [row for row in self.rows if row["what"] in COEFFICIENTS]
        self.grade_rows = [row for row in agreed if row["scale"] not in votes.PAIR_SCALES]
        self.pair_rows = [row for row in agreed if row["scale"] in votes.PAIR_SCALES]
        whole = scale_name(levels)
        scales = dict.fromkeys(row["scale"] for row in self.grade_rows)
        self.scales = sorted(scales, key=lambda scale: (scale != whole, scale))
        of_two = {row["what"] for row in self.grade_rows if row["against"]}
        self.leading = next((name for name in _LEADING if name in of_two), next(iter(of_two), ""))
        self.with_people = pick(self.grade_rows, against=HUMAN, what=self.leading, scale=whole)
        self.best = best_first(self.with_people)
        alphas = pick(self.pair_rows, against=HUMAN, what="alpha-nominal", scale=votes.PAIRS)
        self.alphas = [row for row in alphas if row["items"]]
        self.best_voters = best_first(self.alphas)

    def report(self) -> Report:
        """Return the report."""
        count = len(self.record["panel"]) or len(self.record["voters"])
        people = " with people" if self.best or self.best_voters else ""
        sections = [
            self._verdicts(),
            self._judge_against_judge(),
            self._with_people(),
            self._panel(),
            self._between(),
            self._confusion(),
            self._consensus(),
            self._judging(),
            self._pairs_of_judges(),
            self._orders(),
            self._differing(),
        ]
        return Report(
            title=f"How {counted(count, 'judge')} agree{'s' if count == 1 else ''}{people}",
            tiles=self._tiles(count),
            lead=[*self._closest(), *self._trust(), *self._about_orders(), _READING],
            sections=[section for section in sections if section],
            find_warnings=self._warnings,
            notes=(*self.record["missing"], *self.record["notes"]),
            made=f"{self.record['options']['levels']} grades.",
        )

    def _tiles(self, count: int) -> dict[str, Any]:
        tiles: dict[str, Any] = {}
        for row in pick(self.with_people, of=self.best[0]) if self.best else ():
            tiles[f"{self.leading}, best judge"] = cell_of(row)
        tiles["judges"] = count
        counts = self.record["counts"].items()
        return tiles | {name: number["judgments"] for name, number in counts}

    def _closest(self) -> Iterator[str]:
        """Say which judges agree with people most and least."""
        known = [row for row in self.with_people if not isnan(row["value"])]
        rows = sorted(known, key=lambda row: self.best.index(row["of"]))
        if rows:
            first, last = rows[0], rows[-1]
            sentence = f"{first['of']} agrees most with people"
            if len(rows) > 2:
                median = np.median([row["value"] for row in rows])
                sentence += (
                    f", and {last['of']} least, at {last['value']:z.3f}; the median of "
                    f"{len(rows):,} judges is {median:z.3f}"
                )
            alike = sum(row["high"] >= first["low"] for row in rows[1:])
            overlap = "interval of one other overlaps" if alike == 1 else ""
            overlap = overlap or f"intervals of {alike:,} others overlap"
            yield f"{sentence}. The {overlap} with that of the first." if alike else f"{sentence}."
        elif self.best:
            yield "No judge can be compared with people."
        for judge in self.best_voters[:1]:
            [row] = pick(self.alphas, of=judge)
            text = cell_of(row).text()
            yield f"On pairs {judge} agrees most with people: alpha {text}."

    def _in_order(self, rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
        """Return rows by scale, and the best judges first."""
        places = {name: place for place, name in enumerate(names)}
        scales = {scale: place for place, scale in enumerate((*self.scales, *votes.PAIR_SCALES))}
        return sorted(
            rows, key=lambda row: (scales[row["scale"]], places.get(row["of"], len(places)))
        )

    def _verdicts(self) -> Section | None:
        """Show how far each judge agrees with people on pairs."""
        rows = [row for row in self.pair_rows if row["against"] == HUMAN and row["items"]]
        return figures_section(
            "outcomes",
            "Verdicts and people",
            self._in_order(rows, self.best_voters),
            {name: Shown(name) for name in _VERDICTS},
            "How far each judge agrees with people on pairs that both judged. A verdict is the "
            "majority of votes: A is better, a tie, or B is better. Votes: each of the judge's "
            "against each person's.",
        )

    def _judge_against_judge(self) -> Section | None:
        """Show which of two judges agrees more with people."""
        rows = [row for row in self.results.rows("differences") if row["items"]]
        names = {row["scale"]: votes.SCALES[row["scale"]] for row in rows}
        pairs = [*dict.fromkeys((row["rater_a"], row["rater_b"]) for row in rows)][:_DIFFERENCES]
        if not pairs:
            return None
        by_key = {
            (row["rater_a"], row["rater_b"], row["coefficient"], names[row["scale"]]): row
            for row in rows
        }
        titles = [f"{a} over {b}" for a, b in pairs]
        pictures = {}
        for what, scale in dict.fromkeys(key[2:] for key in by_key):
            found = [by_key[a, b, what, scale] for a, b in pairs]
            ends = tuple([row[end] for row in found] for end in ("difference", "low", "high"))
            pictures[what, scale] = charts.intervals(
                titles, {"": (ends[0], ends[1], ends[2])}, f"by {what}", 0.0, form="+z.3f"
            )
        first = [by_key[a, b, "alpha-nominal", votes.PAIRS] for a, b in pairs]

        def difference(what: str, scale: str) -> Any:
            def cell(row: Row) -> Cell:
                found = by_key[row["rater_a"], row["rater_b"], what, scale]
                return Cell(found["difference"], "+z.3f", found["low"], found["high"])

            return cell

        columns: Mapping[str, Any] = {
            "judge": "rater_a",
            "over": "rater_b",
            "alpha": difference("alpha-nominal", votes.PAIRS),
            "in %": lambda row: Cell(row["relative"], "+z.1f"),
            "same verdict": difference("agreement", votes.PAIRS),
            "mcc": difference("mcc", votes.PAIRS_A),
            "pairs": "items",
        }
        caption = (
            "By how much more one judge agrees with people than another, on pairs that both and "
            "people judged, over the same samples of queries. Where the interval is above 0, the "
            "first agrees significantly more."
        )
        parts: list[Part] = [
            chart(pictures, caption, "coefficient", "of"),
            table(first, columns, file="differences.parquet"),
        ]
        return Section("differences", "Judge against judge", parts)

    def _with_people(self) -> Section | None:
        """Show the agreement of each judge's grades with people's."""
        rows = pick(self.grade_rows, against=HUMAN)
        return figures_section(
            "people",
            "Judges and people",
            self._in_order(rows, self.best),
            self._shown(rows),
            "How far each judge agrees with people on the documents that both graded, with 95% "
            "intervals, the best first. A scale such as >=2 counts grades from there on as "
            "relevant.",
        )

    def _shown(self, rows: Sequence[Row], columns: Sequence[str] = _COLUMNS) -> dict[str, Shown]:
        names = [*dict.fromkeys(row["what"] for row in rows)]
        wanted = [name for name in columns if name in names] or names[:3]
        ordered = [*wanted, *(name for name in names if name not in wanted)]
        return {name: Shown(name, column=name in wanted) for name in ordered}

    def _panel(self) -> Section | None:
        """Show the agreement of all judges together."""
        rows = pick(self.grade_rows, against="")
        return figures_section(
            "panel",
            "The panel as a whole",
            self._in_order(rows, [PANEL, WITH_HUMAN]),
            self._shown(rows, _OF_MANY),
            "How far all judges agree, without people and with people as one more judge, on what "
            "two or more of them judged. If it is lower with people, judges are closer to each "
            "other than to people: they may share an error.",
            who="panel",
        )

    def _between(self) -> Section | None:
        """Show the agreement of judges' grades with each other."""
        rows = [row for row in self.grade_rows if row["against"] not in ("", HUMAN)]
        names = [*([HUMAN] if self.best else []), *(self.best or self.judges)]
        if not rows:
            return None
        every = [row for row in self.grade_rows if row["against"]]
        shown = [name for name in _COLUMNS if any(row["what"] == name for row in rows)]
        if len(names) > _MANY_RATERS or not shown:
            shown = [self.leading]
        pictures = {
            (what, scale): _matrix_of(every, names, what, scale)
            for what in shown
            for scale in self.scales
        }
        caption = (
            "Every two raters on the documents that both graded. Blocks of blue are judges that "
            "grade alike, often of one model family: as a panel they are worth fewer than their "
            "number."
        )
        leading = pick(rows, what=self.leading, scale=self.scales[0])
        leading = [row for row in leading if not isnan(row["value"])]
        leading.sort(key=lambda row: -row["value"])
        columns: Mapping[str, Any] = {
            "judge": "against",
            "and": "of",
            self.leading: estimate(),
            "items": "items",
            "queries": "queries",
        }
        pairs = table(
            leading[:200], columns, "The highest agreement first.", file="figures.parquet",
            total=len(leading), open_rows=12,
        )  # fmt: skip
        return Section(
            "between",
            "Judges and each other",
            [chart(pictures, caption, "coefficient", "scale"), pairs],
        )

    def _confusion(self) -> Section | None:
        """Show grades of one rater against grades of another."""
        levels = self.record["options"]["levels"]
        counts: dict[tuple[str, str], np.ndarray] = {}
        for row in self.results.rows("confusion", scale=scale_name(levels)):
            a, b, i, j = (row[key] for key in ("rater_a", "rater_b", "grade_a", "grade_b"))
            for pair, cell in (((a, b), (i, j)), ((b, a), (j, i))):
                counts.setdefault(pair, np.zeros((levels, levels), np.int64))[cell] = row["items"]
        pairs = [(HUMAN, judge) for judge in self.best] or [*combinations(self.judges, 2)]
        pairs = [pair for pair in pairs if pair in counts and counts[pair].any()]
        if not pairs or (not self.best and len(pairs) > _MANY_RATERS):
            return None
        grades = [str(grade) for grade in range(levels)]
        pictures = {}
        for a, b in pairs:
            found = counts[a, b]
            shares = found / np.maximum(1, found.sum(axis=1, keepdims=True))
            pictures[f"{b} beside {a}"] = charts.matrix(
                grades,
                grades,
                shares,
                told=_cells_of(a, b, found),
                form=".0%",
            )
        caption = (
            "Which share of the documents to which one rater gave a grade (rows) has which grade "
            "by the judge (columns). Agreement is on the diagonal; right of it, the judge graded "
            "higher."
        )
        a, b = pairs[0]
        cells: list[list[Value]] = [
            [b, a, str(grade), *map(int, row)] for grade, row in enumerate(counts[a, b])
        ]
        names = ["judge", "beside", "its grade", *(f"judge: {grade}" for grade in grades)]
        parts: list[Part] = [
            chart(pictures, caption, "judge"),
            Table(names, cells, file="confusion.parquet"),
        ]
        return Section("confusion", "Confusion matrices", parts)

    # how far a panel can be trusted

    def _levels(self) -> dict[tuple[str, str], list[Row]]:
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.results.rows("consensus"):
            groups.setdefault((row["about"], row["scale"]), []).append(row)
        places = {level: place for place, level in enumerate((*consensus.LEVELS, consensus.ALL))}
        return {
            key: sorted(rows, key=lambda row: places[row["level"]]) for key, rows in groups.items()
        }

    def _level(self, row: Row) -> str:
        alone = row["about"] == consensus.VOTES and len(self.record["voters"]) == 1
        if alone and row["level"] in ("unanimous", "split"):
            return "the judge decides" if row["level"] == "unanimous" else "the judge ties"
        return _LEVELS[row["level"]]

    def _consensus(self) -> Section | None:
        """Show how often people agree with a panel, by how far its judges agree."""
        trust, pictures, lines = self.record["options"]["trust"], {}, list[Row]()
        for (about, scale), rows in self._levels().items():
            known = [row for row in rows if row["items"]]
            ends = [np.array([row[name] for row in known]) for name in ("same", "low", "high")]
            pictures[_ABOUT[about] + (f" {scale}" if scale else "")] = charts.intervals(
                [self._level(row) for row in known],
                {"": (ends[0], ends[1], ends[2])},
                "share of people's answers that are the panel's",
                trust,
                notes=[f"{row['share']:.0%}" for row in known],
            )
            lines += rows
        if not pictures:
            return None
        caption = (
            "How often people agree with the majority of the judges, by how large that is; the "
            "share of all pairs or documents is beside it. Where an interval is right of the "
            f"dotted line at {trust:g}, the panel can be trusted blindly. Pairs that people tie "
            "are left out; a pair on which the judges are evenly split is half right."
        )
        columns: Mapping[str, Any] = {
            "of": lambda row: _ABOUT[row["about"]] + (f" {row['scale']}" if row["scale"] else ""),
            "judges": self._level,
            "share": lambda row: Cell(row["share"], ".1%"),
            "people agree": estimate("same"),
            "items": "items",
            "people tie": "tied",
        }
        parts: list[Part] = [
            chart(pictures, caption, "of"),
            table(lines, columns, file="consensus.parquet"),
        ]
        return Section("consensus", "When the judges agree", parts)

    def _trust(self) -> Iterator[str]:
        """Say where the panel can be trusted without people; of documents, on the whole scale."""
        trust = self.record["options"]["trust"]
        for (about, scale), rows in self._levels().items():
            levels = [row for row in rows if row["level"] in consensus.LEVELS[:-1]]
            if (about == consensus.GRADES and "-" not in scale) or not levels:
                continue
            first = levels[0]
            if isnan(first["low"]):
                continue
            noun = "documents" if about == consensus.GRADES else "pairs"
            sure = [*takewhile(lambda row: row["low"] >= trust, levels)]
            if sure:
                share, where = sum(row["share"] for row in sure), self._level(sure[-1])
                yield (
                    f"The panel can be trusted blindly ({trust:g} or more) on {share:.0%} of "
                    f"{noun}: where {where}{' or more' if len(sure) > 1 else ''}."
                )
                continue
            word = "cannot" if first["high"] < trust else "is not shown to be one that can"
            agree = Cell(first["same"], ".3f", first["low"], first["high"]).text()
            yield (
                f"The panel {word} be trusted blindly ({trust:g} or more) on {noun}: where "
                f"{self._level(first)} ({first['share']:.0%}), people agree on {agree}."
            )

    # habits of judges

    def _judging(self) -> Section | None:
        """Show how severe judges are, and what sways their votes."""
        against = HUMAN if pick(self.rows, what=LENIENCY, against=HUMAN) else OTHERS
        rows = [
            row
            for row in self.rows
            if row["items"] and (row["what"] != LENIENCY or row["against"] == against)
        ]
        rows = [{**row, "against": ""} for row in rows]
        names = [*(self.best or self.best_voters or self.judges)]
        rows.sort(key=lambda row: names.index(row["of"]) if row["of"] in names else len(names))
        whom = "people's" if against == HUMAN else "the mean of the other judges"
        return figures_section(
            "judging",
            "Habits of the judges",
            rows,
            {
                LENIENCY: Shown(f"mean grade less {whom}", "+z.3f", 0.0),
                votes.POSITION: Shown("share won by what was shown first", neutral=0.5),
                votes.FLIPS: Shown("share of pairs whose winner changes with the order"),
                votes.ONE_SIDED: Shown("share of pairs decided in one order, tied in the other"),
                votes.CYCLES: Shown("share of triples that are cyclic", neutral=CHANCE),
            },
            f"Leniency: mean grade less {whom}, on the same documents. Position bias: share of "
            "decided votes for what was shown first; .5 is none, if the order was random. Order "
            "flips: of pairs seen in both orders, those with another winner; random votes reach "
            ".5. Cyclic triples: A > B > C > A, of decided triples; random votes reach "
            f"{CHANCE:g}.",
        )

    def _pairs_of_judges(self) -> Section | None:
        """Show how far judges agree with each other on pairs."""
        rows = [row for row in self.pair_rows if row["against"] != HUMAN and row["items"]]
        if not rows:
            return None
        names = [*dict.fromkeys(name for row in rows for name in (row["against"], row["of"]))]
        keys = dict.fromkeys((row["what"], row["scale"]) for row in rows)
        pictures = {key: _matrix_of(rows, names, *key) for key in keys}
        caption = (
            "Agreement of every two judges on the pairs that both judged: of their verdicts, which "
            "are the majority of each one's votes, and of single votes."
        )
        by_key = {(r["of"], r["against"], r["what"], r["scale"]): r for r in rows}

        def figure(what: str, scale: str) -> Any:
            return lambda row: (
                cell_of(found)
                if (found := by_key.get((row["of"], row["against"], what, scale)))
                else None
            )

        first = pick(rows, what="agreement", scale=votes.PAIRS)
        columns: Mapping[str, Any] = {
            "judge": "of",
            "and": "against",
            "same verdict": estimate(),
            "both decided": figure("agreement", votes.PAIRS_DECIDED),
            "kappa": figure("kappa", votes.PAIRS),
            "pairs": "items",
        }
        parts: list[Part] = [
            chart(pictures, caption, "coefficient", "of"),
            table(first, columns, file="figures.parquet"),
        ]
        return Section("votes", "Judges and each other on pairs", parts)

    # two sets of labels

    def _orders(self) -> Section | None:
        """Show whether labels put runs in the same order."""
        rows = [row for row in self.rows if row["what"] in (orders.TAU_B, orders.TAU_AP)]
        counts = {
            (row["of"], row["against"], row["what"]): row
            for row in self.rows
            if row["what"] in (orders.OPPOSITE, orders.SIGNIFICANT_OPPOSITE)
        }
        if not rows:
            return None

        def some(what: str) -> Any:
            def cell(row: Row) -> str:
                found = counts[row["of"], row["against"], what]
                share = 0 if isnan(found["value"]) else found["value"]
                return f"{round(share * found['items']):,} of {found['items']:,}"

            return cell

        firsts = [row for row in rows if row["what"] == orders.TAU_B]
        firsts.sort(key=lambda row: -np.nan_to_num(row["value"], nan=-2))
        columns: Mapping[str, Any] = {
            "labels of": "of",
            "beside": "against",
            "opposite order": some(orders.OPPOSITE),
            "of significant ones": some(orders.SIGNIFICANT_OPPOSITE),
            "runs": "items",
            "queries": "queries",
        }
        caption = (
            "Opposite order: pairs of runs in the opposite order, of all, and of those that differ "
            "significantly by the labels beside (p < .05, Holm)."
        )
        return figures_section(
            "orders",
            "The order of runs",
            sorted(rows, key=lambda row: [first["of"] for first in firsts].index(row["of"])),
            {orders.TAU_B: Shown("tau-b"), orders.TAU_AP: Shown("tau-AP")},
            "How far labels put runs in the same order as those beside: 1 is the same order, 0 no "
            "relation. In tau-AP errors among the best runs weigh more. Intervals are rough.",
            who="labels of",
            more=[table(firsts, columns, caption), *self._boards()],
        )

    def _boards(self) -> Iterator[Table | Chart]:
        """Yield the runs by both sets of labels, and how far every two are apart by each."""
        if not self.record["relevant"]:
            return
        a, b = self.record["relevant"][:2]
        means = {
            side: {row["of"]: row for row in pick(self.rows, scale=orders.MEAN, against=side)}
            for side in (a, b)
        }
        if not all(means.values()):
            return
        ranks = {side: _ranks(rows) for side, rows in means.items()}
        runs = sorted(means[b], key=lambda run: (ranks[b][run], ranks[a][run], run))
        measure = means[b][runs[0]]["what"]
        moved = {run: ranks[a][run] - ranks[b][run] for run in runs}
        columns: Mapping[str, Any] = {
            "run": lambda run: run,
            f"by {a}": lambda run: cell_of(means[a][run]),
            f"by {b}": lambda run: cell_of(means[b][run]),
            f"rank by {a}": lambda run: ranks[a][run],
            f"rank by {b}": lambda run: ranks[b][run],
            "moved": lambda run: f"{moved[run]:+d}" if moved[run] else "=",
        }
        yield table(
            runs, columns, f"Mean {measure} with 95% intervals, best first by the labels of {b}.",
            open_rows=25,
        )  # fmt: skip
        effects = self.results.rows("effects")
        if not effects:
            return
        sizes = [
            float(np.nanmedian([abs(row[name]) for row in effects])) for name in ("d_a", "d_b")
        ]
        neighbours = [*pairwise(runs)]
        by_pair = {frozenset((row["run_a"], row["run_b"])): row for row in effects}

        def effect(side: str) -> Any:
            def cell(pair: tuple[str, str]) -> str:
                row = by_pair[frozenset(pair)]
                d = row[f"d_{side}"] * (1 if row["run_a"] == pair[0] else -1)
                size = f"{d:+.0f}".replace("inf", "∞") if isinf(d) else f"{d:+z.2f}"
                return DASH if isnan(d) else size + ("*" if row[f"p_{side}"] < orders.ALPHA else "")

            return cell

        yield table(
            neighbours,
            {
                "above": lambda pair: pair[0],
                "below": lambda pair: pair[1],
                f"d by {a}": effect("a"),
                f"d by {b}": effect("b"),
            },
            "Cohen's d of neighbours: the mean difference over queries, in standard deviations of "
            "that difference; * is significant (p < .05, Holm over all pairs). Neighbours are "
            "close by the labels that made them neighbours; over all pairs the median |d| is "
            f"{sizes[0]:.2f} by {a} and {sizes[1]:.2f} by {b}.",
            file="effects.parquet",
            open_rows=25,
        )

    def _about_orders(self) -> Iterator[str]:
        """Say what another set of labels changes."""
        effects = self.results.rows("effects")
        if not (effects and self.record["relevant"]):
            return
        a, b = self.record["relevant"][:2]
        by_a, by_b = (sum(row[f"p_{side}"] < orders.ALPHA for row in effects) for side in "ab")
        turned = len(_turned(effects))
        opposite = f"; {turned:,} by both, in opposite directions" if turned else ""
        yield (
            f"Of {counted(len(effects), 'pair')} of runs {by_a:,} differ significantly by the "
            f"labels of {a}, {by_b:,} by those of {b}{opposite}."
        )

    def _differing(self) -> Section | None:
        """List documents that are relevant by one set of labels alone."""
        if "differing" not in self.results:
            return None
        a, b, cut_a, cut_b = self.record["relevant"]
        head, total = self.results.tables["differing"].head(_DIFFERING)
        rows = head.to_pylist()
        columns: dict[str, Any] = {
            "query": "query_id",
            "document": "doc_id",
            a: lambda row: Cell(row["label_a"], ".3g"),
            b: lambda row: Cell(row["label_b"], ".3g"),
            "best": lambda row: "yes" if row["best"] else "",
        }
        if any(row["text"] for row in rows):
            columns["text"] = "text"
        found = self.results.rows("differing")
        queries = counted(len({row["query_id"] for row in found}), "query", "queries")
        alone = sum(row["label_a"] >= cut_a for row in found)
        caption = (
            f"In {queries} {alone:,} documents are relevant by {a} alone (from {cut_a:g}), and "
            f"{total - alone:,} by {b} alone (from {cut_b:g}); a dash is a document that {a} did "
            f"not judge. Queries come first whose best document by {b} is not relevant by {a}."
        )
        more = table(rows, columns, caption, file="differing.parquet", total=total, open_rows=12)
        return Section("differing", f"Where {a} and {b} differ", [more])

    # warnings

    def _warnings(self) -> Iterator[Warn]:
        panel = [row for row in self.with_people if row["of"] in self.record["panel"]]
        yield from _near_chance(panel, "people", self.leading)
        yield from _near_chance(self.alphas, "outcomes", "alpha")
        for row in self.rows:
            if row["items"] >= _ITEMS and not isnan(row["low"]):
                yield from _swayed(row)
        yield from self._of_labels()
        yield from warn_of_demonstration([*{*self.judges, *self.record["voters"]}])

    def _of_labels(self) -> Iterator[Warn]:
        effects = self.results.rows("effects")
        advice = "Let people label the queries in which they differ: zelo-ray label"
        if turned := _turned(effects):
            pairs = counted(len(turned), "pair of runs differs", "pairs of runs differ")
            text = f"{pairs} significantly by both sets of labels, in opposite directions"
            yield Warn("truth_changed", "doubtful", text, advice, "orders")
        if "differing" in self.results and effects:
            rows = self.results.rows("differing")
            wrong, queries = len({row["query_id"] for row in rows}), effects[0]["queries"]
            if wrong > _CONTRADICTED * queries:
                text = f"The two sets of labels differ on what is relevant in {wrong:,} queries"
                yield Warn("contradiction", "note", text, advice, "differing")


_ABOUT = {
    consensus.VOTES: "pairs, by votes",
    consensus.ORDERS: "pairs, by grades",
    consensus.GRADES: "documents",
}
_LEVELS = {
    "unanimous": "all judges agree",
    "all but one": "all but one agree",
    "three quarters": "three quarters agree",
    "over half": "over half agree",
    "split": "they are split",
    consensus.ALL: "all together",
}


def _cells_of(a: str, b: str, counts: np.ndarray) -> Callable[[int, int], str]:
    """Return what says how many documents have which two grades."""
    return lambda i, j: f"{a} {i}, {b} {j}: {counted(int(counts[i, j]), 'document')}"


def _matrix_of(rows: Sequence[Row], names: Sequence[str], what: str, scale: str) -> Any:
    found = {
        frozenset((row["of"], row["against"])): row for row in pick(rows, what=what, scale=scale)
    }

    def value(a: str, b: str) -> tuple[float, str]:
        row = found.get(frozenset((a, b)))
        return (row["value"], f"{cell_of(row).text()}, {row['items']:,}") if row else (nan, "")

    low = 0.0 if what == "agreement" else -1.0
    return charts.pair_matrix(names, value, low=low, middle=(1 + low) / 2)


def _ranks(rows: Mapping[str, Row]) -> dict[str, int]:
    """Return ranks from 1; equal means share the better one."""
    values = {run: np.nan_to_num(row["value"], nan=-np.inf) for run, row in rows.items()}
    return {
        run: 1 + int(sum(other > value + 1e-12 for other in values.values()))
        for run, value in values.items()
    }


def _turned(effects: Sequence[Row]) -> list[Row]:
    """Return the pairs of runs that differ significantly by both labels, in opposite directions."""
    return [
        row
        for row in effects
        if row["p_a"] < orders.ALPHA
        and row["p_b"] < orders.ALPHA
        and row["difference_a"] * row["difference_b"] < 0
    ]


def _near_chance(rows: Sequence[Row], section: str, coefficient: str) -> Iterator[Warn]:
    """Yield a warning for judges whose agreement with people is near chance, or below it."""
    rows = [row for row in rows if not isnan(row["low"])]
    below = [row for row in rows if row["high"] < 0]
    useless = [row for row in rows if row["low"] <= 0 <= row["high"] < _LITTLE]
    unsure = [row for row in rows if row["low"] <= 0 and row["high"] >= _LITTLE]

    def figures(some: Sequence[Row]) -> str:
        texts = [f"{row['of']} {cell_of(row, '.2f').text()}" for row in some]
        return f"{coefficient}: {name_some(texts)}"

    if rows and len(useless) + len(below) == len(rows):
        text = f"No judge agrees with these people better than chance ({figures(rows)})"
        advice = "Give the judges the people's rubric, or use other models"
        yield Warn("chance", "wrong", text, advice, section)
    elif below or useless:
        text = f"Agreement with people no better than by chance ({figures([*below, *useless])})"
        advice = "Leave such a judge out, or read why with zelo-ray explain"
        yield Warn("chance", "doubtful", text, advice, section)
    if unsure:
        items = counted(min(row["items"] for row in unsure), "item")
        text = f"{items} are too few to tell agreement from chance ({figures(unsure)})"
        yield Warn("few_labels", "doubtful", text, "Label more: zelo-ray label", section)


def _swayed(row: Row) -> Iterator[Warn]:
    advice = "Ask each pair in both orders (annotate --repeats 2), or use another model"
    figure = cell_of(row, ".2f").text()
    if row["what"] == votes.POSITION and (row["low"] > 0.5 + _SWAY or row["high"] < 0.5 - _SWAY):
        place = "first" if row["value"] > 0.5 else "second"
        text = f"{row['of']} prefers what comes {place}: what came first won {figure} of the time"
        yield Warn("place", "doubtful", text, advice, "judging")
    if row["what"] == votes.FLIPS and row["low"] > _FLIPS:
        text = f"{row['of']} changes its winner with the order on {figure} of pairs"
        yield Warn("place", "doubtful", text, advice, "judging")
