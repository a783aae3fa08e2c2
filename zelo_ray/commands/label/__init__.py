"""``label``: draw documents of a bake-off for people to judge, and collect their answers."""

import contextlib
import os
import shlex
import signal
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zelo_ray.commands.label.bakeoff_config import CONFIG_FILE
from zelo_ray.commands.label.desk import LabelDesk, SampleDocument
from zelo_ray.commands.label.draw import TOP, SampleRecord, draw_sample
from zelo_ray.commands.label.people_agreement import compare_people, describe_agreement
from zelo_ray.commands.label.serve import MakePage, Server
from zelo_ray.commands.label.spreadsheet import read_sheet, write_sheet
from zelo_ray.commands.label.store import Answers, now
from zelo_ray.engine.lock import claim_folder, remove_folders_if_refused
from zelo_ray.errors import InputError
from zelo_ray.formats.judgments.answers import PersonsAnswer
from zelo_ray.formats.judgments.labels import grades_table, read_labels
from zelo_ray.formats.wording import counted
from zelo_ray.options.label import LabelOptions

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LabelWork:
    """A sample of documents, locked for this process."""

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
        yield LabelWork(options.out, about, LabelDesk(sample, Answers(options.out, say), TOP))


def label(options: LabelOptions, say: Say, make_page: Callable[[LabelWork], MakePage]) -> None:
    """Draw documents for people, then serve the page, or write or read a spreadsheet file.

    Args:
        options: of the command.
        say: gets each line for the terminal.
        make_page: returns the function that renders the page.

    Raises:
        OptionError, InputError, LockError: as `open_work`.
        InputError: a cell of the file is not a valid answer, or no document is left to write.
    """
    with open_work(options, say) as work:
        if options.read:
            say(_read_spreadsheet(work, options.read, options.person or ""))
        elif options.csv:
            say(_write_spreadsheet(work, options.csv, options.person or ""))
        else:
            _serve(work, options, say, make_page(work))
        for line in _describe_progress(work):
            say(line)


def page_commands(work: LabelWork) -> dict[str, str]:
    """Return the commands that the page shows: to restart the server, and the next step."""
    again = f"zelo-ray label --out {shlex.quote(work.out)}"
    return {"again": again, "next": _next(work)}


def _next(work: LabelWork) -> str:
    """Return the command that uses the labels: the bake-off again, or `agree`."""
    if run := work.about.get("run"):
        return shlex.join(["zelo-ray", "agree", run, "--human", work.out])
    return shlex.join(["zelo-ray", "bakeoff", "--config", f"{work.out.rstrip('/')}/{CONFIG_FILE}"])


def _serve(work: LabelWork, options: LabelOptions, say: Say, make_page: MakePage) -> None:
    """Serve the page until Ctrl-C or SIGTERM."""
    with Server(work.desk, make_page, work.out, options.port) as server:
        far = work.desk.progress("")
        judged = f"{far.done:,} of {counted(far.of, 'document')} judged"
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
    rows = work.desk.documents_for(person)
    if not rows:
        raise InputError(f"{work.out}: all documents are judged; draw more with --more N")
    write_sheet(url, rows)
    return (
        f"Wrote {counted(len(rows), 'document')} to {url}. Fill in the column grade from the top: "
        f'0 to {TOP}, or u for "cannot say". Then run zelo-ray label --out {shlex.quote(work.out)} '
        "--read FILE --person NAME."
    )


def _read_spreadsheet(work: LabelWork, url: str, person: str) -> str:
    """Save the answers of a spreadsheet file, all or none; skip those already saved."""
    desk, rows = work.desk, read_sheet(url, person, TOP)
    new = list[PersonsAnswer]()
    for row in rows:
        try:
            pair = desk.find(row.key).pair
        except InputError as error:
            raise InputError(f"{row.place}: {error}; is the file of another --out?") from None
        previous = desk.answers.current.get(pair, {}).get(row.person)
        if previous is None or previous.grade != row.grade:
            new.append(PersonsAnswer(now(), row.person, *pair, row.grade, note=row.note))
    desk.answers.append(new)
    return f"Read {counted(len(rows), 'answer')} from {url}, {len(new):,} of them new."


def _named(missed: Sequence[SampleDocument]) -> str:
    """Name the first unjudged document that holds up later answers, as the end of a line."""
    if not missed:
        return ""
    (query_id, doc_id), more = missed[0].pair, len(missed) - 1
    others = f" and {counted(more, 'other')}" if more else ""
    return f" (still missing: document {doc_id!r} of query {query_id!r}{others})"


def _describe_progress(work: LabelWork) -> Iterator[str]:
    """Yield the progress, which answers count, and how far people agree."""
    progress = work.desk.progress("")
    about, measure = work.about, work.about["measure"]
    which = f" that could change a difference in {measure}" if measure else f" of {about['run']}"
    yield (
        f"Judged {progress.done:,} of {counted(progress.of, 'document')} in the sample, drawn from "
        f"{about['documents']:,}{which}."
    )
    labels = read_labels(work.out)
    if labels.cannot_say:
        yield f"Of {counted(labels.cannot_say, 'document')} people could not say."
    if labels.out_of_turn:
        yield (
            f"{counted(labels.out_of_turn, 'document')} judged out of turn will count "
            "once all before "
            f"are judged{_named(work.desk.skipped_documents())}."
        )
    if progress.second:
        yield f"{counted(progress.second, 'document')} can be judged by a second person."
    yield from describe_agreement(compare_people(grades_table(work.desk.answers.current), TOP))
    if progress.done == progress.of:
        yield f"To draw more documents: zelo-ray label --out {shlex.quote(work.out)} --more N"
        yield f"Next step: {_next(work)}"
    else:
        yield f"Next step: {shlex.join(['zelo-ray', 'label', '--out', work.out])}"
