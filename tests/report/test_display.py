"""Progress as people see it: rates, money, what is left; and that no name steers a terminal."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.report.progress import ProgressMeter, progress_table
from zelo_ray.report.watches import make_display

LUNA = "openai:gpt-6-luna"
PLANNED = {LUNA: 1000, "offline:bm25": 500}
WRONG_KEY = Disabled(StopReason.FATAL, "the key was refused; set OPENAI_API_KEY to a valid one")


def tallies(done):
    luna = Tally(
        known=100,
        answered=done - 100,
        in_flight=7,
        waiting=50,
        throttled=4,
        retries=12,
        limits={"rpm": 3000.0},
        dollars=0.0421,
        statuses={"ok": done - 103, "refused": 2, "invalid": 1},
    )
    return {LUNA: luna, "offline:bm25": Tally(answered=500, statuses={"ok": 500})}


def measured(*steps, planned, wait=10.0):
    """The last figures of tallies that come one after the other."""
    meter = ProgressMeter()
    for n, step in enumerate(steps):
        event = meter.measure(step, planned, n * wait)
    return event


def shown(event, width, height=None):
    """The lines that a terminal shows."""
    console = Console(file=io.StringIO(), width=width)
    console.print(progress_table(event, width, height))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_terminal_shows_a_row_a_judge():
    event = measured(tallies(101), tallies(400), planned=PLANNED)
    row = next(line for line in shown(event, 120) if "gpt-6-luna" in line).split()
    # done, in flight, waiting, calls a second of how many, 429s, retries, failures, spent, left
    assert row[1:8] == ["400/1,000", "7", "50", "30.0", "50.0", "4", "12"]
    assert row[8:] == ["3", "$0.0421", "20", "s"]
    narrow = "\n".join(shown(event, 70))
    assert "400/1,000" in narrow
    assert "retries" not in narrow


def test_the_rate_is_of_the_last_minute_and_in_the_end_of_all():
    steps = [{"a": Tally(answered=n)} for n in (*range(1, 501), *range(510, 1501, 10))]
    event = measured(*steps, planned={"a": 10_000}, wait=1.0)
    assert event["calls_per_second"] == pytest.approx(10)
    assert event["seconds_left"] == pytest.approx(850)
    steps = [{"a": Tally(answered=n, in_flight=1)} for n in (0, 250, 500)]
    event = measured(*steps, {"a": Tally(answered=500)}, planned={"a": 500}, wait=5.0)
    assert event["calls_per_second"] == 50
    event = measured({}, {"a": Tally(in_flight=1)}, {"a": Tally(answered=100)}, planned={"a": 500})
    assert event["calls_per_second"] == 10
    assert measured({}, {}, planned=PLANNED)["time_left"] == "starting"


def test_a_judge_that_answers_no_more_slows_down():
    meter, planned = ProgressMeter(), {"a": 10_000}

    def rate(now, **fields):
        return meter.measure({"a": Tally(**fields)}, planned, now)["calls_per_second"]

    assert [rate(second, answered=5 * second) for second in range(100)][-1] == pytest.approx(5)
    assert 0 < [rate(second, answered=495, in_flight=9) for second in range(100, 701)][-1] < 0.05
    rate(701, answered=3)  # who added them up has died
    assert rate(711, answered=13) == pytest.approx(1)


def test_nothing_steers_a_terminal():
    console = Console(file=io.StringIO(), width=20)
    trouble = LastProblem(1000.0, "a\x1b[2J\nb\x9b\u202ec\ud800 [red]")
    make_display(console).say("query \x1b]0;x\x07 :smile:\ud800 [bold] in a long line")
    said = console.file.getvalue()
    assert said == "query \\x1b]0;x\\x07 :smile:\\ud800 [bold] in a long line\n"
    troubled = {"openai:a[red]b\x1b": Tally(in_flight=1, trouble=trouble)}
    for terminal in (True, False):
        console = Console(file=io.StringIO(), width=200, force_terminal=terminal)
        with make_display(console) as display:
            display.show(troubled, {"openai:a[red]b\x1b": 9})
        assert r"a\x1b[2J b\x9b\u202ec\ud800 [red]" in console.file.getvalue()
        assert r"a[red]b\x1b" in console.file.getvalue()


def test_long_names_and_large_counts_keep_to_the_width():
    names = [f"openai:Qwen/Qwen3@http://node-{n:03}.example.org:8000/v1" for n in range(20)]
    names.append("日本語:モデルの長い名前ですよ")
    tally = Tally(answered=29_999_999, in_flight=6400, retries=10**7, dollars=12345.67, unpriced=1)
    tally.trouble = LastProblem(1000.0, "長い理由 " * 99)
    event = measured(dict.fromkeys(names, tally), planned=dict.fromkeys(names, 30_000_000))
    for width in (1, 24, 80, 400):
        assert max(map(cell_len, shown(event, width))) <= width
    assert all("29,999,999/30,000,000" in line for line in shown(event, 80)[1:22])
