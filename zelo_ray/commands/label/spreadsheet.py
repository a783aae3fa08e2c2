"""Write open documents to a spreadsheet file, and read the grades from it."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from zelo_ray.commands.label.desk import SampleDocument
from zelo_ray.errors import InputError
from zelo_ray.formats.delimited import split_rows
from zelo_ray.formats.files import open_for_reading, open_for_writing
from zelo_ray.formats.formulas import guard_formula

COLUMNS = ("number", "key", "query", "document", "grade", "note")
_UNSURE = frozenset(
    ("u", "?", "unsure", "cannot say", "can't say", "can not say", "cannot tell", "null")
)
_LONGEST = 32_000  # characters; a cell of a spreadsheet holds 32,767


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a sheet: a person's answer on a document; the grade is None for "cannot say"."""

    place: str
    person: str
    key: str
    grade: float | None
    note: str


def write_sheet(url: str, documents: Sequence[SampleDocument]) -> None:
    """Write documents to grade, one per row, as UTF-8 with the byte order mark that Excel needs."""
    text = io.StringIO(newline="")
    table = csv.writer(text, quoting=csv.QUOTE_ALL)
    table.writerow(COLUMNS)
    for number, document in enumerate(documents, 1):
        table.writerow(
            [number, document.key, _cell(document.query), _cell(document.document), "", ""]
        )
    with open_for_writing(url) as file:
        file.write(b"\xef\xbb\xbf" + text.getvalue().encode())


def read_sheet(url: str, person: str, top: int) -> list[Row]:
    """Read the answers from a filled-in file. Rows without a grade are skipped.

    Cells are separated by commas, semicolons or tabs; rows may be moved or deleted, columns added.

    Args:
        url: of the file.
        person: the one who answered, where a row names nobody.
        top: the highest grade.

    Raises:
        InputError: it cannot be read, a grade is not valid, or a row has no person.
    """
    answers = list[Row]()
    for number, row, places in _rows(url):
        text = row.get("grade", "").strip()
        if not text:
            continue
        place = f"{url}: row {number}"
        cell = f"{place}, cell {_letter(places['grade'])}{number} (grade)"
        who = " ".join(row.get("person", "").split()) or person
        if not who:
            raise InputError(f"{place}: no person; give --person, or add a column person")
        key = row["key"].strip()
        answers.append(Row(place, who, key, _grade(cell, text, top), row.get("note", "").strip()))
    return answers


def _rows(url: str) -> Iterator[tuple[int, Mapping[str, str], Mapping[str, int]]]:
    """Yield each row's number as in a spreadsheet, its cells, and the places of the columns."""
    with open_for_reading(url) as file:
        text = _text(file.read())
    first = text.split("\n", 1)[0]
    mark = max(";,\t", key=first.count)
    if first.startswith("sep="):  # Excel's own
        mark, text = first[4:5], text.partition("\n")[2]
    head = next(csv.reader(io.StringIO(text, newline=""), delimiter=mark), [])
    names = [name.strip().lower() for name in head]
    places = {name: place for place, name in enumerate(names)}
    if not {"key", "grade"} <= {*names}:
        has = ", ".join(names) or "nothing"
        raise InputError(f"{url}: needs the columns key and grade of label --csv; it has {has}")
    if twice := [name for name in ("key", "grade", "person", "note") if names.count(name) > 1]:
        raise InputError(f"{url}: two columns are called {twice[0]}; remove one")
    start = 2 if first.startswith("sep=") else 1
    table = split_rows(url, io.StringIO(text, newline=""), mark, len(names))
    for number, (_, cells) in islice(enumerate(table, start), 1, None):
        padded = [*cells, *[""] * (len(names) - len(cells))]
        yield number, {name: padded[place] for name, place in places.items()}, places


def _text(data: bytes) -> str:
    """Decode a text as spreadsheets write it: UTF-8, UTF-16, or else Windows' own encoding."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _grade(cell: str, word: str, top: int) -> float | None:
    plain = word.removeprefix("'").lower()
    if plain in _UNSURE:
        return None
    try:
        grade = -1.0 if "_" in plain else float(plain.replace(",", "."))
    except ValueError:
        grade = -1.0
    if grade not in range(top + 1):
        raise InputError(f"{cell}: {word!r} is neither a grade from 0 to {top} nor u (cannot say)")
    return grade


def _cell(text: str) -> str:
    """Escape a text so that spreadsheets do not read it as a formula; cut it to a cell."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … (cut here; the whole text has {len(text):,} characters)"
    # Numbers are texts too.
    return f"'{text}" if text.startswith(("+", "-")) else guard_formula(text)


def _letter(place: int) -> str:
    """Return the name of a spreadsheet's column: A to Z, then AA."""
    return (_letter(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)
