"""A protocol of the user's, which nothing in the package names, goes all the way and back."""

import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests import crash
from tests.builders import (
    ask,
    lines_of,
    options_of,
    pool_of,
    rows_of,
    send_away,
    set_in_file,
    write_graded,
    write_run,
)
from tests.test_report import Page
from zelo_ray import cli
from zelo_ray.commands.compare_protocols.plans import make_plans
from zelo_ray.commands.explain import explain
from zelo_ray.commands.report import write_report
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.write_results import write_results
from zelo_ray.errors import OptionError, ProtocolError, UnknownProtocol
from zelo_ray.options import CompareProtocolsOptions
from zelo_ray.protocols import load_annotate, load_protocol
from zelo_ray.protocols.listwise import order_of
from zelo_ray.providers import build_panel
from zelo_ray.records import response_model_name

THUMBS = f"{Path(__file__).parent}/own/thumbs.py:PROTOCOL"
PROVIDERS = ("openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "gemini:gemini-3.8-flash")
WORTHS = (0, 3, 1, 2)


def worthy(query_id):
    """A pool whose documents say what they are worth, to simulated judges in their metadata."""
    pool = pool_of(WORTHS, query_id)
    documents = zip(pool.documents, WORTHS, strict=True)
    told = tuple(replace(document, metadata={"grade": worth}) for document, worth in documents)
    return replace(pool, documents=told)


POOLS = [worthy(f"q{i}") for i in range(3)]


def judged(way, tmp_path, environ):
    """Options and the panel of a run whose replies are in the ledger."""
    fields = {"protocol": THUMBS, "tone": "fair"}
    if way == "in batches":
        (batcher, *_) = send_away(POOLS, tmp_path, environ, judges=PROVIDERS, **fields).values()
        return batcher.job
    judges = {"online": PROVIDERS, "simulated": ("simulated:a", "simulated:b")}.get(way)
    return ask(POOLS, tmp_path, environ, judges=judges or ("offline",), **fields).job


@pytest.fixture(params=["online", "in batches", "simulated", "offline"])
def out(request, tmp_path, environ):
    """The results of a run by thumbs."""
    panel, options = judged(request.param, tmp_path, environ)
    ledger = Ledger(options.out)
    summary = write_results([build_results(lines_of(POOLS), panel, options, ledger)], options)
    write_run(tmp_path, summary, cycles=None, protocol=THUMBS, tone="fair")
    assert (summary.missing, summary.failures, summary.judgments) == (0, 0, 12 * len(panel))
    assert summary.scored == 12
    return tmp_path


def test_its_judgments_and_scores_are_written_and_told_truly(out):
    thumbs, scores = rows_of(out, "thumbs"), rows_of(out, "scores")
    ups = Counter((row["query_id"], row["doc_id"]) for row in thumbs if row["up"])
    judges = {row["judge"] for row in thumbs}
    for score in scores:
        share = ups[score["query_id"], score["doc_id"]] / len(judges)
        assert (score["score"], score["comparisons"]) == (share, len(judges))
    of_query = explain(str(out), "q0")
    assert of_query.count("thumb by") == 4 * len(judges)
    one = next(score for score in scores if score["query_id"] == "q0")
    text = explain(str(out), "q0", one["doc_id"])
    noun = "thumb" if len(judges) == 1 else "thumbs"
    head = f"{one['doc_id']}: score {one['score']:.2f} ± {one['std_error']:.2f}"
    assert (f"\n\n{head}, rank {one['rank']} of 4, from {len(judges)} {noun}") in text
    assert "up: " in text
    for untrue in ("logits", "against", "grade", "comparison"):
        assert untrue not in text


def test_a_teams_words_stand_between_markers_in_its_prompt_too():
    options = options_of(protocol=THUMBS, instructions="A nurse can act on it.")
    (request, *_) = next(
        load_protocol(THUMBS).rounds(POOLS[0], build_panel(PROVIDERS, {}, {}), options)
    )
    words = r"\[instructions (\w{12})\]\nA nurse can act on it\.\n\[end of instructions \1\]"
    assert re.search(words, request.with_codes("a salt").system)


def test_its_page_says_what_it_told_and_no_more(out):
    write_report(str(out))
    page = Page((out / "report.html").read_text())
    text = page.words()
    assert "Thumbs for the documents of 3 queries" in text
    assert "A score is the share of judges whose thumb was up." in text
    assert "score, in shares of thumbs up" in (out / "report.html").read_text()
    assert "protocol thumbs, tone fair, seed 0." in text
    assert "agreement" not in page.sections
    assert "grades" not in page.sections
    for untrue in ("logit", "battle", "73%", "comparison"):
        assert untrue not in page.words("scores") + page.words("judges") + page.words("queries")


def test_its_judges_agree_as_its_grades_say(out, capsys):
    assert cli.main(["agree", str(out), "--levels", "2", *set_in_file(resamples=0)]) in (0, 3)
    assert "kappa" in capsys.readouterr().out


def test_what_is_mistyped_about_it_is_told():
    given = {"inputs": "x", "out": "o", "protocol": THUMBS}
    assert load_annotate({**given, "tone": "harsh"}).tone == "harsh"
    with pytest.raises(OptionError, match=r"^tune: no such option .did you mean 'tone'"):
        load_annotate({**given, "tune": "harsh"})
    with pytest.raises(OptionError, match=r"^--cycles is of --protocol zelo, "):
        load_annotate({**given, "cycles": 3})
    for name, says in (
        (THUMBS.replace("PROTOCOL", "Thumb"), "Thumb must be a Protocol, not type"),
        (THUMBS.replace("thumbs", "none"), "cannot be imported: FileNotFoundError"),
        ("no_such_module:PROTOCOL", "cannot be imported: ModuleNotFoundError"),
    ):
        with pytest.raises(UnknownProtocol, match=says):
            load_protocol(name)


def test_a_file_that_changes_is_read_again(tmp_path):
    mine, name = tmp_path / "mine.py", f"{tmp_path}/mine.py:PROTOCOL"
    text = (Path(__file__).parent / "own/thumbs.py").read_text()
    mine.write_text(text)
    assert load_protocol(name).options is load_protocol(name).options
    mine.write_text(text.replace('name="thumbs"', 'name="fists"'))
    os.utime(mine, ns=(1, 1))
    assert load_protocol(name).name == "fists"


def test_a_model_of_the_users_is_not_taken_for_one_of_ours():
    (model,) = load_protocol(THUMBS).response_models
    assert response_model_name(model) == "own_thumbs.Thumbing"
    assert [response_model_name(each) for each in load_protocol("zelo").response_models] == [
        "Preference",
        "LetterVote",
    ]
    assert response_model_name(order_of(3)) == "Order:3"


def test_a_function_of_the_users_that_raises_is_named_in_one_line(tmp_path, environ):
    mine = tmp_path / "mine.py"
    text = (Path(__file__).parent / "own/thumbs.py").read_text()
    mine.write_text(text.replace('noun="thumb",', 'noun="thumb", words=lambda row: row["why"],'))
    panel, options = judged("offline", tmp_path, environ)
    blocks = [build_results(lines_of(POOLS), panel, options, Ledger(options.out))]
    summary = write_results(blocks, options)
    write_run(tmp_path, summary, protocol=f"{mine}:PROTOCOL")
    says = "^protocol thumbs: words: TypeError: 'Thumb' .*$"
    with pytest.raises(ProtocolError, match=says):
        explain(str(tmp_path), "q0")
    with pytest.raises(ProtocolError, match=says):
        write_report(str(tmp_path))


def test_two_protocols_of_one_name_are_not_compared(tmp_path):
    mine = tmp_path / "mine.py"
    text = (Path(__file__).parent / "own/thumbs.py").read_text()
    mine.write_text(text.replace('name="thumbs"', 'name="zelo"'))
    fields = {"inputs": ("x",), "out": "o", "human": "h"}
    options = CompareProtocolsOptions(**fields, protocols=("zelo", f"{mine}:PROTOCOL"))
    with pytest.raises(OptionError, match="zelo is named twice"):
        make_plans(options, ("x",))


def test_results_of_a_protocol_that_is_gone_claim_nothing_but_scores(tmp_path, environ):
    panel, options = judged("offline", tmp_path, environ)
    blocks = [build_results(lines_of(POOLS), panel, options, Ledger(options.out))]
    summary = write_results(blocks, options)
    write_run(tmp_path, summary, cycles=None, protocol="gone_for_good:PROTOCOL")
    assert "d1: score" in explain(str(tmp_path), "q0")
    assert "thumb" not in explain(str(tmp_path), "q0", "d1")
    write_report(str(tmp_path))
    text = Page((tmp_path / "report.html").read_text()).words()
    assert "protocol gone_for_good:PROTOCOL" in text
    assert "logit" not in text.split("}", 1)[-1]


def test_another_protocol_on_the_same_place_removes_its_table(tmp_path, environ):
    panel, options = judged("offline", tmp_path, environ)
    blocks = [build_results(lines_of(POOLS), panel, options, Ledger(options.out))]
    write_results(blocks, options)
    record = {"finished": False, "before": {"judgments": ["thumbs"]}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "mine.parquet").write_bytes(b"mine")
    graded = options_of(out=str(tmp_path), protocol="graded")
    write_results([build_results(lines_of(POOLS), panel, graded, Ledger(options.out))], graded)
    assert not (tmp_path / "thumbs.parquet").exists()
    assert (tmp_path / "mine.parquet").exists()


@pytest.mark.ray
def test_it_runs_resumes_and_is_compared_on_ray(one_ray, tmp_path):
    write_graded(
        tmp_path / "pools.jsonl", [replace(pool, query_id=f"q{i}") for i, pool in enumerate(POOLS)]
    )
    words = ["--judges", "offline", "--protocol", THUMBS]
    job = ["annotate", str(tmp_path / "pools.jsonl"), "--out", str(tmp_path / "out"), *words]
    environ = {n: v for n, v in crash.environment({}).items() if n != "TEST_OPTION_LIMITS"}
    for told in ("thumbs 36", "All 36 responses are already in the ledger."):
        status, printed = one_ray.run(environ, *job)
        assert status == 0, printed
        assert told in printed
    assert len(rows_of(tmp_path / "out", "thumbs")) == 36
    human = tmp_path / "human.txt"
    human.write_text(
        "".join(f"q{i} 0 d{d} {w}\n" for i in range(3) for d, w in enumerate((0, 3, 1, 2)))
    )
    comparing = ["compare-protocols", str(tmp_path / "pools.jsonl"), "--human", str(human)]
    comparing += ["--judges", "offline", "--protocols", "graded", THUMBS, "--tone", "fair"]
    status, printed = one_ray.run(environ, *comparing, "--out", str(tmp_path / "worth"))
    assert status == 0, printed
    assert "thumbs" in printed
