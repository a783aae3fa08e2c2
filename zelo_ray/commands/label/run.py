"""``label``: draw documents or pairs for people to judge, and collect their answers."""

import contextlib
import os
import shlex
import signal
import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.desk import LabelDesk, SampleItem
from zelo_ray.commands.label.draw import SampleRecord, draw_sample
from zelo_ray.commands.label.page import labelling_page
from zelo_ray.commands.label.people_agreement import compare_answers, describe_agreement
from zelo_ray.commands.label.serve import MakePage, Server
from zelo_ray.commands.label.spreadsheet import read_sheet, write_sheet
from zelo_ray.commands.label.store import Answers
from zelo_ray.engine.job import Watch
from zelo_ray.engine.lock import claim_folder, remove_folders_if_refused
from zelo_ray.errors import InputError
from zelo_ray.files.labels import read_sample, unit_of_sample
from zelo_ray.files.schema import split_columns
from zelo_ray.files.wording import counted
from zelo_ray.report.results import Results

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LabelWork:
    """A sample of documents or pairs, locked for this process."""

    out: str
    about: SampleRecord
    desk: LabelDesk


@contextlib.contextmanager
def open_work(options: LabelOptions, say: Say) -> Iterator[LabelWork]:
    """Draw the sample, or extend it, and open its answers, under the lock of the directory.

    Raises:
        OptionError, InputError: as `draw.drawn`.
        LockError: another process uses the directory, or it holds something else.
    """
    with remove_folders_if_refused(options.out), claim_folder(options.out, say, "label"):
        about, sample = draw_sample(options, say)
        answers = Answers(options.out, say)
        yield LabelWork(options.out, about, LabelDesk(sample, answers, unit_of_sample(about)))


def run(options: LabelOptions, watch: Watch) -> Results:
    """Draw documents or pairs for people, then serve the page, or write or read a file of them."""
    with open_work(options, watch.say) as work:
        lines, files = list[str](), list[str]()
        if options.read:
            lines.append(_read_spreadsheet(work, options))
        elif options.csv:
            lines.append(_write_spreadsheet(work, options.csv, options.person or ""))
            files.append(options.csv)
        else:
            _serve(
                work,
                options,
                watch.say,
                partial(labelling_page, work.about, work.desk.unit, page_commands(work)),
            )
        lines += _describe_progress(work)
        return Results(
            _progress_figures(work),
            out=options.out,
            lines=lines,
            lead=lines,
            files=files,
            next_command=_next_command(work),
        )


def page_commands(work: LabelWork) -> dict[str, str]:
    """Return the commands that the page shows: to restart the server, and the next step."""
    again = f"zelo-ray label --out {shlex.quote(work.out)}"
    return {"again": again, "next": _next(work)}


def _next(work: LabelWork) -> str:
    """Return the command that uses the labels: the bake-off again, or `agree`."""
    if run := work.about.get("run"):
        return shlex.join(["zelo-ray", "agree", run, "--human", work.out])
    contest, truth = work.about["contest"].rstrip("/"), work.about["truth"]
    columns = ("--columns", *truth["columns"]) if truth["columns"] else ()
    words = ("--truth", truth["place"], *columns, "--runs", f"{contest}/runs.parquet")
    words += ("--measures", work.about["measure"], "--human", work.out)
    return shlex.join(["zelo-ray", "bakeoff", *words, "--out", f"{contest}-people"])


def _serve(work: LabelWork, options: LabelOptions, say: Say, make_page: MakePage) -> None:
    """Serve the page until Ctrl-C or SIGTERM."""
    with Server(work.desk, make_page, work.out, options.port) as server:
        far = work.desk.progress("")
        judged = f"{far.done:,} of {counted(far.of, work.desk.unit.name)} judged"
        say(f"{server.url} ({judged}); stop with Ctrl-C")
        if not options.no_browser and _has_screen():
            threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt), _ended_by_signals():
            server.serve_forever(poll_interval=0.1)
        work.desk.close()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM stop the server as Ctrl-C does, and SIGINT even where a script ignores it."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # others cannot set handlers
    signals = (signal.SIGINT, signal.SIGTERM) if main else ()
    before = {signum: signal.signal(signum, end) for signum in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_screen() -> bool:
    """Return whether a graphical browser can open; a text browser would block the terminal."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, screens))


def _write_spreadsheet(work: LabelWork, url: str, person: str) -> str:
    unit, rows = work.desk.unit, _open_items(work, person)
    write_sheet(url, rows, unit)
    return (
        f"Wrote {counted(len(rows), unit.name)} to {url}. Fill in the column {unit.column} from "
        f'the top: {unit.words}, or u for "cannot say". Then run zelo-ray label --out '
        f"{shlex.quote(work.out)} --read FILE --person NAME."
    )


def _open_items(work: LabelWork, person: str) -> Sequence[SampleItem]:
    if rows := work.desk.items_for(person):
        return rows
    raise InputError(f"{work.out}: all {work.desk.unit.name}s are judged; draw more with --more N")


def _read_spreadsheet(work: LabelWork, options: LabelOptions) -> str:
    """Save the answers of a filled-in file, all or none; skip those already saved."""
    desk, url, columns = work.desk, options.read or "", split_columns(options.columns)
    rows = read_sheet(url, options.person or "", desk.unit, columns)
    entries = list[tuple[SampleItem, str, float | None, str]]()
    for row in rows:
        try:
            entries.append((desk.find(row.key), row.person, row.value, row.note))
        except InputError as error:
            raise InputError(f"{row.place}: {error}; is the file of another --out?") from None
    new = desk.save_answers(entries)
    return f"Read {counted(len(rows), 'answer')} from {url}, {new:,} of them new."


def _named(work: LabelWork) -> str:
    """Name what is unjudged and holds up later answers, as the end of a line."""
    missed = work.desk.skipped_items()
    if not missed:
        return ""
    more = len(missed) - 1
    others = f" and {counted(more, 'other')}" if more else ""
    return f" (still missing: {work.desk.unit.name_ids(missed[0].ids)}{others})"


def _describe_progress(work: LabelWork) -> Iterator[str]:
    """Yield the progress, which answers count, and how far people agree."""
    progress, unit = work.desk.progress(""), work.desk.unit
    about, measure = work.about, work.about["measure"]
    which = f" that could change a difference in {measure}" if measure else f" of {about['run']}"
    yield (
        f"Judged {progress.done:,} of {counted(progress.of, unit.name)} in the sample, drawn from "
        f"{about['documents']:,}{which}."
    )
    sample = read_sample(work.out)
    if sample.cannot_say:
        yield f"Of {counted(sample.cannot_say, unit.name)} people could not say."
    if sample.out_of_turn:
        yield (
            f"{counted(sample.out_of_turn, unit.name)} judged out of turn will count "
            "once all before "
            f"are judged{_named(work)}."
        )
    if progress.second:
        yield f"{counted(progress.second, unit.name)} can be judged by a second person."
    yield from describe_agreement(compare_answers(work.desk.answers.current, unit), unit)
    if progress.done == progress.of:
        yield f"To draw more {unit.name}s: zelo-ray label --out {shlex.quote(work.out)} --more N"


def _next_command(work: LabelWork) -> str:
    """Return the command that goes on with the sample, or uses the labels if all are there."""
    progress = work.desk.progress("")
    if progress.done == progress.of:
        return _next(work)
    return shlex.join(["zelo-ray", "label", "--out", work.out])


def _progress_figures(work: LabelWork) -> dict[str, Any]:
    """Return the counts of `_describe_progress`, and the answers of people by name."""
    progress, sample = work.desk.progress(""), read_sample(work.out)
    people = Counter(person for answers in work.desk.answers.current.values() for person in answers)
    return {
        "unit": work.desk.unit.name,
        "judged": progress.done,
        "sample": progress.of,
        "drawn_from": work.about["documents"],
        "cannot_say": sample.cannot_say,
        "out_of_turn": sample.out_of_turn,
        "for_a_second_person": progress.second,
        "answers": dict(people),
    }
