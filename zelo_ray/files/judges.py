"""Read the judgments of several judges, and of people, from any mixture of files."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.judgments import is_pooled, open_judgments, read_numbers, refuse_repeated
from zelo_ray.files.labels import (
    PAIR,
    PersonsAnswer,
    check_probabilities,
    read_sample,
    valid_answers,
)
from zelo_ray.files.pools import few
from zelo_ray.files.rows import SAMPLE_RECORD, Floats, Rows, stem
from zelo_ray.files.run_record import refuse_unfinished
from zelo_ray.files.storage import file_stem, list_directory
from zelo_ray.files.tables import iter_rows, table_of_rows
from zelo_ray.files.votes import (
    HUMAN_VOTES,
    VOTES,
    as_votes,
    has_votes,
    merge_orders,
    read_vote_rows,
)
from zelo_ray.files.wording import counted, printable
from zelo_ray.names import split_name

_TEXTS = [(name, pa.string()) for name in ("query_id", "doc_id", "judge")]
GRADES = pa.schema([*_TEXTS, ("grade", pa.int64())])
_RAW_GRADES = pa.schema([*_TEXTS, ("grade", pa.float64())])
_RESULT_TABLES = ("grades.parquet", "votes.parquet", "contests.parquet", "verdicts.parquet")
_DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".qrels", ".txt", ".gz", ".zst")
"""Endings of files in a folder that may be judgments."""
HUMAN = "human"
"""The name of people among the judges."""
PANEL, WITH_HUMAN, OTHERS = "all judges", "all judges and human", "others"
"""The names of groups of judges, which no judge may have."""
_ROWS = "a table that names its judges"
_DOCUMENT = 2  # the ids of a query and a document


@dataclass(frozen=True, slots=True)
class JudgmentsFile(Rows):
    """The content of one place: grades (query_id, doc_id, judge, grade as float64) or votes."""

    names_judges: bool  # whether the rows name their judges
    pooled: bool = False  # whether they are the combined grades of a graded run
    missing: int = 0  # how many rows have no answer
    notes: tuple[str, ...] = ()  # what a reader should know of it

    @property
    def votes(self) -> bool:
        """Return whether the rows are votes, not grades."""
        return self.has("preference")

    def with_judge(self, judge: str) -> "JudgmentsFile":
        """Return the judgments with all of them given to one judge."""
        return self.with_column("judge", pa.array([judge] * len(self), pa.string()))


def read_judgments(
    place: str, judge: str, columns: Mapping[str, str] | None = None
) -> JudgmentsFile:
    """Read the grades or votes of a place of any known kind; of ``judge`` if rows name nobody."""
    source = open_judgments(place, columns)
    if source.kind == "labels":
        return _read_sample(place.rstrip("/"))
    if has_votes(source):
        rows = read_vote_rows(source)
        is_answered, missing = rows.is_answered, int((~rows.is_answered).sum())
        names_judges = "judge" in rows.columns
        file = JudgmentsFile(as_votes(rows, judge), rows.where, names_judges, missing=missing)
        if not rows.is_null("probability").all():
            check_probabilities(rows.take(is_answered))
            file = file.with_column("probability", rows["probability"])
        file = file.take(is_answered)
        # Debates, of which both orders may be there.
        return replace(file, table=merge_orders(file.table)) if "method" in rows.columns else file
    numbers = read_numbers(source, "grades")
    answered = numbers.take(~numbers.is_null("value"))
    names = {"query_id": "query_id", "doc_id": "doc_id", "judge": "judge", "grade": "value"}
    names_judges = numbers.has("judge")
    if not names_judges:
        del names["judge"]
        refuse_repeated(answered, "judged")
    if numbers.has("probability") and not answered.is_null("probability").all():
        check_probabilities(answered)
        names["probability"] = "probability"
    file = JudgmentsFile(
        pa.table({name: answered[column] for name, column in names.items()}),
        answered.where,
        names_judges,
        pooled=is_pooled(source) and not names_judges,
        missing=len(numbers) - len(answered),
    )
    return file if names_judges else file.with_judge(judge)


def _read_sample(place: str) -> JudgmentsFile:
    """Read the answers that people gave on the page of label, with the chances of being drawn.

    Where all had the same chance, these are all answers, counted in a correction or not, without
    it. Else those out of turn, whose chance is not known, are left out.
    """
    sample, notes = read_sample(place), tuple[str, ...]()
    every, is_of_pairs = valid_answers(sample.every), sample.unit is PAIR
    if not every:
        raise InputError(f"{place}: holds no {sample.unit.answer} of a person")
    valid: list[tuple[PersonsAnswer, float | None]] = [(answer, None) for answer in every]
    if not sample.is_even:
        valid = [*sample.answers]
        if not valid:
            raise InputError(f"{place}: all answers are out of turn: answer what comes first")
        if out_of_turn := len(every) - len(valid):
            said = f"{place}: {counted(out_of_turn, 'answer')} out of turn left out, since the"
            notes = (f"{said} chance of each is known once all before it are answered",)
    rows = [(*a.ids, a.person, a.value, *((a.swapped,) if is_of_pairs else ())) for a, _ in valid]
    file = JudgmentsFile(
        table_of_rows(rows, VOTES if is_of_pairs else _RAW_GRADES),
        lambda row: f"{place}: label {row + 1}",
        names_judges=True,
        missing=sum(map(len, sample.every.values())) - len(every),
        notes=notes,
    )
    chances = pa.array([chance for _, chance in valid], pa.float64())
    return file if sample.is_even else file.with_column("probability", chances)


def _grades_of(place: str, file: JudgmentsFile, levels: int, notes: list[str] | None) -> pa.Table:
    """Return grades as whole numbers from 0 to ``levels`` - 1, with the columns of ``GRADES``."""
    grades, top = file.floats("grade"), levels - 1
    inside = np.clip(grades, 0, top)
    is_outside = inside != grades
    number = int(is_outside.sum())
    file.refuse(grades != np.floor(grades), "is not a whole number", "the grade ", grades)
    if notes is None:
        how = "--clip moves such grades to the nearest end, --levels how many grades there are"
        file.refuse(is_outside, f"is not in 0 to {top}: {how}", "the grade ", grades)
    elif number:
        worst = ", ".join(f"{value:g}" for value in np.unique(grades[is_outside])[:5])
        share = f"{number:,} of {len(file):,} grades"
        notes.append(f"{place}: {share} clipped to 0 to {top} ({worst})")
    file = file.with_column("grade", pa.array(inside.astype(np.int64)))
    return file.table.select(GRADES.names).cast(GRADES)


def votes_of(file: JudgmentsFile) -> pa.Table:
    """Return the votes of a file in the columns of ``VOTES``; of ``HUMAN_VOTES`` with raters."""
    schema = HUMAN_VOTES if file.has("rater") else VOTES
    return file.table.select(schema.names).cast(schema)


def pairs_by_grades(grades: pa.Table, votes: pa.Table) -> pa.Table:
    """Turn people's grades into votes on every pair that judges voted on: for the higher mean."""
    given = defaultdict[tuple[str, str], list[float]](list)
    for query_id, doc_id, grade in iter_rows(grades, "query_id", "doc_id", "grade"):
        given[query_id, doc_id].append(grade)
    names, rows = ("query_id", "doc_id_a", "doc_id_b"), []
    for pair in dict.fromkeys((q, min(a, b), max(a, b)) for q, a, b in iter_rows(votes, *names)):
        first, second = (given.get((pair[0], doc_id)) for doc_id in pair[1:])
        if first and second and (step := float(np.sign(np.mean(second) - np.mean(first)))):
            word = {"judge": HUMAN, "preference": step, "rater": "grades"}
            rows.append({**dict(zip(names, pair, strict=True)), **word})
    return pa.Table.from_pylist(rows, HUMAN_VOTES)


@dataclass(frozen=True, slots=True)
class AllJudgments:
    """Judgments of several judges, and of people, in the order of reading.

    ``grades`` and ``human`` have the columns of ``GRADES``, from 0 to ``levels`` - 1, ``votes``
    those of ``VOTES``; people's judgments are in ``human`` and ``human_votes``.
    """

    grades: pa.Table
    votes: pa.Table
    human: pa.Table
    levels: int
    notes: tuple[str, ...] = ()  # Remarks on the sources for readers of the results.
    pooled: tuple[str, ...] = ()  # Judges that are the combined grades of a graded run's panel.
    human_votes: pa.Table = field(default_factory=HUMAN_VOTES.empty_table)
    """The votes of all people, in the columns of ``HUMAN_VOTES``."""
    weights: Mapping[tuple[str, ...], float] = field(default_factory=dict)  # See `people_weights`.

    @property
    def judges(self) -> tuple[str, ...]:
        """Return the names of the judges who graded, in the order of reading, without people."""
        return tuple(pc.unique(self.grades["judge"]).to_pylist())

    @property
    def voters(self) -> tuple[str, ...]:
        """Return the names of the judges who voted, in the order of reading, without people."""
        return tuple(pc.unique(self.votes["judge"]).to_pylist())

    @property
    def panel(self) -> tuple[str, ...]:
        """Return the judges without the pooled ones, which figures of all judges leave out."""
        return tuple(judge for judge in self.judges if judge not in self.pooled)


def read_all_judgments(
    sources: Iterable[str],
    *,
    levels: int = 4,
    clip: bool = False,
    human: str | None = None,
    people: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> AllJudgments:
    """Read judgments from files and directories of any known kind.

    Where rows name no judge, the judge is what the file is called, or NAME in ``NAME=path``. Rows
    with a null answer are passed over, which is noted. ``human`` has grades or votes of people:
    beside judges that voted, grades are also a word on the pairs that these voted on.
    """
    notes: list[str] = []
    pooled: list[str] = []
    graded, voted = [GRADES.empty_table()], [VOTES.empty_table()]
    queries: dict[str, set[str]] = {}
    owners: dict[str, str] = {} if human is None else {HUMAN: "--human"}

    def read(place: str, file: JudgmentsFile) -> pa.Table:
        notes.extend(file.notes)
        if file.missing:
            notes.append(f"{place}: {counted(file.missing, 'row')} without an answer (null)")
        queries[place] = {*pc.unique(file["query_id"]).to_pylist()}
        if file.votes:
            return votes_of(file)
        return _grades_of(place, file, levels, notes if clip else None)

    for name, place in list_sources(sources, notes):
        if place in queries:
            raise InputError(f"{place}: is named twice")
        file = read_judgments(place, name or file_stem(place), columns)
        if name and file.names_judges:
            raise InputError(f"{name}={place}: its rows name their judges; leave out {name}=")
        _record_owners(owners, place, file)
        (voted if file.votes else graded).append(read(place, file))
        pooled += pc.unique(file["judge"]).to_pylist() if file.pooled else []
    grades, human_votes = GRADES.empty_table(), HUMAN_VOTES.empty_table()
    weights: Mapping[tuple[str, ...], float] = {}
    if human is not None:
        file = read_people(human, people, columns)
        weights = people_weights(file)
        if file.votes:
            human_votes = read(human, file)
        else:
            grades = read(human, file)
        queries["--human"] = queries.pop(human)
    notes += _note_unshared_queries(queries)
    votes = pa.concat_tables(voted)
    if len(votes) and len(grades):
        human_votes = pairs_by_grades(grades, votes)
        pairs = counted(len(human_votes), "pair")
        note = f"{human}: its grades name the better document of {pairs} that judges voted on"
        notes += [note] if len(human_votes) else []
    tables = (pa.concat_tables(graded), votes, grades)
    return AllJudgments(*tables, levels, tuple(notes), tuple(pooled), human_votes, weights)


def read_people(
    place: str, pattern: str | None = None, columns: Mapping[str, str] | None = None
) -> JudgmentsFile:
    """Read the grades or votes of people, all of them as the judge ``human``.

    ``rater`` says who of them: as the rows name them, or another one in each row of a file that
    names nobody. With a pattern only those whose name fits it count.
    """
    file = read_judgments(place, HUMAN, columns)
    if not len(file):
        raise InputError(f"{place}: no judgments of people")
    if pattern is not None:
        names = file["judge"].to_pylist()
        fits = np.array([file.names_judges and fnmatchcase(name, pattern) for name in names])
        if not fits.any():
            raise InputError(f"{place}: no row is of a judge like {pattern}")
        file = file.take(fits)
    unnamed = pa.array(map(str, range(len(file))), pa.string())
    file = file.with_column("rater", file["judge"] if file.names_judges else unnamed)
    return file.with_judge(HUMAN)


def people_weights(file: JudgmentsFile) -> dict[tuple[str, ...], float]:
    """Return 1 / probability of the documents or pairs that people judged; none if all are equal.

    By query_id and doc_id, or query_id and both ids of a pair in their order. Weighted so, figures
    of a drawn sample are about all that it was drawn from (Horvitz & Thompson 1952, JASA 47:663).
    """
    chances = file.floats("probability") if file.has("probability") else np.ones(1)
    if len(np.unique(chances)) < 2:
        return {}
    return dict(zip(_keys(file.table), (1 / chances).tolist(), strict=True))


def weights_of(table: pa.Table, weights: Mapping[tuple[str, ...], float]) -> Floats:
    """Return the weight of each row of people's grades or votes, [rows].

    Two documents that were drawn each by itself weigh as a pair what both weigh.
    """
    are_documents = any(len(key) == _DOCUMENT for key in weights)
    if "doc_id" in table.column_names or not are_documents:
        return np.array([weights[key] for key in _keys(table)], dtype=np.float64)
    return np.array([weights[q, a] * weights[q, b] for q, a, b in _keys(table)], dtype=np.float64)


def _keys(table: pa.Table) -> list[tuple[str, ...]]:
    sides = ("doc_id",) if "doc_id" in table.column_names else ("doc_id_a", "doc_id_b")
    return [(query, *sorted(ids)) for query, *ids in iter_rows(table, "query_id", *sides)]


def _record_owners(owners: dict[str, str], place: str, file: JudgmentsFile) -> None:
    """Record the file that each judge's name belongs to; refuse names that are reserved."""
    mine = _ROWS if file.names_judges else place
    for judge in pc.unique(file["judge"]).to_pylist():
        if judge in (PANEL, WITH_HUMAN, OTHERS):
            raise InputError(f"{place}: the reserved name {judge!r}: name the file, NAME=path")
        if (owner := owners.setdefault(judge, mine)) != mine:
            has = f"has a judge {printable(judge)}, as does {owner}"
            raise InputError(f"{place}: {has}: give one another name, NAME=path")


def _note_unshared_queries(queries: Mapping[str, set[str]]) -> Sequence[str]:
    """Return a note on each source that has queries in no other source, if there are several."""
    notes = []
    for place, query_ids in queries.items():
        others = [ids for other, ids in queries.items() if other != place]
        if others and (alone := sorted(query_ids.difference(*others))):
            queried = counted(len(alone), "query is", "queries are")
            notes.append(f"{place}: {queried} in no other source ({few(alone)})")
    return notes


def list_sources(sources: Iterable[str], notes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name that the user gave (or "") and the place of each source, files in folders."""
    for source in sources:
        name, place = split_name(source)
        names = list_directory(place)
        if names is None or SAMPLE_RECORD in names:
            yield name, place
            continue
        refuse_unfinished(place)
        files = [entry for entry in _RESULT_TABLES if entry in names]
        if not files and any(stem(entry) == "qrels" for entry in names):
            yield name, place  # a collection
            continue
        if name:
            raise InputError(f"{source}: a directory cannot be given one judge; name its files")
        if not files:
            shown = [entry for entry in names if not entry.startswith((".", "_"))]
            files = [entry for entry in shown if entry.lower().endswith(_DATA)]
            if others := [entry for entry in shown if entry not in files]:
                notes.append(f"{place}: passed over {', '.join(others)}")
        if not files or "run.json" in files:
            raise InputError(f"{place}: holds neither grades nor votes")
        for file in files:
            yield "", f"{place.rstrip('/')}/{file}"
