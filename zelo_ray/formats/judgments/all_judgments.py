"""Read qrels, grades and votes of judges and people from any mixture of files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.formats.files import file_stem, list_directory
from zelo_ray.formats.judgments.grades import NO_COLUMNS
from zelo_ray.formats.judgments.judgments_file import (
    JudgmentsFile,
    assign_judge,
    read_judgments,
)
from zelo_ray.formats.judgments.scales import (
    GRADES,
    check_grades,
    check_preferences,
    map_own_scales,
    pairs_by_grades,
)
from zelo_ray.formats.judgments.votes import HUMAN_VOTES, VOTES
from zelo_ray.formats.run_record import refuse_unfinished
from zelo_ray.formats.wording import counted, printable
from zelo_ray.names import split_name
from zelo_ray.options.agree import Scale

Floats = NDArray[np.float64]
_OF_ANNOTATE = ("grades.parquet", "votes.parquet", "contests.parquet", "verdicts.parquet")
_NO_DATA = (
    *(".md", ".rst", ".html", ".pdf", ".ipynb", ".png", ".svg", ".log"),
    *(".py", ".sh", ".toml", ".yaml", ".yml", ".run", ".zip"),
)
"""Endings of files that are often next to judgments."""

HUMAN = "human"
"""The name of people among the judges."""
PANEL, WITH_HUMAN, OTHERS = "all judges", "all judges and human", "others"
"""The names of groups of judges, which no judge may have."""
_ROWS = "a table that names its judges"


@dataclass(frozen=True, slots=True)
class AllJudgments:
    """Judgments of several judges, and of people.

    ``grades`` and ``human`` have the columns of ``GRADES``, ``votes`` those of ``VOTES``; people's
    judgments are in ``human`` and ``voices``, with the judge ``human``. A judge that was asked
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
    columns: Mapping[str, str] = NO_COLUMNS,
) -> AllJudgments:
    """Read judgments from files and directories of any known kind.

    A source is an ``--out`` of annotate; a Parquet or JSON lines file of grades (query_id,
    doc_id, grade, perhaps judge), votes (query_id, doc_id_a, doc_id_b, preference, perhaps
    judge and swapped) or rows that name a winner; qrels of any kind; or a directory of such
    files. Where rows name no judge, the judge is what the file is called, or NAME in
    ``NAME=path``. Rows with a null answer are passed over, and so are, in a directory, files
    whose endings are of no data (README.md); both are noted.

    Args:
        sources: paths or URLs.
        levels: how many grades there are, from 0.
        scales: the scales of judges, or of ``human``, that have one of their own.
        clip: put grades outside the scale to its nearest end, rather than to refuse them.
        human: grades or votes of people, as a source's, or qrels of any kind. Beside judges that
            voted, grades are also a word on the pairs that these voted on: for the higher grade.
        people: of ``human``, what those say whose name fits this pattern alone.
        columns: by role, the name of a column that is not called as is usual.

    Raises:
        InputError: something is of no known kind, a grade is none of the scale, a preference is
            outside [-1, 1], two files are called the same or as no judge can be, or a file judges a
            document twice; no vote is of the people.
    """
    notes: list[str] = []
    pooled: list[str] = []
    graded, voted = [GRADES.empty_table()], [VOTES.empty_table()]
    queries: dict[str, set[str]] = {}
    owners: dict[str, str] = {} if human is None else {HUMAN: "--human"}
    for name, url in list_sources(sources, notes):
        if url in queries:
            raise InputError(f"{url}: is named twice")
        part = read_judgments(url, name or file_stem(url), columns=columns)
        if name and part.names_judges:
            raise InputError(f"{name}={url}: its rows name their judges; leave out {name}=")
        _record_owners(owners, url, part)
        if part.missing:
            notes.append(_unanswered(url, part))
        queries[url] = set(pc.unique(part.table["query_id"]).to_pylist())
        if part.votes:
            voted.append(check_preferences(part))
        else:
            part = map_own_scales(part, scales, levels, notes, clip=clip)
            graded.append(check_grades(url, part, levels, notes, clip=clip))
        pooled += pc.unique(part.table["judge"]).to_pylist() if part.pooled else []
    grades, voices = GRADES.empty_table(), HUMAN_VOTES.empty_table()
    weights: Mapping[tuple[str, ...], float] = {}
    if human is not None:
        part = read_people(human, people, columns)
        weights = people_weights(part)
        notes += part.notes
        notes += [_unanswered(human, part)] if part.missing else []
        if part.votes:
            voices = check_preferences(part)
        else:
            part = map_own_scales(part, scales, levels, notes, clip=clip)
            grades = check_grades(human, part, levels, notes, clip=clip)
        queries["--human"] = set(pc.unique(part.table["query_id"]).to_pylist())
    notes += _note_unshared_queries(queries)
    votes = pa.concat_tables(voted)
    if len(votes) and len(grades):
        voices = pairs_by_grades(grades, votes)
        pairs = counted(len(voices), "pair")
        note = f"{human}: its grades name the better document of {pairs} that judges voted on"
        notes += [note] if len(voices) else []
    tables = (pa.concat_tables(graded), votes, grades)
    verdicts = AllJudgments(*tables, levels, tuple(notes), tuple(pooled), voices, weights)
    _refuse_unknown(scales, verdicts)
    return verdicts


def _refuse_unknown(scales: Mapping[str, Scale], verdicts: AllJudgments) -> None:
    """Refuse a scale for a name that gave no grades: a judge would be left on the wrong scale."""
    tables = (verdicts.human, verdicts.grades)
    judges = [name for table in tables for name in pc.unique(table["judge"]).to_pylist()]
    if strange := [name for name in scales if name not in judges]:
        names = ", ".join(map(printable, judges)) or "nobody"
        who = printable(strange[0])
        raise InputError(f"--scale {who}: nobody of this name gave grades, but {names}")


def read_people(
    url: str,
    pattern: str | None = None,
    columns: Mapping[str, str] = NO_COLUMNS,
) -> JudgmentsFile:
    """Read the grades or votes of people, all of them as the judge ``human``.

    ``rater`` says who of them: as the rows name them, or another one in each row of a file that
    names nobody.

    Args:
        url: a file of them, or qrels of any kind.
        pattern: those of the people whose name fits it alone.
        columns: by role, the name of a column that is not called as is usual.

    Raises:
        InputError: as `read_judgments`; or nothing is of such people.
    """
    part = read_judgments(url, HUMAN, columns=columns)
    if not len(part.table):
        raise InputError(f"{url}: no judgments of people")
    if pattern is not None:
        fits = [
            part.names_judges and fnmatchcase(name, pattern)
            for name in part.table["judge"].to_pylist()
        ]
        if not any(fits):
            raise InputError(f"{url}: no row is of a judge like {pattern}")
        part = part.filter_rows(pa.chunked_array([pa.array(fits, pa.bool_())]))
    names = (
        part.table["judge"]
        if part.names_judges
        else pa.array([str(row) for row in range(len(part.table))], pa.string())
    )
    return replace(part, table=assign_judge(part.table.append_column("rater", names), HUMAN))


def people_weights(part: JudgmentsFile) -> dict[tuple[str, ...], float]:
    """Return 1 / probability of the documents or pairs that people judged; none if all are equal.

    By query_id and doc_id, or query_id and both ids of a pair in their order. Weighted so, figures
    of a drawn sample are about all that it was drawn from (Horvitz & Thompson 1952, JASA 47:663).
    """
    if "probability" not in part.table.column_names:
        return {}
    chances = part.table["probability"].to_numpy()
    if len(np.unique(chances)) < 2:
        return {}
    return dict(zip(_keys(part.table), (1 / chances).tolist(), strict=True))


def weights_of(table: pa.Table, weights: Mapping[tuple[str, ...], float]) -> Floats:
    """Return the weight of each row of people's grades or votes, [rows].

    Two documents that were drawn each by itself weigh as a pair what both weigh.
    """
    of_documents = any(len(key) == _DOCUMENT for key in weights)
    if "doc_id" in table.column_names or not of_documents:
        return np.array([weights[key] for key in _keys(table)], dtype=np.float64)
    return np.array([weights[q, a] * weights[q, b] for q, a, b in _keys(table)], dtype=np.float64)


_DOCUMENT = 2  # the ids of a query and a document


def _keys(table: pa.Table) -> list[tuple[str, ...]]:
    names = ("doc_id",) if "doc_id" in table.column_names else ("doc_id_a", "doc_id_b")
    query_ids, *sides = (table[name].to_pylist() for name in ("query_id", *names))
    return [(query, *sorted(ids)) for query, *ids in zip(query_ids, *sides, strict=True)]


def _unanswered(url: str, part: JudgmentsFile) -> str:
    return f"{url}: {counted(part.missing, 'row')} without an answer (null)"


def _record_owners(owners: dict[str, str], url: str, part: JudgmentsFile) -> None:
    """Record the file that each judge's name belongs to; refuse names that are reserved."""
    for judge in pc.unique(part.table["judge"]).to_pylist():
        if judge in (PANEL, WITH_HUMAN, OTHERS):
            raise InputError(
                f"{url}: no judge can have the reserved name {judge!r}: give it "
                "another name, a file by NAME=path"
            )
        owner = owners.setdefault(judge, _ROWS if part.names_judges else url)
        if owner != (_ROWS if part.names_judges else url):
            raise InputError(
                f"{url}: has a judge {printable(judge)}, as does {owner}: give one file "
                "another name, NAME=path"
            )


def _note_unshared_queries(queries: Mapping[str, set[str]]) -> Sequence[str]:
    """Return a note on each source that has queries in no other source, if there are several."""
    notes = []
    for url, query_ids in queries.items():
        others = [ids for place, ids in queries.items() if place != url]
        if others and (alone := sorted(query_ids.difference(*others))):
            few = ", ".join(alone[:3]) + (" …" if len(alone) > 3 else "")
            queried = counted(len(alone), "query is", "queries are")
            notes.append(f"{url}: {queried} in no other source ({few})")
    return notes


def list_sources(sources: Iterable[str], notes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name that the user gave (or "") and the place of each source, files in folders."""
    for source in sources:
        name, url = split_name(source)
        names = list_directory(url)
        refuse_unfinished(url)
        if names is None:
            yield name, url
            continue
        root = url.rstrip("/")
        files = [entry for entry in _OF_ANNOTATE if entry in names]
        if not files and any(entry.split(".")[0] == "qrels" for entry in names):
            yield name, url  # a collection
            continue
        if name:
            raise InputError(
                f"{source}: a directory cannot be given one judge; name its files instead"
            )
        if not files:
            shown = [entry for entry in names if not entry.startswith((".", "_"))]
            files = [entry for entry in shown if not entry.lower().endswith(_NO_DATA)]
            if others := [entry for entry in shown if entry not in files]:
                notes.append(f"{url}: passed over {', '.join(others)}")
        if not files or "run.json" in files:
            raise InputError(f"{url}: holds neither grades nor votes")
        for file in files:
            yield "", f"{root}/{file}"
