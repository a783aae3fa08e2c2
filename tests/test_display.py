"""What a person sees: a table on a terminal, and elsewhere a line now and then."""

import io

import pytest
from rich.console import Console

from zelo_ray import display as display_module
from zelo_ray.bookkeeping import Tally
from zelo_ray.display import Display, dollars, duration

PLANNED = {"openai:gpt-6-luna": 1000, "offline:bm25": 500}


def tallies(done=400):
    return {
        "openai:gpt-6-luna": Tally(
            known=100,
            in_flight=7,
            answered=done - 100,
            waiting=50,
            throttled=4,
            limits={"rpm": 3000.0},
            retries=12,
            dollars=0.0421,
            statuses={"ok": done - 103, "refused": 2, "invalid": 1},
        ),
        "offline:bm25": Tally(answered=500, statuses={"ok": 500}),
    }


def screen(*, terminal, width=120):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, highlight=False)
    return console, file


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is moved."""

    class Clock:
        now = 1000.0

        @classmethod
        def monotonic(cls):
            return cls.now

    monkeypatch.setattr(display_module, "time", Clock)
    return Clock


def test_a_terminal_shows_a_row_a_judge(clock):
    console, file = screen(terminal=True)
    with Display(console) as display:
        display.show(tallies(101), PLANNED)
        clock.now += 10
        display.show(tallies(), PLANNED)
    last = file.getvalue().rpartition("judge")[2]
    for shown in ("openai:gpt-6-luna", "400", "1,000", "$0.0421", "offline:bm25", "done"):
        assert shown in last
    row = next(line for line in last.splitlines() if "gpt-6-luna" in line).split()
    # done, of, in flight, waiting, calls a second of how many, 429s, retries, failures, spent, left
    assert row[1:8] == ["400", "1,000", "7", "50", "30.0", "50.0", "4"]
    assert row[8:12] == ["12", "3", "$0.0421", "20"]


def test_batches_have_a_column_when_there_are_any(clock):
    console, file = screen(terminal=True)
    with Display(console) as display:
        display.show({"openai:gpt-6-luna": Tally(batched=700)}, {"openai:gpt-6-luna": 1000})
    assert "in batches" in file.getvalue()
    assert "700" in file.getvalue()
    assert "up to a day" in file.getvalue()


def test_elsewhere_a_line_is_printed_now_and_then(clock):
    console, file = screen(terminal=False)
    with Display(console) as display:
        for _ in range(100):
            display.show(tallies(101), PLANNED)
            clock.now += 0.5
        lines = file.getvalue().splitlines()
    assert 4 <= len(lines) <= 5
    assert "601/1,500 replies" in lines[0]
    assert "3 failures" in lines[0]
    assert "$0.0421" in lines[0]
    assert "\x1b" not in file.getvalue()
    assert "judge" not in file.getvalue()


def test_what_is_not_needed_in_the_end_is_neither_done_nor_left(clock):
    console, file = screen(terminal=False)
    with Display(console) as display:
        display.show({"a": Tally(answered=300, known=20, spared=160)}, {"a": 480})
    assert "320/320 replies" in file.getvalue()
    assert "left: done" in file.getvalue()


def test_the_end_is_told_once(clock):
    """The figures are shown twice a second, also when all is done."""
    console, file = screen(terminal=False)
    with Display(console) as display:
        for _ in range(6):
            display.show(tallies(1000), PLANNED)
            clock.now += 0.5
    (line,) = file.getvalue().splitlines()
    assert "1,500/1,500" in line
    assert "left: done" in line


def test_before_the_first_call_nothing_is_divided_by_zero(clock):
    for terminal in (True, False):
        console, file = screen(terminal=terminal)
        with Display(console) as display:
            display.show({}, PLANNED)
            clock.now += 60
            display.show({}, PLANNED)
        assert "…" in file.getvalue()


def test_the_time_that_actors_take_to_start_is_not_counted(clock):
    console, file = screen(terminal=False)
    with Display(console) as display:
        display.show({}, PLANNED)
        clock.now += 500
        display.show({"openai:gpt-6-luna": Tally(in_flight=1)}, PLANNED)
        clock.now += 10
        display.show({"openai:gpt-6-luna": Tally(answered=100)}, PLANNED)
    assert "10.0 calls/s" in file.getvalue().splitlines()[-1]


def test_a_line_said_is_printed_as_it_is():
    console, file = screen(terminal=False, width=20)
    line = "[bold]s3://bucket/out[/bold]: waiting for the workers of an earlier run to end"
    with Display(console) as display:
        display.say(line)
    assert file.getvalue() == line + "\n"


def test_a_name_in_brackets_is_no_markup(clock):
    console, file = screen(terminal=True)
    with Display(console) as display:
        display.show({"openai:a[red]b": Tally(in_flight=1)}, {"openai:a[red]b": 5})
    assert "openai:a[red]b" in file.getvalue()


@pytest.mark.parametrize(
    ("amount", "unpriced", "text"),
    [
        (0, 0, "$0.00"),
        (0.0421, 0, "$0.0421"),
        (1, 0, "$1.00"),
        (1234.567, 0, "$1,234.57"),
        (0, 3, "$0.00 + ?"),
        (0.5, 1, "$0.5000 + ?"),
    ],
)
def test_money_is_told_with_what_is_not_known_of_it(amount, unpriced, text):
    assert dollars(amount, unpriced) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599.7, "1 h 0 min"),
        (3 * 3600 + 125, "3 h 2 min"),
        (30 * 3600, "30 h 0 min"),
    ],
)
def test_time_is_told_in_the_units_that_matter(seconds, text):
    assert duration(seconds) == text
