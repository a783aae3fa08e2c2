"""What judges and people said, from any mixture of places: grades, votes and qrels."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.formats.files import listing, stem
from zelo_ray.formats.judgments import Part, of_qrels, read_judgments
from zelo_ray.formats.pools import InputError
from zelo_ray.formats.tables import schema_of
from zelo_ray.formats.wording import counted, printable
from zelo_ray.records import Vote

HUMAN = "human"
"""What the people are called beside the judges."""

PANEL, WITH_HUMAN, OTHERS = "all judges", "all judges and human", "others"
"""What several are called together; no judge can have one of these names."""

GRADES = pa.schema(
    [
        ("query_id", pa.string()),
        ("doc_id", pa.string()),
        ("judge", pa.string()),
        ("grade", pa.int64()),
    ]
)
VOTES = pa.schema([f for f in schema_of(Vote) if f.name not in ("reasoning", "key")])
"""``swapped`` is null where a source does not tell it."""

_OF_ANNOTATE = ("grades.parquet", "votes.parquet")
_NO_DATA = (
    *(".md", ".rst", ".html", ".pdf", ".ipynb", ".png", ".svg", ".log"),
    *(".py", ".sh", ".toml", ".yaml", ".yml", ".run", ".zip"),
)
"""How files end that lie beside judgments, and are none."""
_ROWS = "a table that names its judges"
_NAMED = re.compile(r"([^/=]+)=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Judgments of several judges, and of people.

    ``grades`` and ``human`` have the columns of ``GRADES``, ``votes`` those of ``VOTES``; all rows
    of ``human`` have the judge ``human``. A judge that was asked several times has several rows for
    a document, in the order in which they were read. Grades lie in 0 to ``levels`` - 1.
    """

    grades: pa.Table
    votes: pa.Table
    human: pa.Table
    levels: int
    notes: tuple[str, ...] = ()
    """What a reader of the results should know of the sources."""
    pooled: tuple[str, ...] = ()
    """Of the judges, those that are what a graded run's judges came to together."""

    @property
    def judges(self) -> tuple[str, ...]:
        """Those who graded, in the order in which they were read, without the people."""
        return tuple(pc.unique(self.grades["judge"]).to_pylist())

    @property
    def panel(self) -> tuple[str, ...]:
        """The judges without the pooled ones: those who count in what is of all judges."""
        return tuple(judge for judge in self.judges if judge not in self.pooled)


def read_verdicts(
    sources: Iterable[str], *, levels: int = 4, clip: bool = False, human: str | None = None
) -> Verdicts:
    """Read judgments from files and directories of any known kind.

    A source is an ``--out`` of annotate; a Parquet or JSON lines file of grades (query_id, doc_id,
    grade, perhaps judge) or votes (query_id, doc_id_a, doc_id_b, preference, perhaps judge and
    swapped); qrels of any kind; or a directory of such files. Where rows name no judge, the judge
    is what the file is called, or NAME in ``NAME=path``. Rows with a null grade are passed over,
    and so are, in a directory, files whose endings are of no data (README.md); both are noted.

    Args:
        sources: paths or URLs.
        levels: how many grades there are, from 0.
        clip: put grades outside the scale to its nearest end, rather than to refuse them.
        human: qrels of any kind; grades of people.

    Raises:
        InputError: something is of no known kind, a grade is none of the scale, a preference is
            outside [-1, 1], two files are called the same or as no judge can be, or a file judges a
            document twice.
    """
    notes: list[str] = []
    pooled: list[str] = []
    graded, voted = [GRADES.empty_table()], [VOTES.empty_table()]
    queries: dict[str, set[str]] = {}
    owners: dict[str, str] = {} if human is None else {HUMAN: "--human"}
    for name, url in _files(sources, notes):
        if url in queries:
            raise InputError(f"{url}: is named twice")
        part = read_judgments(url, name or stem(url))
        if name and part.own:
            raise InputError(f"{name}={url}: its rows name their judges; leave {name}= away")
        _own(owners, url, part)
        if part.missing:
            notes.append(f"{url}: {counted(part.missing, 'row')} without an answer (null)")
        votes = "preference" in part.table.column_names
        table = _preferences(part) if votes else _on_scale(url, part, levels, notes, clip=clip)
        (voted if votes else graded).append(table)
        queries[url] = set(pc.unique(table["query_id"]).to_pylist())
        pooled += pc.unique(table["judge"]).to_pylist() if part.pooled else []
    people = GRADES.empty_table()
    if human is not None:
        people = _on_scale(human, of_qrels(human, HUMAN), levels, notes, clip=clip)
        queries["--human"] = set(pc.unique(people["query_id"]).to_pylist())
    notes += _alone(queries)
    tables = (pa.concat_tables(graded), pa.concat_tables(voted), people)
    return Verdicts(*tables, levels, tuple(notes), tuple(pooled))


def _own(owners: dict[str, str], url: str, part: Part) -> None:
    """Note whose judges these are: a name of a file belongs to it alone."""
    for judge in pc.unique(part.table["judge"]).to_pylist():
        if judge in (PANEL, WITH_HUMAN, OTHERS):
            raise InputError(
                f"{url}: a judge cannot be called {judge!r}, as several are together: give it "
                "another name, a file by NAME=path"
            )
        other = owners.setdefault(judge, _ROWS if part.own else url)
        if other != (_ROWS if part.own else url):
            raise InputError(
                f"{url}: has a judge {printable(judge)}, as has {other}: give a file another name, "
                "NAME=path"
            )


def place_of(source: str) -> str:
    """The path or URL of a source, without the name that it gives its judge."""
    named = _NAMED.fullmatch(source)
    return named[2] if named else source


def _files(sources: Iterable[str], notes: list[str]) -> Iterator[tuple[str, str]]:
    """The name that a user gave, or "", and the place, of each source; directories are opened."""
    for source in sources:
        named = _NAMED.fullmatch(source)
        name, url = (named[1], named[2]) if named else ("", source)
        names = listing(url)
        if names is None:
            yield name, url
            continue
        root = url.rstrip("/")
        found = [each for each in _OF_ANNOTATE if each in names]
        if not found and any(each.split(".")[0] == "qrels" for each in names):
            yield name, url  # a collection
            continue
        if name:
            raise InputError(f"{source}: a directory has no one judge; name its files instead")
        if not found:
            shown = [each for each in names if not each.startswith((".", "_"))]
            found = [each for each in shown if not each.lower().endswith(_NO_DATA)]
            if other := [each for each in shown if each not in found]:
                notes.append(f"{url}: passed over {', '.join(other)}")
        if not found or "run.json" in found:
            raise InputError(f"{url}: holds neither grades nor votes")
        for each in found:
            yield "", f"{root}/{each}"


def _on_scale(url: str, part: Part, levels: int, notes: list[str], *, clip: bool) -> pa.Table:
    """A part's grades as whole numbers of the scale."""
    grades = part.table["grade"].to_numpy()
    odd = np.flatnonzero(grades != np.floor(grades))  # NaN is, too
    if odd.size:
        raise InputError(
            f"{part.place(int(odd[0]))}: the grade {grades[odd[0]]:g} is no whole number"
        )
    clipped = np.clip(grades, 0, levels - 1)
    outside = np.flatnonzero(clipped != grades)
    if outside.size and not clip:
        more = f" (and {outside.size - 1:,} more)" if outside.size > 1 else ""
        raise InputError(
            f"{part.place(int(outside[0]))}: the grade {grades[outside[0]]:g} is not in 0 to "
            f"{levels - 1}{more}: --clip puts such grades to the nearest end, --levels says how "
            "many grades there are"
        )
    if outside.size:
        worst = ", ".join(f"{value:g}" for value in np.unique(grades[outside])[:5])
        counted = f"{outside.size:,} of {len(grades):,} grades"
        notes.append(f"{url}: {counted} clipped to 0 to {levels - 1} ({worst})")
    if not part.own:
        _refuse_twice(part)
    table = part.table.set_column(
        part.table.schema.get_field_index("grade"), "grade", pa.array(clipped.astype(np.int64))
    )
    return table.select(GRADES.names).cast(GRADES)


def _refuse_twice(part: Part) -> None:
    """A judge whose answers no keys tell apart has one word on a document."""
    pairs = part.table.select(["query_id", "doc_id"])
    counted = pairs.append_column("row", pa.array(np.arange(len(pairs))))
    last = counted.group_by(["query_id", "doc_id"]).aggregate([("row", "max"), ("row", "count")])
    twice = last.filter(pc.field("row_count") > 1)
    if len(twice):
        row = pc.min(twice["row_max"]).as_py()
        query_id, doc_id = pairs["query_id"][row], pairs["doc_id"][row]
        raise InputError(
            f"{part.place(row)}: document {doc_id} of query {query_id} is judged again: keep one"
        )


def _preferences(part: Part) -> pa.Table:
    preferences = part.table["preference"].to_numpy()
    odd = np.flatnonzero(~(np.abs(preferences) <= 1))  # NaN is, too
    if odd.size:
        raise InputError(
            f"{part.place(int(odd[0]))}: the preference {preferences[odd[0]]:g} is not in -1 to 1"
        )
    return part.table.select(VOTES.names).cast(VOTES)


def _alone(queries: Mapping[str, set[str]]) -> Sequence[str]:
    """A word on each source with queries that no other knows, if there are several."""
    notes = []
    for url, own in queries.items():
        others = [known for other, known in queries.items() if other != url]
        if others and (alone := sorted(own.difference(*others))):
            few = ", ".join(alone[:3]) + (" …" if len(alone) > 3 else "")
            queried = counted(len(alone), "query is", "queries are")
            notes.append(f"{url}: {queried} in no other source ({few})")
    return notes
