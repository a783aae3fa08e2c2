"""Write open documents or pairs to a spreadsheet file, and read the answers from it."""

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zelo_ray.commands.label.desk import SampleItem
from zelo_ray.errors import InputError
from zelo_ray.files.labels import LabelUnit
from zelo_ray.files.rows import open_source
from zelo_ray.files.storage import open_for_reading, open_for_writing
from zelo_ray.files.wording import guard_formula

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


def read_sheet(url: str, person: str, unit: LabelUnit, columns: Mapping[str, str]) -> list[Row]:
    """Read the answers from a filled-in file. Rows without an answer are skipped.

    The file has cells that commas, semicolons or tabs part, or is JSON or JSON lines; rows may be
    moved or deleted, columns added.

    Args:
        url: of the file.
        person: the one who answered, where a row names nobody.
        unit: what the answers are about.
        columns: ``grade`` and ``judge`` name the columns of answer and person.

    Raises:
        InputError: it cannot be read, an answer is not valid, or a row has no person.
    """
    answers, column = list[Row](), _lowered(columns.get("grade", unit.column))
    for place, row in _rows(url, column):
        answer = row.get(column, "")
        if not answer:
            continue
        who = " ".join(row.get(_lowered(columns.get("judge", "person")), "").split()) or person
        if not who:
            raise InputError(f"{place}: no person; give --person, or add a column person")
        value = parse_answer(place, answer, unit)
        answers.append(Row(place, who, row.get("key", ""), value, row.get("note", "")))
    return answers


def _rows(url: str, column: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield places, and cells as texts by the lower-case name of their column.

    Raises:
        InputError: the file cannot be read, or there is no key, or no column of that name.
    """
    with open_for_reading(url) as file:
        data = file.read()
    if data.lstrip(b"\xef\xbb\xbf \r\n")[:1] in (b"[", b"{"):
        source = open_source(url)
        rows = [(source.where(number), row) for number, row in source.rows()]
        _refuse_without(url, column, [*map(_lowered, source.names)])
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:  # as spreadsheets of Windows write it
            text = data.decode("cp1252", "replace")
        separator = max(";,\t", key=text.split("\n", 1)[0].count)
        table = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
        rows = [(f"{url}: row {number}", row) for number, row in enumerate(table, 2)]
        _refuse_without(url, column, [*map(_lowered, table.fieldnames or ())])
    for place, row in rows:
        plain = {_lowered(name): _text(value) for name, value in row.items() if name}
        yield place, plain


def _refuse_without(url: str, column: str, names: Collection[str]) -> None:
    if not {"key", column} <= {*names}:
        has = ", ".join(names) or "nothing"
        raise InputError(f"{url}: needs the columns key and {column} of label --csv; it has {has}")


def _lowered(name: str) -> str:
    return name.strip().lower()


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


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
