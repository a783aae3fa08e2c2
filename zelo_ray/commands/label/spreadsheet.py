"""A sample as a spreadsheet's file: what is open goes out, and comes back with grades."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from zelo_ray.commands.label.desk import Shown
from zelo_ray.errors import InputError
from zelo_ray.formats.delimited import split_rows
from zelo_ray.formats.files import reading, writing
from zelo_ray.formats.formulas import guard

COLUMNS = ("number", "key", "query", "document", "grade", "note")
_UNSURE = frozenset(
    ("u", "?", "unsure", "cannot say", "can't say", "can not say", "cannot tell", "null")
)
_LONGEST = 32_000  # characters; a cell of a spreadsheet holds 32,767


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a sheet: a person's answer on a document, None for "cannot say", and its place."""

    place: str
    person: str
    key: str
    grade: float | None
    note: str


def write_sheet(url: str, documents: Sequence[Shown]) -> None:
    """Write documents for people to grade, one a row; UTF-8 with the mark that Excel looks for."""
    text = io.StringIO(newline="")
    table = csv.writer(text, quoting=csv.QUOTE_ALL)
    table.writerow(COLUMNS)
    for number, document in enumerate(documents, 1):
        table.writerow(
            [number, document.key, _cell(document.query), _cell(document.document), "", ""]
        )
    with writing(url) as file:
        file.write(b"\xef\xbb\xbf" + text.getvalue().encode())


def read_sheet(url: str, person: str, top: int) -> list[Row]:
    """Read the answers in a file that came back. Rows without a grade are passed over.

    Commas, semicolons or tabs part its cells; rows may have moved or gone, and columns be added.

    Args:
        url: of the file.
        person: whose answers these are, where a row names nobody.
        top: the highest grade.

    Raises:
        InputError: it cannot be read, a cell is no answer, or a row is nobody's; says which.
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
            raise InputError(f"{place}: whose answer is it? Give --person, or a column person")
        key = row["key"].strip()
        answers.append(Row(place, who, key, _grade(cell, text, top), row.get("note", "").strip()))
    return answers


def _rows(url: str) -> Iterator[tuple[int, Mapping[str, str], Mapping[str, int]]]:
    """Yield each row's number as in a spreadsheet, its cells, and the places of the columns."""
    with reading(url) as file:
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
        raise InputError(f"{url}: wants the columns key and grade of label --csv, and has {has}")
    if twice := [name for name in ("key", "grade", "person", "note") if names.count(name) > 1]:
        raise InputError(f"{url}: two columns are called {twice[0]}: leave one of them")
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
        raise InputError(
            f"{cell}: {word!r} is no grade from 0 to {top}, and not u (cannot say) either"
        )
    return grade


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, or splits in two."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … (cut here; the whole text has {len(text):,} characters)"
    return f"'{text}" if text.startswith(("+", "-")) else guard(text)  # even a number is a text


def _letter(place: int) -> str:
    """Return the name of a spreadsheet's column: A to Z, then AA."""
    return (_letter(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)
