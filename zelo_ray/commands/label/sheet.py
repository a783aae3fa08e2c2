"""Write open tasks to a table that people fill in, and read answers from any table with keys."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from zelo_ray.commands.label.queue import LabelQueue, LabelTask
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.labels import LabelUnit
from zelo_ray.files.rows import open_source
from zelo_ray.files.storage import exists, open_for_writing
from zelo_ray.files.wording import guard_formula

_CANNOT_SAY = frozenset(("u", "?", "cannot say"))
_LONGEST = 32_000  # characters; a cell of a spreadsheet holds 32,767


def write_sheet(url: str, tasks: Sequence[LabelTask], unit: LabelUnit) -> None:
    """Write a row for each task, as UTF-8 with the byte order mark that Excel needs.

    Raises `OptionError` if the file holds answers of people.
    """
    if exists(url) and _has_answers(url, unit):
        raise OptionError(f"csv: {url} holds answers; read them by --read, or name another file")
    text = io.StringIO(newline="")
    table = csv.writer(text, quoting=csv.QUOTE_ALL)
    table.writerow(["number", "key", "query", *unit.texts, unit.column, "note"])
    for number, task in enumerate(tasks, 1):
        table.writerow([number, task.key, *map(_cell, (task.query, *task.texts)), "", ""])
    with open_for_writing(url) as file:
        file.write(b"\xef\xbb\xbf" + text.getvalue().encode())


def _has_answers(url: str, unit: LabelUnit) -> bool:
    try:
        rows = open_source(url).each(lambda _, row: row.get(unit.column))
    except InputError:  # it is no table
        return False
    return any(str(answer or "").strip() for answer in rows)


def _cell(text: str) -> str:
    """Keep a text from being read as a formula or a number; cut it to what a cell holds."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … (cut here; the whole text has {len(text):,} characters)"
    return f"'{text}" if text.startswith(("+", "-")) else guard_formula(text)


def read_sheet(
    url: str, queue: LabelQueue, person: str, columns: Mapping[str, str]
) -> list[tuple[LabelTask, str, float | None, str]]:
    """Read tasks with a person, an answer and a note; rows without an answer are skipped.

    Args:
        url: of a table of any kind.
        queue: whose keys the table has.
        person: who answered, where a row names nobody.
        columns: ``grade`` and ``judge`` name the columns of answer and person.

    Raises:
        InputError: it cannot be read, a key or an answer is not valid, or a row has no person.
    """
    source = open_source(url)
    answer, judge = columns.get("grade", queue.unit.column), columns.get("judge", "person")
    if not {"key", answer} <= {*source.names}:
        has = ", ".join(source.names) or "nothing"
        raise InputError(f"{url}: needs the columns key and {answer} of label --csv; it has {has}")

    def read(_: int, row: Mapping[str, Any]) -> tuple[LabelTask, str, float | None, str] | None:
        cells = {name: "" if row.get(name) is None else str(row[name]).strip() for name in row}
        if not cells.get(answer):
            return None
        who = " ".join(cells.get(judge, "").split()) or person
        if not who:
            raise ValueError("no person; give --person, or add a column person")
        value = _parse(cells[answer], queue.unit)
        try:
            task = queue.find(cells.get("key", ""))
        except InputError as error:
            raise ValueError(f"{error}; is the file of another --out?") from None
        return task, who, value, cells.get("note", "")

    return [entry for entry in source.each(read) if entry]


def _parse(word: str, unit: LabelUnit) -> float | None:
    """Return the number that a person's word stands for; None for "cannot say"."""
    plain = word.lower().replace(",", ".")
    plain = plain.removesuffix(".0") if plain[:1].isdecimal() else plain
    values = {choice.word.lower(): choice.value for choice in unit.choices}
    if plain not in values and plain not in _CANNOT_SAY:
        raise ValueError(f"{word!r} is neither {unit.words} nor u (cannot say)")
    return values.get(plain)
