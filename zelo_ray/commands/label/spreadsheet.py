"""Write open documents to a spreadsheet file, and read the grades from it."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from zelo_ray.commands.label.desk import SampleDocument
from zelo_ray.errors import InputError
from zelo_ray.formats.delimited import split_rows
from zelo_ray.formats.files import open_for_reading, open_for_writing
from zelo_ray.formats.formulas import guard_formula

COLUMNS = ("number", "key", "query", "document", "grade", "note")
_UNSURE = frozenset(("u", "?", "cannot say"))
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
    with open_for_reading(url) as file:
        text = file.read().decode("utf-8-sig", "replace")
    mark = max(";,\t", key=text.split("\n", 1)[0].count)
    head = next(csv.reader(io.StringIO(text, newline=""), delimiter=mark), [])
    names = [name.strip().lower() for name in head]
    if not {"key", "grade"} <= {*names}:
        has = ", ".join(names) or "nothing"
        raise InputError(f"{url}: needs the columns key and grade of label --csv; it has {has}")
    table = split_rows(url, io.StringIO(text, newline=""), mark, len(names))
    for number, (_, cells) in islice(enumerate(table, 1), 1, None):
        row = dict(zip(names, cells, strict=False))
        if not row.get("grade", "").strip():
            continue
        place = f"{url}: row {number}"
        who = " ".join(row.get("person", "").split()) or person
        if not who:
            raise InputError(f"{place}: no person; give --person, or add a column person")
        grade = _grade(place, row["grade"].strip(), top)
        answers.append(
            Row(place, who, row.get("key", "").strip(), grade, row.get("note", "").strip())
        )
    return answers


def _grade(place: str, word: str, top: int) -> float | None:
    plain = word.lower().replace(",", ".")
    if plain in _UNSURE:
        return None
    grades = {form: grade for grade in range(top + 1) for form in (f"{grade}", f"{grade}.0")}
    if plain not in grades:
        raise InputError(f"{place}: {word!r} is neither a grade from 0 to {top} nor u (cannot say)")
    return float(grades[plain])


def _cell(text: str) -> str:
    """Escape a text so that spreadsheets do not read it as a formula; cut it to a cell."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … (cut here; the whole text has {len(text):,} characters)"
    # Numbers are texts too.
    return f"'{text}" if text.startswith(("+", "-")) else guard_formula(text)
