"""Small things that many tests are made of: pools, judges, replies, a shelf that holds replies."""

import asyncio
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import asdict, replace
from functools import wraps
from hashlib import sha256
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from zelo_ray.cli import parse_command
from zelo_ray.command_options import ExplainOptions
from zelo_ray.commands.agree.run import run as run_agree
from zelo_ray.commands.convert.run import run as run_convert
from zelo_ray.commands.explain import run as explain
from zelo_ray.engine import learning
from zelo_ray.engine.batch import BatchClient
from zelo_ray.engine.budget import Budget
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.coordinator import CoordinatedRun, Coordinator, LocalCoordination
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.online import OnlineClient
from zelo_ray.engine.replies import statuses_to_retry
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.write_results import write_results
from zelo_ray.files.pools import LineLimits, parse_line, pool_row, to_line
from zelo_ray.files.run_record import record_start
from zelo_ray.files.storage import write_json
from zelo_ray.options import FROM_USER, AnnotateOptions
from zelo_ray.protocols import RANKERS, Progress, advance, load_protocol, zelo
from zelo_ray.providers import build_panel, load_provider, parse_judge
from zelo_ray.records import Document, Judge, Pool, Reply, Request
from zelo_ray.report.watches import SilentWatch

HURRIED = Clock(speed=100.0)
"""On which a minute takes 0.6 s: for all that waits, and does not pace calls."""
THREE = ("openai", "anthropic", "gemini")


_FILES = tempfile.TemporaryDirectory(prefix="zelo-ray-options-")


def set_in_file(**options):
    """The words that give a command these options by a file: those that have no flag."""
    text = json.dumps(options)
    file = Path(_FILES.name) / f"{sha256(text.encode()).hexdigest()[:16]}.yaml"
    file.write_text(text)
    return "--config", str(file)


def pool_of(worths=(0, 1, 2, 3), query_id="q1", query="how do I reset it?"):
    """A pool whose documents say what they are worth, which the knowing judge reads."""
    documents = (Document(f"d{i}", f"Text {i} [[worth={w}]]") for i, w in enumerate(worths))
    return Pool(query_id, query, tuple(documents))


def line_of(pool):
    """The input line of a pool."""
    return to_line(pool_row(pool))


def runs(test):
    """Run a test on an event loop."""

    @wraps(test)
    def run(*given, **fields):
        asyncio.run(test(*given, **fields))

    return run


UNHURRIED = 1e6  # requests a minute, where a test is not about them


def options_of(limits=(), **fields):
    """Options of a job; judges have no limit of requests a minute to speak of, unless given one.

    With ``limits`` None they have the cautious ones that users begin with.
    """
    names = {f"{name}:{model}" for name in THREE for model in load_provider(name).models}
    given = {name: {"rpm": UNHURRIED} for name in names} if limits is not None else {}
    for name, limit in dict(limits or {}).items():
        given[name] = given.get(name, {}) | limit
    kind = AnnotateOptions
    if fields.get("protocol") not in RANKERS:
        kind = load_protocol(fields.get("protocol", "zelo")).options
    given = {"inputs": ("in.jsonl",), "out": "out", "limits": given, **fields}
    return kind.model_validate(given, context=FROM_USER)


def sealed(requests, salt="a ledger's own"):
    """Requests as they are sent, with the codes of their markers."""
    return [request.with_codes(salt) for request in requests]


def parsed(*words):
    """Options as the command line reads them."""
    return parse_command([str(word) for word in words])[1]


def convert(*words):
    """Run `convert`; return what it says."""
    return "\n".join(run_convert(parsed("convert", *words), SilentWatch()).lines)


def agreement_of(*words):
    """Return the results of `agree`, as the command line has them."""
    return run_agree(parsed("agree", *words), SilentWatch())


def judge_of(name="openai:a-model", **options):
    """A judge with just these options, of whatever provider."""
    parsed = parse_judge(name)
    return Judge(parsed.provider, parsed.model, parsed.base_url, options)


def request_of(user="Which is better?", judge=None, **fields):
    defaults = {
        "system": "You compare.",
        "response_model": zelo.Preference,
        "query": "",
        "documents": (),
    }
    return Request(judge=judge or judge_of(), user=user, **{**defaults, **fields})


def verdict(preference, reasoning="because"):
    return json.dumps({"reasoning": reasoning, "preference": preference})


def reply_to(key, text="", status="ok", **fields):
    """A reply; ``key`` is a key, or a number that stands for one."""
    if isinstance(key, int):
        key = f"{key:032x}"
    defaults = {"judge": "openai:a-model", "reason": "", "model": "a-model", "dollars": 0.0}
    counts = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
    defaults |= dict.fromkeys((*counts, "thinking_tokens"), 0)
    defaults |= {"attempts": 1, "received_at": "2026-11-01T00:00:00.000+00:00", "run_id": "run"}
    return Reply(**{**defaults, "key": key, "status": status, "text": text, **fields})


PANEL = (judge_of("openai:one"), judge_of("anthropic:two"))


class Shelf:
    """Replies in memory, where protocols find them as they do in the ledger."""

    def __init__(self, *replies):
        self.replies = {reply.key: reply for reply in replies}

    def contains(self, keys):
        return [key in self.replies for key in keys]

    def read(self, keys):
        return [self.replies[key] for key in keys]

    def put(self, request, text, status="ok", **fields):
        fields = {"judge": request.judge.name, **fields}
        self.replies[request.key] = reply_to(request.key, text, status, **fields)


class CountingShelf(Shelf):
    """Replies, and how often each was read."""

    def __init__(self):
        super().__init__()
        self.reads = Counter()

    def read(self, keys):
        self.reads.update(keys)
        return super().read(keys)


def seen_worth(request):
    """The worth of the two documents in the order in which a judge sees them."""
    return [float(d.content.partition("worth=")[2].partition("]")[0]) for d in request.documents]


def in_order(request, worths=None):
    """The answer that orders documents by their worth, the best first."""
    worths = worths or seen_worth(request)
    best = sorted(range(len(worths)), key=lambda place: -worths[place])
    return json.dumps({"order": [place + 1 for place in best]})


def play(protocol, options, pool, panel, say, shelf=None, disabled=None):
    """Answer until nothing is missing: the step that a pool ends with, and what each round asked.

    ``say`` gives the text of the reply to a request, or its text and status.
    """
    progress, asked = Progress(protocol.rounds(pool, panel, options)), []
    shelf = Shelf() if shelf is None else shelf
    while missing := (step := progress.step(shelf, disabled)).missing:
        asked.append(missing)
        for request in missing:
            if request.judge.name not in (disabled or {}):
                said = say(request)
                shelf.put(request, *((said,) if isinstance(said, str) else said))
    return step, asked


def missing(pool, panel, options, replies=None):
    """What a pool of the pairwise protocol still waits for."""
    return advance(zelo.rounds(pool, panel, options), replies or Shelf()).missing


def truly(request):
    """What a judge that knows the worth says, of a pair or of one document."""
    worths = seen_worth(request)
    if len(worths) == 2:
        return verdict((worths[1] - worths[0]) / 100)
    grade = min(max(round(worths[0]), 0), 3)
    return json.dumps(
        {"facets_covered": [], "facets_missing": [], "rationale": "because", "grade": grade}
    )


class MachineBudget(Budget):
    """A budget by the machine's time, also where callers are in a hurry.

    It remembers the most that was ever charged and reserved.
    """

    def __init__(self, cap):
        super().__init__(cap, 0.0)
        self.most = 0.0

    def reserve(self, name, charged, reserved, wants, now):
        count = super().reserve(name, charged, reserved, wants, time.monotonic())
        self.most = max(self.most, self.spent + self.reserved)
        return count

    def is_exhausted(self, _):
        return super().is_exhausted(time.monotonic())


class OwnCoordination(LocalCoordination):
    """A coordinator of a clock, and of a budget, of the caller's own."""

    def __init__(self, clock=CLOCK, budget=None):
        coordinator, cap = Coordinator(clock), budget.cap if budget else None
        super().__init__(CoordinatedRun("run", cap), coordinator)
        coordinator.begin(self.run, budget)


def ask(
    pools,
    out,
    environ,
    *,
    run_id="run",
    retry=(),
    panel=None,
    judges=(),
    budget=None,
    disabled=None,
    clock=HURRIED,
    **fields,
):
    """Let an `Asker` fill the ledger of ``out`` for all pools side by side; return it, at its end.

    ``judges`` are the names of the whole panel, of whom those ``disabled`` are not asked; what the
    ledger holds after it is in ``.books``.
    """
    options = options_of(out=str(out), judges=judges, **fields)
    panel = build_panel(options.judges, options.judge_options, environ) if panel is None else panel

    async def run():
        limits = {judge.name: judge.options.get("max_output_tokens") or 0 for judge in panel}
        ledger = Ledger(options.out, run_id, retry, limits)
        asker = OnlineClient(
            *(options, panel, _present(panel, disabled)),
            ledger=ledger,
            environ=environ,
            run_id=run_id,
            coordinator=OwnCoordination(clock, budget),
            disabled=disabled,
            clock=clock,
        )
        try:
            await asyncio.gather(*(asker.ask_about(pool) for pool in pools))
        finally:
            await asker.aclose()
            ledger.close()
        return asker

    asker = asyncio.run(run())
    asker.books = list(read_rows(options.out))
    asker.job = (panel, options)
    return asker


def _present(panel, disabled):
    return [judge for judge in panel if judge.name not in (disabled or {})]


SLOW, QUICK = "simulated:slow", "simulated:quick"


def graded_pools(count, documents=4):
    """Pools whose documents carry the grade that simulated judges see."""
    return [
        Pool(
            f"q{i}",
            f"question {i}",
            tuple(Document(f"d{j}", f"{i}, {j}", {"grade": j % 4}) for j in range(documents)),
        )
        for i in range(count)
    ]


def two_speeds(out, **fields):
    """Options of a job of two simulated judges, of which one is slow, and their panel."""
    paces = {SLOW: {"latency": 0.02, "noise": 0.0}, QUICK: {"latency": 0.001, "noise": 0.0}}
    given = {"judges": (SLOW, QUICK), "judge_options": paces, **fields}
    limits = {SLOW: {"concurrency": 2}, QUICK: {"concurrency": 8}}
    options = options_of(out=str(out), limits=limits, **given)
    return options, build_panel(options.judges, options.judge_options, {})


def ask_apart(pools, options, panel, *, run_id="run", enough=None, look=None, again=False):
    """Let each judge of a panel have an `Asker` and a ledger of its own, as it has on Ray.

    All stop when ``enough`` replies are kept; ``look`` gets the tallies again and again. Returns
    these at the end.
    """

    async def run():
        askers = []
        for judge in panel:
            ledger = Ledger(options.ledger_dir, run_id, statuses_to_retry(options))
            told = {"ledger": ledger, "environ": {}, "run_id": run_id, "again": again}
            askers.append((OnlineClient(options, panel, [judge], **told), ledger))

        def tallies():
            return {n: t for asker, _ in askers for n, t in asker.tallies.items()}

        async def watch():
            while True:
                if look:
                    look(tallies())
                if enough and sum(t.answered for t in tallies().values()) >= enough:
                    for asker, _ in askers:
                        asker.stop("interrupted")
                await asyncio.sleep(0.001)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(asker.ask_about(pool) for asker, _ in askers for pool in pools))
        watching.cancel()
        for asker, ledger in askers:
            await asker.aclose()
            ledger.close()
        return tallies()

    return asyncio.run(run())


def write_graded(path, pools):
    """Input lines of pools, with the grades that simulated judges see."""
    path.write_bytes(b"".join(line_of(pool) + b"\n" for pool in pools))
    return path


def short(protocol):
    """Options that keep a protocol's course short, if it has such."""
    return {"rounds": 1} if "rounds" in load_protocol(protocol).options.model_fields else {}


def interrupted(folder, pools, enough, **fields):
    """Leave a run that was interrupted, with about so many replies, in a folder; return its out.

    Its input lies beside it, in ``in.jsonl``.
    """
    out = folder / "out"
    out.mkdir()
    given = write_graded(folder / "in.jsonl", pools)
    options, panel = two_speeds(out, inputs=(str(given),), ledger=str(out), **fields)
    record = {
        "kind": "annotate",
        "run_id": "run",
        "options": options.model_dump(mode="json"),
        "panel": [{"judge": judge.name, "options": judge.options} for judge in panel],
        "shards": [str(given)],
    }
    record_start(str(out), "run.json", record)
    ask_apart(pools, options, panel, enough=enough)
    return out


def send_away(
    pools,
    out,
    environ,
    *,
    run_id="run",
    judges=(),
    budget=None,
    disabled=None,
    clock=HURRIED,
    **fields,
):
    """Let a `BatchClient` for each judge, each of another provider, fill the ledger of ``out``.

    They are returned by provider. What the ledger holds after it is in ``.books`` of each, and
    ``.job`` is panel and options.
    """
    fields = {"batch_poll": 5.0, **fields}
    options = options_of(out=str(out), judges=judges, mode="batch", **fields)
    panel = build_panel(options.judges, options.judge_options, environ)
    batchers = {}

    async def run():
        present = _present(panel, disabled)
        for judge in present:
            ledger = Ledger(options.out, run_id)
            batchers[judge.provider] = BatchClient(
                *(options, panel, judge),
                ledger=ledger,
                environ=environ,
                run_id=run_id,
                coordinator=OwnCoordination(clock, budget),
                disabled=disabled,
                clock=clock,
            )
        await asyncio.gather(*(batcher.run(lambda: iter(pools)) for batcher in batchers.values()))

    asyncio.run(run())
    for batcher in batchers.values():
        batcher.books, batcher.job = list(read_rows(options.out)), (panel, options)
    return batchers


def rows_of(out, name):
    """The rows of one of a run's tables."""
    return pq.read_table(out / f"{name}.parquet").to_pylist()


def write_lines(path, rows):
    """Rows as lines of JSON."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_qrels(path, grades, queries=6):
    """Grades of documents d0, d1 ... spread over some queries; None: not judged."""
    lines = [f"q{i % queries} 0 d{i} {g}\n" for i, g in enumerate(grades) if g is not None]
    path.write_text("".join(lines))
    return path


def stored(folder):
    """Every line of a ledger's segments, read with nothing of this project."""
    segments = sorted((folder / "replies").glob("*.jsonl"))
    return [orjson.loads(line) for s in segments for line in s.read_bytes().splitlines()]


def keys(*numbers):
    """The keys that `reply_to` makes of numbers."""
    return [f"{number:032x}" for number in numbers]


def fill(out, *replies, run_id="run"):
    """Let a run append replies to a ledger, one by one."""
    ledger = Ledger(str(out), run_id)
    for reply in replies:
        ledger.append([reply])
    ledger.close()


@contextlib.contextmanager
def small_disk(folder, size="64k,nr_inodes=4"):
    """A disk of some size at a folder; by default one without room for another file."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("this user may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def answers(pools, options, say=None, shelf=None):
    """A shelf with a true reply to everything, but where ``say`` says otherwise."""
    shelf = shelf or Shelf()
    for pool in pools:
        for request in missing(pool, PANEL, options):
            said = say(request) if say else None
            a, b = seen_worth(request)
            if said is None:
                shelf.put(request, verdict((b - a) / 10, f"{a} or {b}"))
            elif said != "missing":
                shelf.put(request, "", said, reason="because", attempts=2)
    return shelf


def lines_of(pools):
    return [
        parse_line("in.jsonl", i, line_of(pool), LineLimits()) for i, pool in enumerate(pools, 1)
    ]


def results_of(out, pools, say=None, block=None, **fields):
    """Settle pools in blocks of some size, and write them."""
    options = options_of(out=str(out), **fields)
    shelf, lines = answers(pools, options, say), lines_of(pools)
    size = block or max(1, len(lines))
    blocks = (
        build_results(lines[i : i + size], PANEL, options, shelf)
        for i in range(0, len(lines), size)
    )
    return write_results(blocks, options)


def write_run(out, summary, model="a-model", **options):
    """The record of a run, as the job on Ray leaves it beside the results."""
    tally = Tally(
        known=1,
        answered=9,
        retries=2,
        throttled=1,
        input_tokens=9000,
        output_tokens=900,
        dollars=1.5,
        statuses={"ok": 8, "refused": 1},
    )
    value = {
        "kind": "annotate",
        "run_id": "20261101T000000Z-abc",
        "options": {"protocol": "zelo", "cycles": 4, "seed": 0, **options},
        "summary": asdict(summary),
        "judges": {f"openai:{model}": asdict(tally)},
    }
    write_json(str(out), "run.json", value)


def key_for(environ, *names):
    return {f"{name.upper()}_API_KEY": environ[f"{name.upper()}_API_KEY"] for name in names}


def settled(asker, pool, out):
    """What a pool comes to, from the ledger alone."""
    panel, options = asker.job
    return advance(zelo.rounds(pool, panel, options), Ledger(str(out)))


def write_as_run(pools, panel, options, say):
    """Let judges answer to the end, learn what scores need, and write results as a run does."""
    protocol, replies, lines = load_protocol(options.protocol), Shelf(), lines_of(pools)
    for pool in pools:
        play(protocol, options, pool, panel, say, replies)
    record = {"options": options.model_dump(mode="json"), "finished": True}
    write_json(options.out, "run.json", record)
    learned, human = None, learning.read_human_grades(options)
    if protocol.learns(options):
        blocks = [build_results(lines, panel, options, replies)]
        learned = learning.learn(blocks, options, panel, human)
    summary = write_results(
        [build_results(lines, panel, options, replies, learned=learned)], options
    )
    if learned is None:
        return summary
    notes = learning.write_learned(options, learned, human)
    return replace(summary, notes=notes, is_truth_error_learned=learned.shared is not None)


def explained(out, query, doc=None):
    """What explain says of a query or a document."""
    return explain(ExplainOptions(run=str(out), query=query, doc=doc)).to_text(200)
