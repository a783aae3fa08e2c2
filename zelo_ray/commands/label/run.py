"""Draw documents or pairs for people to judge, and collect their answers: a page, or a table."""

import contextlib
import csv
import io
import os
import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.draw import draw_sample
from zelo_ray.commands.label.queue import LabelQueue, LabelTask
from zelo_ray.engine.job import Watch
from zelo_ray.engine.lock import claim_folder, remove_folders_if_refused
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.labels import LabelUnit, read_sample
from zelo_ray.files.rows import open_source
from zelo_ray.files.schema import split_columns
from zelo_ray.files.storage import exists, open_for_writing
from zelo_ray.files.wording import counted, guard_formula
from zelo_ray.report.command_lines import command_of
from zelo_ray.report.results import Results


def run(options: LabelOptions, watch: Watch) -> Results:
    """Draw documents or pairs for people, then serve the page, or write or read a table of them."""
    with open_queue(options, watch.say) as queue:
        lines, person = list[str](), options.person or ""
        if options.read:
            entries = read_sheet(options.read, queue, person, split_columns(options.columns))
            answers, new = counted(len(entries), "answer"), queue.save(entries)
            lines.append(f"Read {answers} from {options.read}, {new:,} of them new.")
        elif options.csv:
            lines.append(_write_sheet(queue, options.csv, person))
        else:
            _serve(queue, options, watch.say)
        record = _count(queue)
        lines += _describe(queue, record)
        is_done = record["judged"] == record["sample"]
        return Results(
            record,
            out=options.out,
            lines=lines,
            lead=lines,
            files=[options.csv] if options.csv else [],
            next_command=_next(queue) if is_done else _command(queue),
        )


@contextlib.contextmanager
def open_queue(options: LabelOptions, say: Callable[[str], None]) -> Iterator[LabelQueue]:
    """Draw the sample, or extend it, and open its answers, under the lock of the directory."""
    with remove_folders_if_refused(options.out), claim_folder(options.out, say, "label"):
        yield LabelQueue(options.out, *draw_sample(options, say), say)


def _write_sheet(queue: LabelQueue, url: str, person: str) -> str:
    tasks, unit = queue.unanswered(person), queue.unit
    if not tasks:
        raise InputError(f"{queue.out}: all {unit.name}s are judged; draw more with --more N")
    write_sheet(url, tasks, unit)
    return (
        f"Wrote {counted(len(tasks), unit.name)} to {url}. Fill in the column {unit.column} from "
        f'the top: {unit.words}, or u for "cannot say". Then run '
        f"{_command(queue, '--read', 'FILE', '--person', 'NAME')}"
    )


def _serve(queue: LabelQueue, options: LabelOptions, say: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C."""
    from zelo_ray.commands.label.server import serve_page  # noqa: PLC0415 - aiohttp, for the page

    with (
        serve_page(queue, _command(queue), _next(queue), options.port) as url,
        contextlib.suppress(KeyboardInterrupt),
    ):
        progress = queue.progress()
        judged = f"{progress['done']:,} of {counted(progress['of'], queue.unit.name)} judged"
        say(f"{url} ({judged}); stop with Ctrl-C")
        screens = map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))
        has_screen = sys.platform in ("darwin", "win32") or any(screens)
        if has_screen and not options.no_browser:  # a browser of texts would block the terminal
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        threading.Event().wait()


def _command(queue: LabelQueue, *more: str) -> str:
    """Return the command that goes on with the sample."""
    return command_of("label", "--out", queue.out, *more)


def _next(queue: LabelQueue) -> str:
    """Return the command that uses the labels: the bake-off again, or `agree`."""
    about = queue.about
    if run := about.get("run"):
        return command_of("agree", run, "--human", queue.out)
    contest, truth = about["contest"].rstrip("/"), about["truth"]
    columns = ("--columns", *truth["columns"]) if truth["columns"] else ()
    words = ("--truth", truth["place"], *columns, "--runs", f"{contest}/runs.parquet")
    words += ("--measures", about["measure"], "--human", queue.out)
    return command_of("bakeoff", *words, "--out", f"{contest}-people")


def _count(queue: LabelQueue) -> dict[str, Any]:
    """Count what is judged, and the answers of each person."""
    progress, sample = queue.progress(), read_sample(queue.out)
    people = Counter(person for by in queue.answers.current.values() for person in by)
    return {
        "unit": queue.unit.name,
        "judged": progress["done"],
        "sample": progress["of"],
        "drawn_from": queue.about["documents"],
        "cannot_say": sample.cannot_say,
        "not_yet_counted": sample.out_of_turn,
        "for_a_second_person": progress["second"],
        "answers": dict(people),
    }


def _describe(queue: LabelQueue, record: dict[str, Any]) -> Iterator[str]:
    """Yield the progress, which answers count, and what else can be done."""
    about, name, measure = queue.about, queue.unit.name, queue.about["measure"]
    which = f"that could change a difference in {measure}" if measure else f"of {about.get('run')}"
    judged = f"{record['judged']:,} of {counted(record['sample'], name)} in the sample"
    yield f"Judged {judged}, drawn from {record['drawn_from']:,} {which}."
    if record["cannot_say"]:
        yield f"Of {counted(record['cannot_say'], name)} people could not say."
    if early := record["not_yet_counted"]:
        missed = queue.skipped()
        more = f" and {counted(len(missed) - 1, 'other')}" if missed[1:] else ""
        ids = queue.unit.name_ids(missed[0].ids)
        yield (
            f"{counted(early, f'later {name}')} will count once all before are judged "
            f"(still missing: {ids}{more})."
        )
    if record["for_a_second_person"]:
        yield f"{counted(record['for_a_second_person'], name)} can be judged by a second person."
    if len(record["answers"]) > 1:
        yield f"How far people agree: {command_of('agree', queue.out)}"
    if record["judged"] == record["sample"]:
        yield f"To draw more {name}s: {_command(queue, '--more', 'N')}"


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
    """Read tasks with a person, an answer and a note; rows without an answer are skipped."""
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
