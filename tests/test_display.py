"""What a person sees: a table on a terminal, and elsewhere a line now and then."""

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from zelo_ray.engine.tally import LastProblem, Tally
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.reports.progress import display as display_module
from zelo_ray.reports.progress.display import Display, dollars, duration
from zelo_ray.reports.progress.figures import Pace
from zelo_ray.reports.progress.names import shorten_names

EPOCH = 1.7e9
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

        @classmethod
        def time(cls):
            return EPOCH + cls.now

    monkeypatch.setattr(display_module, "time", Clock)
    return Clock


def test_a_terminal_shows_a_row_a_judge(clock):
    console, file = screen(terminal=True)
    with Display(console) as display:
        display.show(tallies(101), PLANNED)
        clock.now += 10
        display.show(tallies(), PLANNED)
    last = file.getvalue().rpartition("name")[2]
    for shown in ("openai:gpt-6-luna", "400", "1,000", "$0.0421", "offline:bm25", "done"):
        assert shown in last
    row = next(line for line in last.splitlines() if "gpt-6-luna" in line).split()
    # done, in flight, waiting, calls a second of how many, 429s, retries, failures, spent, left
    assert row[1:8] == ["400/1,000", "7", "50", "30.0", "50.0", "4", "12"]
    assert row[8:] == ["3", "$0.0421", "20", "s"]


def test_batches_have_a_column_when_there_are_any(clock):
    console, file = screen(terminal=True)
    with Display(console) as display:
        display.show({"openai:gpt-6-luna": Tally(batched=700)}, {"openai:gpt-6-luna": 1000})
    assert "in batches" in file.getvalue()
    assert "700" in file.getvalue()
    assert "up to a day" in file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_share_that_was_read_from_a_cache_is_told(clock, terminal):
    console, file = screen(terminal=terminal)
    tally = Tally(answered=10, input_tokens=4000, cached_tokens=1000)
    with Display(console) as display:
        display.show({"openai:gpt-6-luna": tally}, {"openai:gpt-6-luna": 10})
    assert "25%" in file.getvalue()
    assert "cached" in file.getvalue()


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


@pytest.mark.parametrize("wait", [0, 600])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_finished_panel_has_the_mean_rate_of_the_run(clock, wait, terminal):
    console, file = screen(terminal=terminal)
    with Display(console) as display:
        for done in (0, 250, 500):
            display.show(
                {"a": Tally(answered=done, in_flight=1), "b": Tally(answered=min(done, 250))},
                {"a": 500, "b": 250},
            )
            clock.now += 7.5
        clock.now += wait
        display.show({"a": Tally(answered=500), "b": Tally(answered=250)}, {"a": 500, "b": 250})
    last = "".join(file.getvalue().rstrip().splitlines()[-3:])
    assert " 50.0" in last
    assert not re.search(r" 0\.0\b", last)
    file.truncate(0)
    with Display(console) as display:  # all replies come at once: there is no rate to tell
        display.show({"a": Tally(answered=5)}, {"a": 5})
    assert not re.search(r" 0\.0\b", file.getvalue())


def test_before_the_first_call_nothing_is_divided_by_zero(clock):
    for terminal in (True, False):
        console, file = screen(terminal=terminal)
        with Display(console) as display:
            display.show({}, PLANNED)
            clock.now += 60
            display.show({}, PLANNED)
        assert "starting" in file.getvalue()


def test_a_run_is_starting_no_more_as_soon_as_one_judge_was_asked(clock):
    for begun in (Tally(answered=2), Tally(in_flight=1), Tally(retries=1)):
        console, file = screen(terminal=False)
        with Display(console) as display:
            display.show({"a": begun}, {"a": 9, "b": 9})
            clock.now += 60
            display.show({"a": begun}, {"a": 9, "b": 9})
        assert "left: …" in file.getvalue()


def test_the_time_left_follows_the_last_minute(clock):
    """A slow start, or a stretch of it, says little about what is to come."""
    console, file = screen(terminal=False)
    answered = 0
    with Display(console) as display:
        for second in range(600):
            answered += 1 if second < 500 else 10
            display.show({"a": Tally(answered=answered)}, {"a": 10_000})
            clock.now += 1
    last = file.getvalue().splitlines()[-1]
    assert "10.0 calls/s" in last
    assert "left: 14 min" in last


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


def test_the_time_that_actors_take_to_start_is_not_counted(clock):
    console, file = screen(terminal=False)
    with Display(console) as display:
        display.show({}, PLANNED)
        clock.now += 500
        display.show({"openai:gpt-6-luna": Tally(in_flight=1)}, PLANNED)
        clock.now += 10
        display.show({"openai:gpt-6-luna": Tally(answered=100)}, PLANNED)
    assert "10.0 calls/s" in file.getvalue().splitlines()[-1]


def test_a_line_said_steers_no_terminal():
    console, file = screen(terminal=False)
    Display(console).say("query \x1b]0;x\x07 :smile:\ud800")
    assert file.getvalue() == "query \\x1b]0;x\\x07 :smile:\\ud800\n"


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
        (4 * 86400 + 3700, "4 d 1 h"),
    ],
)
def test_time_is_told_in_the_units_that_matter(seconds, text):
    assert duration(seconds) == text


# At any width

TROUBLED = "openai:qwen3@http://gpu-7.cluster.local:8000/v1"
PANEL = ("openai:gpt-6-luna", "anthropic:claude-haiku-5-5", TROUBLED)


def panel(ago=12.0, reason="openai: no answer (connection refused)"):
    """Figures of three judges, of which one fails."""
    fine = Tally(
        known=100, in_flight=64, answered=3120, dollars=1.2, statuses={"ok": 3110, "refused": 10}
    )
    trouble = LastProblem(EPOCH + 1000 - ago, reason)
    bad = Tally(in_flight=32, answered=269, retries=800, statuses={"failed": 269}, trouble=trouble)
    return dict(zip(PANEL, (fine, fine, bad), strict=True))


def shown(tallies, planned, width, *, cap=None, height=40, first=None):
    """The lines that a terminal shows."""
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, record=True
    )
    display = Display(console)
    if cap:
        display.budget(*cap)
    for each in (first, tallies):
        if each is not None:
            display.show(each, planned)
    assert display._live is not None
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, record=True
    )
    console.print(display._live.get_renderable())
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_each_judge_has_one_line_with_what_matters(clock, width):
    planned = dict.fromkeys(PANEL, 12_000)
    lines = shown(panel(), planned, width, cap=(40.0, 0.8))
    head, *rows, total, before, trouble = lines
    assert max(map(len, lines)) <= width
    assert all(name in head for name in ("done", "calls/s", "failed", "spent", "left"))
    for row, model in zip(rows, ("gpt-6-luna", "claude-haiku-5-5", "qwen3"), strict=True):
        assert model in row
        assert "/12,000" in row
    assert "269" in rows[-1].split()
    assert total.startswith("total")
    assert "$3.20 of $40.00" in total
    assert before == "$0.8000 of the budget was spent before this run"
    assert "no answer (connection refused), 12 s ago" in trouble
    assert "qwen3" in trouble
    assert "…" not in "".join(rows).replace(" …", "")  # where the time left is not known
    more = [name for name in ("in flight", "waiting", "429s", "retries", "limit") if name in head]
    assert len(more) >= {80: 0, 100: 1, 120: 3, 160: 5}[width]


def test_the_total_has_the_time_of_the_slowest(clock):
    planned = {"quick": 1000, "slow": 1000, "idle": 0}
    console, file = screen(terminal=False)
    tallies = {"quick": Tally(in_flight=1), "slow": Tally(in_flight=1)}
    with Display(console) as display:
        display.show(tallies, planned)
        clock.now += 10
        tallies = {"quick": Tally(answered=500), "slow": Tally(answered=100)}
        display.show(tallies, planned)
        assert "left: 1 min 30 s" in file.getvalue()
    lines = shown(tallies, planned, 80)
    assert lines[-1].startswith("total")
    assert next(line for line in lines if line.startswith("idle")).endswith("nothing to ask")
    assert "0/0" in next(line for line in lines if line.startswith("idle"))


def test_done_never_passes_the_total_nor_makes_up_for_another(clock):
    """A block that is run again counts twice."""
    lines = shown({"a": Tally(answered=150), "b": Tally(answered=10)}, {"a": 100, "b": 100}, 80)
    assert [line.split()[1] for line in lines[1:]] == ["100/100", "10/100", "110/200"]


@pytest.mark.parametrize("width", [*range(1, 60), 80, 120, 400])
def test_no_width_breaks_it_nor_a_number(clock, width):
    """Many judges, long URLs, large counts, wide letters; a number is whole or left out."""
    planned = {
        f"openai:Qwen/Qwen3-235B-Instruct@http://node-{i:03}.long.example.org:8000/v1": 30_000_000
        for i in range(20)
    } | {"listwise:openai:gpt-6-luna": 30_000_000, "日本語:モデルの長い名前ですよ": 30_000_000}
    tally = Tally(
        answered=29_999_999,
        in_flight=6400,
        retries=10**7,
        dollars=12345.67,
        unpriced=1,
        statuses={"failed": 29_999_999},
        limits={"rpm": 3000.0},
        trouble=LastProblem(EPOCH, "長い理由 " * 99),
    )
    lines = shown(dict.fromkeys(planned, tally), planned, width, cap=(1e6, 17.0), height=60)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) == 1 + 22 + 1 + 2
    for line in lines[1:24]:
        for cell in line.split()[1:]:
            assert "…" not in cell or not any(char.isdigit() for char in cell), line
    if width >= 80:
        for line in lines[1:24]:
            assert any(d in line for d in ("29.9M/30.0M", "659.9M/660.0M", ",999/30", ",978/660"))


def test_where_a_terminal_has_few_lines_those_that_are_done_give_way(clock):
    planned = {f"judge-{i:02}": 10 for i in range(20)}
    tallies = {name: Tally(answered=10) for name in planned} | {"judge-19": Tally(answered=3)}
    lines = shown(tallies, planned, 80, height=10)
    assert len(lines) <= 10
    assert any(line.startswith("judge-19") for line in lines)
    assert any(line.startswith("… 14 more") for line in lines)
    assert lines[-1].startswith("total")


@pytest.mark.parametrize(
    ("names", "width", "short"),
    [
        (["openai:gpt-6-luna", "offline:bm25"], 40, ["openai:gpt-6-luna", "offline:bm25"]),
        (["openai:gpt-6-luna", "offline:bm25"], 12, ["gpt-6-luna", "bm25"]),
        (["openai:qwen3:8b@http://h:1/v1"], 8, ["qwen3:8b"]),
        (["openai:m@http://a:1/v1", "openai:m@http://a:2/v1"], 6, ["m@a:1", "m@a:2"]),
        (["openai:m@http://a.x:1/v1", "openai:m@http://b.x:1/v1"], 4, ["m@a", "m@b"]),
        (["listwise:openai:m", "pointwise:openai:m"], 14, ["listwise:m", "pointwise:m"]),
        (["listwise:openai:m", "pointwise:openai:m"], 8, ["listw…:m", "point…:m"]),
        (["a-very-long-name-1-x", "a-very-long-name-2-x"], 9, ["a-ve…-x#1", "a-ve…-x#2"]),
        (["openai:m", "gemini:m"], 4, ["op…m", "ge…m"]),
        (["日本語日本語日本語"], 9, ["日本語…語"]),
    ],
)
def test_names_are_shortened_so_that_they_differ(names, width, short):
    assert list(shorten_names(names, width).values()) == short


# What goes wrong


def test_a_log_tells_of_trouble_when_it_begins(clock):
    console, file = screen(terminal=False)
    planned = dict.fromkeys(PANEL, 12_000)
    with Display(console) as display:
        display.show(dict.fromkeys(PANEL, Tally(in_flight=1)), planned)
        assert not file.getvalue()
        clock.now += 1
        for _ in range(5):
            display.show(panel(ago=-1), planned)
    (line,) = file.getvalue().splitlines()
    assert line.startswith("6,709/36,000 replies")
    assert "gpt-6-luna 3,220/12,000 (10 failed), " in line
    assert "qwen3@gpu-7.cluster.local:8000 269/12,000 (269 failed)" in line
    assert line.endswith(": no answer (connection refused), 0 s ago")


def test_a_judge_that_is_asked_no_more_holds_up_nobody(clock):
    disabled = Disabled(StopReason.FATAL, "the key was refused; set OPENAI_API_KEY to a valid one")
    planned = {"openai:a": 100, "openai:b": 100}
    tallies = {"openai:a": Tally(answered=3, disabled=disabled), "openai:b": Tally(answered=100)}
    *_, first, _, total, why = shown(tallies, planned, 80)
    assert first.endswith("stopped")
    assert total.endswith("stopped")
    assert why == f"stopped: openai:a: {disabled.message}"
    console, file = screen(terminal=False)
    with Display(console) as display:
        display.show(tallies, planned)
    assert "the key was refused" in file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_reason_steers_no_terminal(clock, terminal):
    reason = "a\x1b[2J\nb\x9b\u202ec\ud800 [red]"
    console, file = screen(terminal=terminal, width=200)
    with Display(console) as display:
        display.show(panel(reason=reason), dict.fromkeys(PANEL, 12_000))
    assert r"a\x1b[2J b\x9b\u202ec\ud800 [red]" in file.getvalue()


def test_the_last_trouble_of_several_actors_is_the_latest():
    one, other = Tally(), Tally()
    one.count_retry("first", at=1.0)
    other.count_ended("refused", "second", at=2.0)
    other.count_ended("ok", at=3.0)
    summed = Tally()
    for each in (other, one):
        summed.add(each)
    assert summed.trouble.reason == "second"
    assert (summed.retries, summed.answered) == (1, 2)
