"""Judges on own GPUs, against a fake of vLLM's engine: no GPU has run them."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests import crash
from tests.builders import ask, request_of
from zelo_ray.engine.ledger import read_rows
from zelo_ray.errors import PanelError
from zelo_ray.providers import Settings, build_panel, connect, parse_judge
from zelo_ray.providers.vllm import engines
from zelo_ray.records import Document, Pool

PACKAGE = Path(__file__).parent / "fakes" / "vllm_package"
JUDGE = "vllm:small/model"
TEXTS = [
    f"{word} [[worth={n}]] {word * 30}" for n, word in enumerate(("door", "garage", "car", "key"))
]
POOL = Pool("q1", "a garage", tuple(Document(f"d{n}", text) for n, text in enumerate(TEXTS)))


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Have the fake installed; say how its engines behave, and get what they did."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setenv("FAKE_VLLM", str(tmp_path))
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "")  # so that it is as before, afterwards
    monkeypatch.delenv("VLLM_NO_USAGE_STATS")
    monkeypatch.setattr(engines, "_WAITS", (0.01, 0.02, 0.03))

    def plan(*plans):
        (tmp_path / "plan.json").write_text(json.dumps(plans))
        for start in tmp_path.glob("start-*"):
            start.unlink()

    plan()
    plan.did = lambda what: [
        row
        for row in map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
        if what in row
    ]
    yield plan
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]


def run(tmp_path, judge=JUDGE, options=None, **fields):
    judge_options = {judge: options or {}}
    fields = {"judges": (judge,), "judge_options": judge_options} | fields
    return ask([POOL], tmp_path / "out", {}, **fields)


def test_an_answer_follows_the_schema_and_prompts_share_their_beginnings(engine, tmp_path):
    asker = run(tmp_path, options={"tensor_parallel_size": 2, "max_model_len": 50_000}, max_usd=1)
    assert not asker.stopped
    assert {row.status for row in asker.books} == {"ok"}
    assert {row.dollars for row in asker.books} == {0.0}
    assert len(asker.books) == len(engine.did("asked")) == 6
    (start,) = engine.did("start")
    assert start["start"]["tensor_parallel_size"] == 2
    assert start["start"]["distributed_executor_backend"] == "mp"
    assert start["start"]["generation_config"] == "vllm"
    assert start["untold"] == "1", "nothing leaves the machine unasked"
    assert start["start"]["max_model_len"] == 50_000
    for row in engine.did("asked"):
        assert row["schema"]["properties"].keys() >= {"reasoning", "preference"}
        assert (row["temperature"], row["kwargs"]) == (0.0, {"enable_thinking": False})
    cached = [row.cached_tokens for row in asker.books]
    assert any(cached)
    assert all(row.cached_tokens < row.input_tokens for row in asker.books)


def test_an_engine_that_dies_costs_what_was_in_flight(engine, tmp_path):
    engine({"dies_at": 4}, {"no_start": True}, {"dies_at": 3})
    asker = run(tmp_path, limits={JUDGE: {"concurrency": 2}})
    assert not asker.stopped
    assert Counter(row.status for row in asker.books) == {"ok": 6}
    asked = Counter(row["asked"] for row in engine.did("asked"))
    assert set(asked.values()) == {1}, "nothing that was answered is asked again"
    assert len(engine.did("start")) == 4
    assert len(engine.did("shutdown")) == 3  # two that died, and the last at its end


@pytest.mark.parametrize("concurrency", [1, 2, 6])
def test_a_death_that_frees_its_memory_slowly_loses_no_judge(engine, tmp_path, concurrency):
    no_start = {"no_start": True}  # as its processes still hold the GPU
    engine({"dies_at": 4, "ends_in": 0.2}, no_start, no_start, {"starts_in": 0.1})
    asker = run(tmp_path, limits={JUDGE: {"concurrency": concurrency}})
    assert not asker.stopped
    assert Counter(row.status for row in asker.books) == {"ok": 6}
    assert len(engine.did("start")) == 4


DIES, NO_START = {"dies_at": 1}, {"no_start": True}


@pytest.mark.parametrize("concurrency", [1, 6])
@pytest.mark.parametrize(
    ("plans", "says"),
    [
        ([DIES] * 3, "3 engines died in a row without an answer"),
        ([NO_START] * 4, "RuntimeError: no memory; --verbose"),
    ],
)
def test_one_that_never_answers_is_given_up(engine, tmp_path, plans, says, concurrency):
    engine(*plans)
    asker = run(tmp_path, limits={JUDGE: {"concurrency": concurrency}})
    assert says in asker.stopped
    assert len(engine.did("start")) == len(plans), "no call begins again with what others gave up"
    assert not asker.books, "no failure stands for a judge that could not be asked"


def test_one_that_answered_is_none_of_those_that_never_did(engine, tmp_path):
    engine({"dies_at": 2}, DIES, DIES)
    asker = run(tmp_path, limits={JUDGE: {"concurrency": 1}})
    assert not asker.stopped
    assert Counter(row.status for row in asker.books) == {"ok": 6}


def test_a_first_start_is_tried_again_if_it_fails_soon(engine, tmp_path, monkeypatch):
    engine({"no_start": True}, {"no_start": True})
    assert not run(tmp_path).stopped
    assert len(engine.did("start")) == 3
    monkeypatch.setattr(engines, "_SOON", 0.0)
    (tmp_path / "log.jsonl").unlink()
    engine({"no_start": True})
    judge = "vllm:another/model"
    assert "the engine cannot start: RuntimeError: no memory" in run(tmp_path, judge).stopped
    assert len(engine.did("start")) == 1


def test_a_start_after_a_death_is_tried_again_however_late_it_fails(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "_SOON", 0.0)
    engine({"dies_at": 4}, NO_START)
    assert not run(tmp_path).stopped
    assert len(engine.did("start")) == 3


def test_what_can_never_start_is_told_at_once(engine, tmp_path):
    asker = run(tmp_path, "vllm:no/model")
    assert asker.stopped.startswith("vllm:no/model: the engine cannot start")
    assert asker.stopped.endswith("OSError: no/model is no model")
    assert not (tmp_path / "log.jsonl").exists()


def test_an_engine_that_starts_for_nobody_is_shut_down(engine, tmp_path):
    engine({"starts_in": 0.3})
    (judge,) = build_panel((JUDGE,), {}, {})

    async def leave():
        connection = connect(judge, Settings())
        call = asyncio.create_task(connection.send(request_of(judge=judge)))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(leave())
    assert len(engine.did("shutdown")) == len(engine.did("start")) == 1


def test_an_engine_that_hangs_holds_nothing_up(engine, tmp_path):
    engine({"hangs": True})
    asker = run(tmp_path, timeout=0.02, attempts=2)
    assert {row.reason for row in asker.books if row.final} == {"no answer within 0.1 s"}
    assert 12 <= len(engine.did("aborted")) <= 18  # two attempts each, and probes


def test_what_queues_in_an_engine_that_answers_is_waited_for(engine, tmp_path):
    engine({"one_by_one": 0.3})
    asker = run(tmp_path, timeout=0.2)
    assert Counter(row.status for row in asker.books) == {"ok": 6}
    assert not engine.did("aborted"), "the last was answered after 1.8 s, and the timeout is 1 s"


@pytest.mark.parametrize("plan", [{"template": "parts"}, {"awaited": True}])
def test_a_judge_is_shown_its_whole_prompt(engine, tmp_path, plan):
    engine(plan)
    asker = run(tmp_path)
    assert Counter(row.status for row in asker.books) == {"ok": 6}
    asked = [row["asked"] for row in engine.did("asked")]
    assert all(sum(text in prompt for text in TEXTS) == 2 for prompt in asked)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("user", "user's text; use an instruction-tuned"),
        ("repr", "leaves out the system's or the user's text"),
        ("none", "does not accept them: LookupError"),
    ],
)
def test_a_template_that_leaves_text_out_asks_nothing(engine, tmp_path, template, says):
    engine({"template": template})
    asker = run(tmp_path)
    assert says in asker.stopped
    assert not engine.did("asked")
    assert not asker.books


def test_repeats_are_drawn_anew(engine, tmp_path):
    run(tmp_path, options={"temperature": 1.0, "seed": 7}, protocol="graded", repeats=3)
    assert Counter(row["seed"] for row in engine.did("asked")) == {7: 4, 8: 4, 9: 4}


def test_what_cannot_be_read_is_asked_again_by_another_seed(engine, tmp_path):
    engine({"invalid": True})
    run(tmp_path, options={"seed": 7}, reasks=2)
    asked = Counter((row["seed"], row["temperature"]) for row in engine.did("asked"))
    far = 1_000_003  # repeats have the seeds in between
    assert asked == {(7, 0.0): 6, (7 + far, 0.5): 6, (7 + 2 * far, 0.5): 6}
    (tmp_path / "log.jsonl").unlink()
    run(tmp_path / "warm", "vllm:warm/model", options={"temperature": 1.0}, reasks=0)
    assert {(row["seed"], row["temperature"]) for row in engine.did("asked")} == {(0, 1.0)}


def test_how_often_it_was_asked_is_no_part_of_the_key():
    request = request_of()
    again = replace(request, reask=1, key_override=request.key)
    assert again.key == request.key
    assert again.reask == 1
    assert replace(request, reask=1).key == request.key


def test_an_option_that_vllm_does_not_take_is_told(engine, tmp_path):
    asker = run(tmp_path, options={"temperature": 3})
    assert "does not accept its options" in asker.stopped
    assert "VLLMValidationError: temperature" in asker.stopped
    assert not engine.did("asked")


WORDS = {"says": "VLLMValidationError", "words": "logprobs must be 1"}
SECRET = {"says": "VLLMValidationError", "words": "prompt"}


@pytest.mark.parametrize(
    ("plans", "options", "status", "reason"),
    [
        ([], {"max_model_len": 40}, "failed", "max_model_len is 40"),
        ([], {"max_output_tokens": 5}, "truncated", "finish_reason: length"),
        ([{"finish": "repetition"}], {}, "truncated", "finish_reason: repetition"),
        ([{"invalid": True}], {}, "invalid", ""),
        ([{"says": "ValueError"}], {}, "failed", "not accept the prompt: ValueError"),
        ([WORDS], {}, "failed", "prompt: VLLMValidationError: logprobs"),
        ([SECRET], {}, "failed", "not accept the prompt: VLLMValidation"),
    ],
)
def test_what_is_no_judgment_is_a_failure_with_its_reason(
    engine, tmp_path, plans, options, status, reason
):
    engine(*plans)
    asker = run(tmp_path, options=options)
    assert {row.status for row in asker.books if row.final} == {status}
    assert all(reason in row.reason for row in asker.books)
    assert not any("garage" in row.reason for row in asker.books), "no prompt is in a reason"


def test_an_engine_that_always_fails_is_given_up_with_its_reason(engine, tmp_path):
    engine({"says": "EngineGenerateError"})
    asker = run(tmp_path)
    assert "engine failed: EngineGenerateError; nothing else for" in asker.stopped
    assert "garage" not in asker.stopped
    assert not asker.books


def test_a_key_holds_what_changes_answers_and_not_how_the_engine_runs():
    def key(**options):
        (judge,) = build_panel((JUDGE,), {JUDGE: options}, {})
        return judge.key_prefix

    same = {"tensor_parallel_size": 4, "max_model_len": 9, "gpu_memory_utilization": 0.5}
    assert key() == key(**same) == key(max_output_tokens=9)
    other = [{"temperature": 1}, {"seed": 2}, {"dtype": "half"}, {"quantization": "awq"}]
    other += [{"revision": "v2"}, {"chat_template_kwargs": {"enable_thinking": True}}]
    assert len({key(), *(key(**options) for options in other)}) == len(other) + 1


def test_what_cannot_be_is_one_line(engine):
    with pytest.raises(PanelError, match="name a model: vllm:"):
        build_panel(("vllm",), {}, {})
    with pytest.raises(PanelError, match="OpenAI's protocol is openai:MODEL"):
        build_panel(("vllm:qwen@http://localhost:8000/v1",), {}, {})
    with pytest.raises(PanelError, match="a server is openai:MODEL@URL"):
        connect(parse_judge(JUDGE), Settings(base_url="http://there"))


def test_without_the_package_it_says_what_to_install():
    with pytest.raises(PanelError, match=r"pip install 'zelo-ray\[vllm\]'"):
        connect(parse_judge(JUDGE), Settings())


ON_GPUS = """
import sys, ray
from zelo_ray import cli
from zelo_ray.ray import small_jobs
small_jobs._MOST = int(sys.argv.pop(1))  # 0: all take the long way, through Ray Data
ray.init(num_cpus=4, num_gpus=int(sys.argv[1]), include_dashboard=False, log_to_driver=False)
sys.exit(cli.main(sys.argv[2:]))
"""


def on_gpus(tmp_path, environ, most, gpus, *words):
    """Run a command on a Ray that takes this machine for one with GPUs."""
    path = os.pathsep.join([str(PACKAGE), str(crash.ROOT)])
    environ = {**environ, "PYTHONPATH": path, "FAKE_VLLM": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", ON_GPUS, str(most), str(gpus), "annotate", *words],
        env=environ,
        cwd=crash.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.ray
@pytest.mark.nightly
@pytest.mark.parametrize("most", [20_000, 0], ids=["handed", "by Ray Data"])
def test_each_judge_has_gpus_of_its_own_and_outlives_a_kill(engine, tmp_path, most):
    engine({"kills_at": 20})
    pools, out = tmp_path / "pools.jsonl", tmp_path / "out"
    crash.write_pools(pools, 6, 4)
    two, one, paid = "vllm:two/gpus", "vllm:one/gpu", "openai:gpt-6-luna"
    config = tmp_path / "c.yaml"
    config.write_text(json.dumps({"judge_options": {two: {"tensor_parallel_size": 2}}}))
    with crash.fakes(tmp_path) as urls:
        environ = urls | crash.limits([two, one, paid], concurrency=4)
        words = [str(pools), "--out", str(out), "--config", str(config), "--judges", two, one, paid]
        if most:  # both ways ask for them before either is taken
            status, said = on_gpus(tmp_path, environ, most, 2, *words)
            assert status == 2, said
            assert f"{two}, {one} take 3 GPUs, and there are 2" in said
        status, said = on_gpus(tmp_path, environ, most, 3, *words)
    assert status == 0, said
    assert f"{two} starts on 2 GPUs, which takes minutes" in said
    rows = list(read_rows(str(out)))
    assert Counter(row.judge for row in rows if row.final) == dict.fromkeys((two, one, paid), 36)
    assert len({row.key for row in rows}) == len(rows) == 108
    starts = engine.did("start")
    assert len({row["pid"] for row in starts}) == len(starts) == 3
    for row in starts:
        assert len(row["gpus"].split(",")) == row["start"]["tensor_parallel_size"]
    asked = Counter((row["model"], row["asked"]) for row in engine.did("asked"))
    assert len(asked) == 72
    assert asked.total() <= 72 + 4, "a kill costs no more than what was in flight"
