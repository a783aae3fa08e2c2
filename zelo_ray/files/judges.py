"""Read the judgments of several judges, and of people, from any mixture of files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.command_options import Scale
from zelo_ray.errors import InputError
from zelo_ray.files.judgments import (
    KNOWN_LABELS,
    hint_at_raters,
    open_judgments,
    read_numbers,
    refuse_repeated,
)
from zelo_ray.files.labels import (
    PAIR,
    PersonsAnswer,
    answers_in,
    check_probabilities,
    read_sample,
    unit_of_sample,
    valid_answers,
)
from zelo_ray.files.pools import few
from zelo_ray.files.rows import SAMPLE_RECORD, refuse, stem
from zelo_ray.files.run_record import read_record, refuse_unfinished
from zelo_ray.files.storage import file_stem, list_directory
from zelo_ray.files.tables import table_of_rows
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

Floats = NDArray[np.float64]
_TEXTS = [(name, pa.string()) for name in ("query_id", "doc_id", "judge")]
GRADES = pa.schema([*_TEXTS, ("grade", pa.int64())])
_RAW_GRADES = pa.schema([*_TEXTS, ("grade", pa.float64())])
_OF_ANNOTATE = ("grades.parquet", "votes.parquet", "contests.parquet", "verdicts.parquet")
_DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".qrels", ".txt", ".gz", ".zst")
"""Endings of files in a folder that may be judgments."""
HUMAN = "human"
"""The name of people among the judges."""
PANEL, WITH_HUMAN, OTHERS = "all judges", "all judges and human", "others"
"""The names of groups of judges, which no judge may have."""
_ROWS = "a table that names its judges"
_DOCUMENT = 2  # the ids of a query and a document


@dataclass(frozen=True, slots=True)
class JudgmentsFile:
    """The content of one place: grades (query_id, doc_id, judge, grade as float64) or votes."""

    table: pa.Table
    where: Callable[[int], str]
    names_judges: bool
    """whether the rows name their judges"""
    pooled: bool = False
    """whether they are the combined grades of a graded run"""
    missing: int = 0
    """how many rows have no answer"""
    notes: tuple[str, ...] = ()
    """what a reader should know of it"""

    @property
    def votes(self) -> bool:
        """Return whether the rows are votes, not grades."""
        return "preference" in self.table.column_names

    def filter_rows(self, mask: NDArray[np.bool_]) -> "JudgmentsFile":
        """Return some of the rows, with their places."""
        at = np.flatnonzero(mask)
        table = self.table.filter(pa.array(mask))
        return replace(self, table=table, where=lambda row: self.where(int(at[row])))


def read_judgments(
    place: str, judge: str, columns: Mapping[str, str] | None = None
) -> JudgmentsFile:
    """Read the grades or votes of a place of any known kind; of ``judge`` if rows name nobody."""
    source = open_judgments(place, columns)
    if source.kind == "labels":
        return _read_sample(place)
    if has_votes(source):
        rows = read_vote_rows(source)
        file = JudgmentsFile(as_votes(rows, judge), rows.where, rows.names_judges)
        file = file.filter_rows(rows.is_answered)
        if rows.is_of_debates:
            file = replace(file, table=merge_orders(file.table))
        return replace(file, missing=int((~rows.is_answered).sum()))
    numbers = read_numbers(source, "grades")
    if numbers is None:
        raise refuse(source, "judgments", hint_at_raters(source), KNOWN_LABELS)
    if not len(numbers.table):
        raise InputError(f"{place}: holds no judged document")
    answered = numbers.answered()
    names = ["query_id", "doc_id", *(["judge"] if numbers.has("judge") else []), "value"]
    if numbers.has("probability") and answered.table["probability"].null_count < len(
        answered.table
    ):
        check_probabilities(answered)
        names.append("probability")
    table = answered.table.select(names).rename_columns({"value": "grade"})
    file = JudgmentsFile(
        table if numbers.has("judge") else assign_judge(table, judge),
        answered.where,
        numbers.has("judge"),
        pooled=numbers.is_pooled and not numbers.has("judge"),
        missing=len(numbers.table) - len(answered.table),
    )
    if not file.names_judges:
        refuse_repeated(answered, "judged")
    return file


def assign_judge(table: pa.Table, judge: str) -> pa.Table:
    """Return the judgments with all of them given to one judge."""
    column = pa.array([judge] * len(table), pa.string())
    at = table.schema.get_field_index("judge")
    return table.append_column("judge", column) if at < 0 else table.set_column(at, "judge", column)


def _read_sample(place: str) -> JudgmentsFile:
    """Read the answers that people gave on the page of label, with the chances of being drawn.

    Where all had the same chance, these are all answers, counted in a correction or not, without
    it. Else those out of turn, whose chance is not known, are left out.
    """
    answers, notes = answers_in(place), tuple[str, ...]()
    valid: list[tuple[PersonsAnswer, float | None]] = [(a, None) for a in valid_answers(answers)]
    is_of_pairs = unit_of_sample(read_record(f"{place.rstrip('/')}/{SAMPLE_RECORD}")) is PAIR
    if not valid:
        what = "preference" if is_of_pairs else "grade"
        raise InputError(f"{place}: holds no {what} of a person")
    sample = read_sample(place.rstrip("/"))
    missing = sum(map(len, answers.values())) - len(valid)
    if not sample.is_even:
        if out_of_turn := len(valid) - len(sample.answers):
            said = f"{place}: {counted(out_of_turn, 'answer')} out of turn left out, since the"
            notes = (f"{said} chance of each is known once all before it are answered",)
        valid = [*sample.answers]
        if not valid:
            raise InputError(
                f"{place}: all of its answers are out of turn; answer what comes first"
            )
    rows = [(*a.ids, a.person, a.value, *((a.swapped,) if is_of_pairs else ())) for a, _ in valid]
    table = table_of_rows(rows, VOTES if is_of_pairs else _RAW_GRADES)
    if not sample.is_even:
        chances = pa.array([chance for _, chance in valid], pa.float64())
        table = table.append_column("probability", chances)
    where = lambda row: f"{place}: label {row + 1}"  # noqa: E731 - of this place
    return JudgmentsFile(table, where, names_judges=True, missing=missing, notes=notes)


# --- scales -------------------------------------------------------------------------------------


def check_grades(
    place: str, file: JudgmentsFile, levels: int, notes: list[str], *, clip: bool
) -> pa.Table:
    """Return the grades of a file as whole numbers of the scale, with the columns of ``GRADES``."""
    grades = file.table["grade"].to_numpy()
    odd = np.flatnonzero(grades != np.floor(grades))  # NaN is, too
    if odd.size:
        grade = grades[odd[0]]
        raise InputError(f"{file.where(int(odd[0]))}: the grade {grade:g} is not a whole number")
    clipped = np.clip(grades, 0, levels - 1)
    outside = np.flatnonzero(clipped != grades)
    if outside.size and not clip:
        more = f" (and {outside.size - 1:,} more)" if outside.size > 1 else ""
        raise InputError(
            f"{file.where(int(outside[0]))}: the grade {grades[outside[0]]:g} is not in 0 to "
            f"{levels - 1}{more}: --clip moves such grades to the nearest end, --levels says how "
            "many grades there are"
        )
    if outside.size:
        worst = ", ".join(f"{value:g}" for value in np.unique(grades[outside])[:5])
        share = f"{outside.size:,} of {len(grades):,} grades"
        notes.append(f"{place}: {share} clipped to 0 to {levels - 1} ({worst})")
    return _with_grades(file, clipped.astype(np.int64)).table.select(GRADES.names).cast(GRADES)


def _with_grades(file: JudgmentsFile, grades: NDArray[np.generic]) -> JudgmentsFile:
    at = file.table.schema.get_field_index("grade")
    return replace(file, table=file.table.set_column(at, "grade", pa.array(grades)))


def map_own_scales(
    file: JudgmentsFile, scales: Mapping[str, Scale], levels: int, notes: list[str], *, clip: bool
) -> JudgmentsFile:
    """Map the grades of judges with scales of their own onto 0 to ``levels`` - 1."""
    judges = file.table["judge"].to_numpy()
    grades = file.table["grade"].to_numpy().copy()
    for name, scale in scales.items():
        rows = np.flatnonzero(judges == name)
        raw = grades[rows]
        inside = np.clip(raw, scale.low, scale.high)
        odd = np.flatnonzero((raw != np.floor(raw)) | (inside != raw) & (not clip))
        if odd.size:
            raise InputError(
                f"{file.where(int(rows[odd[0]]))}: the grade {raw[odd[0]]:g} of {name} is not on "
                f"its scale {scale}"
            )
        if outside := int((inside != raw).sum()):
            notes.append(f"{name}: {outside:,} of {len(raw):,} grades clipped to {scale}")
        grades[rows] = map_grades(inside, scale, levels)
    return _with_grades(file, grades)


def map_grades(grades: Floats, scale: Scale, levels: int) -> Floats:
    """Map grades of a scale to the nearest of 0 to ``levels`` - 1, and its ends to the ends."""
    mapped: Floats = np.floor((grades - scale.low) * (levels - 1) / (scale.high - scale.low) + 0.5)
    return mapped


def check_preferences(file: JudgmentsFile) -> pa.Table:
    """Return the votes of a file in the columns of ``VOTES``; of ``HUMAN_VOTES`` with raters."""
    preferences = file.table["preference"].to_numpy()
    odd = np.flatnonzero(~(np.abs(preferences) <= 1))  # NaN is, too
    if odd.size:
        value = preferences[odd[0]]
        raise InputError(f"{file.where(int(odd[0]))}: the preference {value:g} is not in -1 to 1")
    schema = HUMAN_VOTES if "rater" in file.table.column_names else VOTES
    return file.table.select(schema.names).cast(schema)


def pairs_by_grades(grades: pa.Table, votes: pa.Table) -> pa.Table:
    """Turn people's grades into votes on every pair that judges voted on: for the higher mean.

    Equal grades give no vote. The result has the columns of ``HUMAN_VOTES``, a row a pair.
    """
    mean: dict[tuple[str, str], list[float]] = {}
    for row in grades.to_pylist():
        mean.setdefault((row["query_id"], row["doc_id"]), []).append(row["grade"])
    names = ("query_id", "doc_id_a", "doc_id_b")
    columns = (votes[name].to_pylist() for name in names)
    pairs = dict.fromkeys((q, min(a, b), max(a, b)) for q, a, b in zip(*columns, strict=True))
    judge, rows = grades["judge"][0].as_py() if len(grades) else "", []
    for query_id, a, b in pairs:
        first, second = (mean.get((query_id, doc_id), []) for doc_id in (a, b))
        if first and second and (step := float(np.sign(np.mean(second) - np.mean(first)))):
            named = dict(zip(names, (query_id, a, b), strict=True))
            rows.append({**named, "judge": judge, "preference": step, "rater": "grades"})
    return pa.Table.from_pylist(rows, HUMAN_VOTES)


# --- all of them --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AllJudgments:
    """Judgments of several judges, and of people.

    ``grades`` and ``human`` have the columns of ``GRADES``, ``votes`` those of ``VOTES``; people's
    judgments are in ``human`` and ``human_votes``, with the judge ``human``. A judge that was asked
    repeatedly has several rows for a document, in the order of reading. Grades are from 0 to
    ``levels`` - 1.
    """

    grades: pa.Table
    votes: pa.Table
    human: pa.Table
    levels: int
    notes: tuple[str, ...] = ()
    """Remarks on the sources for readers of the results."""
    pooled: tuple[str, ...] = ()
    """Judges that are the combined grades of a graded run's panel."""
    human_votes: pa.Table = field(default_factory=HUMAN_VOTES.empty_table)
    """The votes of all people, in the columns of ``HUMAN_VOTES``."""
    weights: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """See `people_weights`."""

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
    scales: Mapping[str, Scale] = MappingProxyType({}),
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
        queries[place] = {*pc.unique(file.table["query_id"]).to_pylist()}
        if file.votes:
            return check_preferences(file)
        file = map_own_scales(file, scales, levels, notes, clip=clip)
        return check_grades(place, file, levels, notes, clip=clip)

    for name, place in list_sources(sources, notes):
        if place in queries:
            raise InputError(f"{place}: is named twice")
        file = read_judgments(place, name or file_stem(place), columns)
        if name and file.names_judges:
            raise InputError(f"{name}={place}: its rows name their judges; leave out {name}=")
        _record_owners(owners, place, file)
        (voted if file.votes else graded).append(read(place, file))
        pooled += pc.unique(file.table["judge"]).to_pylist() if file.pooled else []
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
    judgments = AllJudgments(*tables, levels, tuple(notes), tuple(pooled), human_votes, weights)
    names = [*pc.unique(grades["judge"]).to_pylist(), *judgments.judges]
    if strange := [name for name in scales if name not in names]:
        every = ", ".join(map(printable, names)) or "nobody"
        raise InputError(
            f"--scale {printable(strange[0])}: nobody of this name gave grades, but {every}"
        )
    return judgments


def read_people(
    place: str, pattern: str | None = None, columns: Mapping[str, str] | None = None
) -> JudgmentsFile:
    """Read the grades or votes of people, all of them as the judge ``human``.

    ``rater`` says who of them: as the rows name them, or another one in each row of a file that
    names nobody. With a pattern only those whose name fits it count.
    """
    file = read_judgments(place, HUMAN, columns)
    if not len(file.table):
        raise InputError(f"{place}: no judgments of people")
    if pattern is not None:
        names = file.table["judge"].to_pylist()
        fits = np.array([file.names_judges and fnmatchcase(name, pattern) for name in names])
        if not fits.any():
            raise InputError(f"{place}: no row is of a judge like {pattern}")
        file = file.filter_rows(fits)
    names = (
        file.table["judge"]
        if file.names_judges
        else pa.array([str(row) for row in range(len(file.table))], pa.string())
    )
    return replace(file, table=assign_judge(file.table.append_column("rater", names), HUMAN))


def people_weights(file: JudgmentsFile) -> dict[tuple[str, ...], float]:
    """Return 1 / probability of the documents or pairs that people judged; none if all are equal.

    By query_id and doc_id, or query_id and both ids of a pair in their order. Weighted so, figures
    of a drawn sample are about all that it was drawn from (Horvitz & Thompson 1952, JASA 47:663).
    """
    if "probability" not in file.table.column_names:
        return {}
    chances = file.table["probability"].to_numpy()
    if len(np.unique(chances)) < 2:
        return {}
    return dict(zip(_keys(file.table), (1 / chances).tolist(), strict=True))


def weights_of(table: pa.Table, weights: Mapping[tuple[str, ...], float]) -> Floats:
    """Return the weight of each row of people's grades or votes, [rows].

    Two documents that were drawn each by itself weigh as a pair what both weigh.
    """
    of_documents = any(len(key) == _DOCUMENT for key in weights)
    if "doc_id" in table.column_names or not of_documents:
        return np.array([weights[key] for key in _keys(table)], dtype=np.float64)
    return np.array([weights[q, a] * weights[q, b] for q, a, b in _keys(table)], dtype=np.float64)


def _keys(table: pa.Table) -> list[tuple[str, ...]]:
    names = ("doc_id",) if "doc_id" in table.column_names else ("doc_id_a", "doc_id_b")
    query_ids, *sides = (table[name].to_pylist() for name in ("query_id", *names))
    return [(query, *sorted(ids)) for query, *ids in zip(query_ids, *sides, strict=True)]


def _record_owners(owners: dict[str, str], place: str, file: JudgmentsFile) -> None:
    """Record the file that each judge's name belongs to; refuse names that are reserved."""
    for judge in pc.unique(file.table["judge"]).to_pylist():
        if judge in (PANEL, WITH_HUMAN, OTHERS):
            raise InputError(
                f"{place}: no judge can have the reserved name {judge!r}: give it another name, a "
                "file by NAME=path"
            )
        owner = owners.setdefault(judge, _ROWS if file.names_judges else place)
        if owner != (_ROWS if file.names_judges else place):
            raise InputError(
                f"{place}: has a judge {printable(judge)}, as does {owner}: give one file another "
                "name, NAME=path"
            )


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
        files = [entry for entry in _OF_ANNOTATE if entry in names]
        if not files and any(stem(entry) == "qrels" for entry in names):
            yield name, place  # a collection
            continue
        if name:
            raise InputError(
                f"{source}: a directory cannot be given one judge; name its files instead"
            )
        if not files:
            shown = [entry for entry in names if not entry.startswith((".", "_"))]
            files = [entry for entry in shown if entry.lower().endswith(_DATA)]
            if others := [entry for entry in shown if entry not in files]:
                notes.append(f"{place}: passed over {', '.join(others)}")
        if not files or "run.json" in files:
            raise InputError(f"{place}: holds neither grades nor votes")
        for file in files:
            yield "", f"{place.rstrip('/')}/{file}"
