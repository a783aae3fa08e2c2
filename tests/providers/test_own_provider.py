"""A provider of the user's own: no other file of the package knows it."""

import doctest
from collections import Counter
from pathlib import Path

import pytest

from tests.helpers.builders import ask, lines_of, rows_of
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.write_results import write_results
from zelo_ray.errors import PanelError
from zelo_ray.options import AnnotateOptions
from zelo_ray.providers import build_panel, panel_of, provider
from zelo_ray.records import Document, Pool
from zelo_ray.rerankers import build_rankers

FILE = f"{Path(__file__).parents[1] / 'own' / 'overlap.py'}:PROVIDER"
MODULE = "tests.own.overlap:PROVIDER"
TEXTS = ("reset the garage door", "the garage", "a door", "the")
POOL = Pool("q1", "reset the garage door", tuple(Document(t[-6:], t) for t in TEXTS))


@pytest.mark.parametrize("own", [MODULE, FILE], ids=["module", "file"])
def test_a_panel_of_its_judges_comes_to_votes_and_scores(own, tmp_path):
    plain, contrary = f"{own}:plain", f"{own}:contrary"
    asked = {
        "judges": (own,),
        "judge_options": {plain: {"power": 2}},
        "limits": {plain: {"concurrency": 1}},
        "prices": {plain: {"input": 0, "output": 1e6}},
    }
    asker = ask([POOL], tmp_path, {}, **asked)
    assert not asker.stopped
    assert Counter(row.judge for row in asker.books) == {plain: 6, contrary: 6}
    assert {(row.judge, row.dollars) for row in asker.books} == {(plain, 10.0), (contrary, None)}
    assert [asker.channels[name].slots for name in (plain, contrary)] == [1, 16]
    panel, options = asker.job
    summary = write_results(
        [build_results(lines_of([POOL]), panel, options, Ledger(options.ledger_dir))], options
    )
    assert (summary.judgments, summary.failures, summary.scored) == (12, 0, 4)
    votes = [row for row in rows_of(tmp_path, "votes") if row["judge"] == plain]
    counted = {each for row in votes for each in row["reasoning"].split(" and ")}
    assert counted == {"16", "4", "1"}
    assert len(rows_of(tmp_path, "scores")) == 4


def test_what_it_refuses_is_a_failure_and_the_rest_goes_on(tmp_path):
    bad = Pool("q1", POOL.query, (*POOL.documents, Document("bad", "the forbidden garage")))
    asker = ask([bad], tmp_path, {}, judges=(f"{MODULE}:plain",))
    assert not asker.stopped
    assert {row.status for row in asker.books if "forbidden" in row.reason} == {"refused"}
    assert "ok" in {row.status for row in asker.books}


def test_its_judges_are_checked_as_any_are():
    fields = {"inputs": "in", "out": "out", "judges": (f"{MODULE}:plain",)}
    with pytest.raises(PanelError, match=f"--max-usd needs prices, and that of {MODULE}:plain is"):
        panel_of(AnnotateOptions(**fields, max_usd=1), {})
    priced = {f"{MODULE}:plain": {"input": 1, "output": 1}}
    (judge,) = panel_of(AnnotateOptions(**fields, max_usd=1, prices=priced), {})
    assert (judge.provider, judge.model, judge.options) == (MODULE, "plain", {"power": 1})
    keyed = AnnotateOptions(**{**fields, "judges": ("tests.own.overlap:KEYED",)})
    with pytest.raises(PanelError, match=r"^tests.own.overlap:KEYED:plain: set OVERLAP_KEY in"):
        panel_of(keyed, {})
    assert [judge.model for judge in panel_of(keyed, {"OVERLAP_KEY": "k"})] == ["plain"]
    options = BakeoffOptions(truth="t", out="o", rerankers=(f"listwise:{MODULE}:plain",))
    (arm,) = build_rankers(options, {}, run_id="run")
    assert (arm.protocol, arm.judge.provider) == ("listwise", MODULE)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("opnai:gpt-6", r"'opnai' \(did you mean 'openai'\?\); .* openai"),
        ("nowhere:PROVIDER:m", "and your own as my_module:PROVIDER$"),
        ("tests.own.overlap:PROVDER:m", "tests.own.overlap .* PROVDER; .* PROVIDER, KEYED"),
        ("tests.own.overlap:Overlap", "must be a Provider, not type"),
        ("tests/own/none.py:PROVIDER", "cannot be imported: FileNotFoundError"),
        ("tests/own/overlap.py", "unknown provider 'tests/own/overlap.py'"),
    ],
)
def test_one_that_is_not_there_is_one_line(name, says):
    with pytest.raises(PanelError, match=says) as told:
        build_panel((name,), {}, {})
    assert "\n" not in str(told.value)


def test_one_that_cannot_connect_is_one_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from zelo_ray.providers import Provider\n"
        "PROVIDER = Provider(connect=lambda settings: 1 / 0, models=('m',))\n"
    )
    options = AnnotateOptions(inputs=("in",), out="out", judges=(f"{file}:PROVIDER",))
    with pytest.raises(PanelError, match="m: cannot be connected: ZeroDivisionError"):
        panel_of(options, {})


def test_the_example_of_the_docstring_runs():
    assert doctest.testmod(provider) == (0, 2)
