"""Write open documents or pairs to a spreadsheet file, and read the answers from it."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from zelo_ray.commands.label.desk import SampleItem
from zelo_ray.errors import InputError
from zelo_ray.formats.delimited import split_rows
from zelo_ray.formats.files import open_for_reading, open_for_writing
from zelo_ray.formats.formulas import guard_formula
from zelo_ray.formats.judgments.label_units import LabelUnit

_UNSURE = frozenset(("u", "?", "cannot say"))
_LONGEST = 32_000  # characters; a cell of a spreadsheet holds 32,767


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a sheet: a person's answer, as it was given; the value is None for "cannot say"."""

    place: str
    person: str
    key: str
    value: float | None
    note: str


def write_sheet(url: str, items: Sequence[SampleItem], unit: LabelUnit) -> None:
    """Write items to judge, one per row, as UTF-8 with the byte order mark that Excel needs."""
    text = io.StringIO(newline="")
    table = csv.writer(text, quoting=csv.QUOTE_ALL)
    table.writerow(["number", "key", "query", *unit.texts, unit.column, "note"])
    for number, item in enumerate(items, 1):
        table.writerow([number, item.key, *map(_cell, (item.query, *item.texts)), "", ""])
    with open_for_writing(url) as file:
        file.write(b"\xef\xbb\xbf" + text.getvalue().encode())


def read_sheet(url: str, person: str, unit: LabelUnit) -> list[Row]:
    """Read the answers from a filled-in file. Rows without an answer are skipped.

    Cells are separated by commas, semicolons or tabs; rows may be moved or deleted, columns added.

    Args:
        url: of the file.
        person: the one who answered, where a row names nobody.
        unit: what the answers are about.

    Raises:
        InputError: it cannot be read, an answer is not valid, or a row has no person.
    """
    answers = list[Row]()
    with open_for_reading(url) as file:
        text = file.read().decode("utf-8-sig", "replace")
    mark = max(";,\t", key=text.split("\n", 1)[0].count)
    head = next(csv.reader(io.StringIO(text, newline=""), delimiter=mark), [])
    names = [name.strip().lower() for name in head]
    if not {"key", unit.column} <= {*names}:
        has = ", ".join(names) or "nothing"
        raise InputError(
            f"{url}: needs the columns key and {unit.column} of label --csv; it has {has}"
        )
    table = split_rows(url, io.StringIO(text, newline=""), mark, len(names))
    for number, (_, cells) in islice(enumerate(table, 1), 1, None):
        row = dict(zip(names, cells, strict=False))
        if not row.get(unit.column, "").strip():
            continue
        place = f"{url}: row {number}"
        who = " ".join(row.get("person", "").split()) or person
        if not who:
            raise InputError(f"{place}: no person; give --person, or add a column person")
        value = parse_answer(place, row[unit.column].strip(), unit)
        answers.append(
            Row(place, who, row.get("key", "").strip(), value, row.get("note", "").strip())
        )
    return answers


def parse_answer(place: str, word: str, unit: LabelUnit) -> float | None:
    """Return the number that a person's word stands for; None for "cannot say".

    Raises:
        InputError: it is no answer.
    """
    plain = word.lower().replace(",", ".")
    if plain in _UNSURE:
        return None
    values = {choice.word.lower(): choice.value for choice in unit.choices}
    values |= {f"{word}.0": value for word, value in values.items() if word.isdecimal()}
    if plain not in values:
        raise InputError(f"{place}: {word!r} is neither {unit.words} nor u (cannot say)")
    return values[plain]


def _cell(text: str) -> str:
    """Escape a text so that spreadsheets do not read it as a formula; cut it to a cell."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … (cut here; the whole text has {len(text):,} characters)"
    # Numbers are texts too.
    return f"'{text}" if text.startswith(("+", "-")) else guard_formula(text)
