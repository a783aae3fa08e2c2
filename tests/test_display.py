"""Progress as people see it: rates, money, what is left; and that no name steers a terminal."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.report.progress import display as display_module
from zelo_ray.report.watches import Display, dollars, duration
from zelo_ray.report.progress.figures import Pace
from zelo_ray.report.progress.names import shorten_names

LUNA = "openai:gpt-6-luna"
PLANNED = {LUNA: 1000, "offline:bm25": 500}


def tallies(done):
    fields = {"known": 100, "in_flight": 7, "waiting": 50, "throttled": 4, "retries": 12}
    statuses = {"ok": done - 103, "refused": 2, "invalid": 1}
    luna = Tally(answered=done - 100, limits={"rpm": 3000.0}, dollars=0.0421, statuses=statuses)
    for name, value in fields.items():
        setattr(luna, name, value)
    return {LUNA: luna, "offline:bm25": Tally(answered=500, statuses={"ok": 500})}


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is moved."""

    class Clock:
        now = 1000.0

        @classmethod
        def monotonic(cls):
            return cls.now

        time = monotonic

    monkeypatch.setattr(display_module, "time", Clock)
    return Clock


def logged(clock, *steps, planned, wait=10.0):
    """What a log says of tallies that come one after the other."""
    file = io.StringIO()
    with Display(Console(file=file, width=200)) as display:
        for step in steps:
            display.show(step, planned)
            clock.now += wait
        clock.now -= wait
    return file.getvalue()


def shown(tallies, planned, width, *, cap=None, height=40, first=None, clock=None):
    """The lines that a terminal shows."""
    screen = {"force_terminal": True, "width": width, "height": height, "record": True}
    display = Display(Console(file=io.StringIO(), **screen))
    if cap:
        display.budget(*cap)
    if first is not None:
        display.show(first, planned)
        clock.now += 10
    display.show(tallies, planned)
    console = Console(file=io.StringIO(), **screen)
    console.print(display._live.get_renderable())
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_terminal_shows_a_row_a_judge(clock):
    lines = shown(tallies(400), PLANNED, 120, first=tallies(101), clock=clock)
    row = next(line for line in lines if "gpt-6-luna" in line).split()
    # done, in flight, waiting, calls a second of how many, 429s, retries, failures, spent, left
    assert row[1:8] == ["400/1,000", "7", "50", "30.0", "50.0", "4", "12"]
    assert row[8:] == ["3", "$0.0421", "20", "s"]


def test_a_log_has_a_line_now_and_then(clock):
    lines = logged(clock, *[tallies(101)] * 100, planned=PLANNED, wait=0.5).splitlines()
    assert 4 <= len(lines) <= 5
    assert "601/1,500 replies" in lines[0]
    assert "3 failures" in lines[0]
    assert "\x1b" not in lines[0]
    (end,) = logged(clock, *[tallies(1000)] * 6, planned=PLANNED, wait=0.5).splitlines()
    assert "1,500/1,500" in end


def test_what_is_spared_is_neither_done_nor_left(clock):
    spared = {"a": Tally(answered=300, known=20, spared=160)}
    assert "320/320 replies" in logged(clock, spared, planned={"a": 480})


def test_the_rate_is_of_the_last_minute_and_in_the_end_of_all(clock):
    steps = [{"a": Tally(answered=n)} for n in (*range(1, 501), *range(510, 1501, 10))]
    last = logged(clock, *steps, planned={"a": 10_000}, wait=1.0).splitlines()[-1]
    assert "10.0 calls/s" in last
    assert "left: 14 min" in last
    steps = [{"a": Tally(answered=n, in_flight=1)} for n in (0, 250, 500)]
    end = [*steps, {"a": Tally(answered=500)}]
    assert " 50.0 calls/s" in logged(clock, *end, planned={"a": 500}, wait=5.0).splitlines()[-1]
    steps = [{}, {LUNA: Tally(in_flight=1)}, {LUNA: Tally(answered=100)}]
    assert "10.0 calls/s" in logged(clock, *steps, planned=PLANNED).splitlines()[-1]
    assert "starting" in logged(clock, {}, {}, planned=PLANNED, wait=60)


def test_a_judge_that_answers_no_more_slows_down():
    pace = Pace()
    for second in range(100):
        pace.record(second, Tally(answered=5 * second))
    assert pace.rate(99) == pytest.approx(5)
    for second in range(100, 700):
        pace.record(second, Tally(answered=495, in_flight=9))
    assert 0 < pace.rate(700) < 0.05
    pace.record(701, Tally(answered=3))  # who added them up has died
    pace.record(711, Tally(answered=13))
    assert pace.rate(711) == pytest.approx(1)


def test_the_total_has_the_time_of_the_slowest(clock):
    planned = {"quick": 1000, "slow": 1000, "idle": 0}
    first = {"quick": Tally(in_flight=1), "slow": Tally(in_flight=1)}
    then = {"quick": Tally(answered=500), "slow": Tally(answered=100)}
    assert "left: 1 min 30 s" in logged(clock, first, then, planned=planned)
    idle = next(line for line in shown(then, planned, 80) if line.startswith("idle"))
    assert "0/0" in idle


def test_done_never_passes_the_total_nor_makes_up_for_another(clock):
    """A block that is run again counts twice."""
    lines = shown({"a": Tally(answered=150), "b": Tally(answered=10)}, {"a": 100, "b": 100}, 80)
    assert [line.split()[1] for line in lines[1:]] == ["100/100", "10/100", "110/200"]


def test_a_stopped_judge_holds_up_nobody(clock):
    disabled = Disabled(StopReason.FATAL, "the key was refused; set OPENAI_API_KEY to a valid one")
    planned = {"openai:a": 100, "openai:b": 100}
    tallies = {"openai:a": Tally(answered=3, disabled=disabled), "openai:b": Tally(answered=100)}
    *_, first, _, total, why = shown(tallies, planned, 80)
    assert first.endswith("stopped")
    assert total.endswith("stopped")
    assert disabled.message in why
    assert disabled.message in logged(clock, tallies, planned=planned)


def test_nothing_steers_a_terminal(clock):
    console = Console(file=io.StringIO(), width=20)
    trouble = LastProblem(clock.now, "a\x1b[2J\nb\x9b\u202ec\ud800 [red]")
    Display(console).say("query \x1b]0;x\x07 :smile:\ud800 [bold] in a long line")
    said = console.file.getvalue()
    assert said == "query \\x1b]0;x\\x07 :smile:\\ud800 [bold] in a long line\n"
    troubled = {"openai:a[red]b": Tally(in_flight=1, trouble=trouble)}
    for terminal in (True, False):
        console = Console(file=io.StringIO(), width=200, force_terminal=terminal)
        with Display(console) as display:
            display.show(troubled, {"openai:a[red]b": 9})
        assert r"a\x1b[2J b\x9b\u202ec\ud800 [red]" in console.file.getvalue()
        assert "a[red]b" in console.file.getvalue()


def test_no_width_breaks_a_number(clock):
    """Many judges, long URLs, large counts, wide letters; a number is whole or left out."""
    url = "openai:Qwen/Qwen3-235B-Instruct@http://node-{:03}.long.example.org:8000/v1"
    names = [*map(url.format, range(20)), f"listwise:{LUNA}", "日本語:モデルの長い名前ですよ"]
    tally = Tally(answered=29_999_999, in_flight=6400, retries=10**7, dollars=12345.67, unpriced=1)
    tally.statuses, tally.limits = {"failed": 29_999_999}, {"rpm": 3000.0}
    tally.trouble = LastProblem(clock.now, "長い理由 " * 99)
    planned = dict.fromkeys(names, 30_000_000)
    for width in (1, 2, 13, 24, 37, 59, 80, 400):
        lines = shown(dict.fromkeys(names, tally), planned, width, cap=(1e6, 17.0), height=60)
        assert max(map(cell_len, lines)) <= width
        for line in lines[1:24]:
            for cell in line.split()[1:]:
                assert "…" not in cell or not any(char.isdigit() for char in cell), line


def test_few_lines_show_those_that_are_not_done(clock):
    planned = {f"judge-{i:02}": 10 for i in range(20)}
    tallies = {name: Tally(answered=10) for name in planned} | {"judge-19": Tally(answered=3)}
    lines = shown(tallies, planned, 80, height=10)
    assert len(lines) <= 10
    assert any(line.startswith("judge-19") for line in lines)


def test_money_and_time():
    for amount, unpriced, text in (
        (0, 0, "$0.00"),
        (0.0421, 0, "$0.0421"),
        (1234.567, 0, "$1,234.57"),
        (0, 3, "$0.00 + ?"),
    ):
        assert dollars(amount, unpriced) == text
    for seconds, text in (
        (0.2, "0 s"),
        (59.6, "1 min 0 s"),
        (3599.7, "1 h 0 min"),
        (4 * 86400 + 3700, "4 d 1 h"),
    ):
        assert duration(seconds) == text


def test_short_names_differ():
    for names, width, short in (
        ([LUNA, "offline:bm25"], 40, [LUNA, "offline:bm25"]),
        ([LUNA, "offline:bm25"], 12, ["gpt-6-luna", "bm25"]),
        (["openai:m@http://a:1/v1", "openai:m@http://a:2/v1"], 6, ["m@a:1", "m@a:2"]),
        (["listwise:openai:m", "pointwise:openai:m"], 8, ["listw…:m", "point…:m"]),
        (["a-very-long-name-1-x", "a-very-long-name-2-x"], 9, ["a-ve…-x#1", "a-ve…-x#2"]),
        (["日本語日本語日本語"], 9, ["日本語…語"]),
    ):
        assert list(shorten_names(names, width).values()) == short


def test_the_last_trouble_of_several_actors_is_the_latest():
    one, other, summed = Tally(), Tally(), Tally()
    one.count_retry("first", at=1.0)
    other.count_ended("refused", "second", at=2.0)
    other.count_ended("ok", at=3.0)
    for each in (other, one):
        summed.add(each)
    assert summed.trouble.reason == "second"
    assert (summed.retries, summed.answered) == (1, 2)
