"""Plug-ins: by plain names of packages that are installed, and protocols of the user's files."""

import json
import os
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from tests.helpers import crash
from tests.helpers.builders import (
    ask,
    explained,
    lines_of,
    options_of,
    pool_of,
    rows_of,
    send_away,
    write_graded,
    write_run,
)
from tests.helpers.jobs import run_job
from tests.report.test_report import Page
from zelo_ray import cli, doctor, measure
from zelo_ray.command_options import BakeoffOptions, CompareOptions
from zelo_ray.commands import load as load_command
from zelo_ray.commands.compare.ways import make_ways
from zelo_ray.commands.report import write_report
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.write_results import write_results
from zelo_ray.errors import OptionError, PanelError
from zelo_ray.evaluation.measures import parse_measure
from zelo_ray.plugins import find_installed, loaded_packages
from zelo_ray.protocols import load_protocol
from zelo_ray.protocols.rankers import order_of
from zelo_ray.providers import build_panel, parse_judge
from zelo_ray.records import response_model_name
from zelo_ray.rerankers import build_rankers
from zelo_ray.rerankers.custom import load_reranker

OWN = Path(__file__).parents[1] / "own"
RERANKERS = """
from zelo_ray import Provider
from zelo_ray.rerankers.custom import Custom

class Longest:
    version = "1"
    def __init__(self, weight=1.0):
        self.weight = weight
    def score(self, query, documents):
        return [self.weight * len(text) for text in documents]

HOSTED = Provider(connect=Custom, models=("small",), options={"documents": "mine"}, free=True)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a package on Python's path: what it declares, and its module."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)

    def installed(package, group, names, text="raise RuntimeError", version="1.0"):
        info = tmp_path / "site" / f"{package}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {package}\nVersion: {version}\n")
        lines = [f"[zelo_ray.{group}]"] + [f"{n} = {package}_own:{o}" for n, o in names.items()]
        (info / "entry_points.txt").write_text("\n".join(lines))
        text = (OWN / text).read_text() if text.endswith(".py") else text
        (tmp_path / "site" / f"{package}_own.py").write_text(text)
        find_installed.cache_clear()

    yield installed
    find_installed.cache_clear()


def arms(*rerankers, **fields):
    options = BakeoffOptions(truth="t", out="o", rerankers=rerankers, **fields)
    return build_rankers(options, {}, run_id="run")


def checks(*judges):
    return {row["check"]: row for row in doctor(judges=list(judges), progress=None).findings}


def test_a_measure_is_one_by_its_plain_name(install):
    install("gains", "measures", {"First": "MEASURE [extra]"}, "first.py", "2.5")
    names, qrels = ["First@1", "First(least=2)@2"], {"q1": {"d1": 3, "d2": 0}}
    row = measure({"q1": {"d1": 0.9, "d2": 0.8}}, qrels, names).to_pandas().iloc[0]
    assert [row[name] for name in names] == [1.0, 1.0]
    for wrong, says in (
        ("First", "First needs a cutoff: a whole number"),
        ("Firts@10", "did you mean 'First'"),
    ):
        with pytest.raises(OptionError, match=says):
            parse_measure(wrong)
    assert loaded_packages()["gains"] == "2.5"


def test_a_protocol_has_its_options_and_stands_in_the_help(install, capsys):
    install("hands", "protocols", {"thumbs": "PROTOCOL"}, "thumbs.py")
    words = {"inputs": "x", "out": "o", "protocol": "thumbs"}
    assert load_command("annotate", {**words, "tone": "harsh"}).tone == "harsh"
    with pytest.raises(OptionError, match="did you mean 'tone'"):
        load_command("annotate", {**words, "tune": "harsh"})
    with pytest.raises(OptionError, match="did you mean 'thumbs'"):
        load_protocol("thumb")
    with pytest.raises(SystemExit):
        cli.main(["annotate", "--help", "--protocol", "thumbs"])
    assert "--tone TONE" in capsys.readouterr().out


def test_a_provider_judges_by_its_plain_name(install):
    install("words", "providers", {"overlap": "PROVIDER"}, "overlap.py")
    panel = build_panel(("overlap",), {"overlap:plain": {"power": 2}}, {})
    assert [judge.name for judge in panel] == ["overlap:plain", "overlap:contrary"]
    assert panel[0].options == {"power": 2}
    assert parse_judge("overlap:plain@http://x/v1").base_url == "http://x/v1"
    with pytest.raises(PanelError, match="did you mean 'overlap'"):
        build_panel(("overlp:plain",), {}, {})
    with pytest.raises(PanelError, match="write listwise:overlap:plain"):
        arms("overlap:plain")
    assert arms("listwise:overlap:plain")[0].judge.name == "overlap:plain"


def test_a_reranker_is_a_class_or_a_provider(install):
    install("ranks", "rerankers", {"longest": "Longest", "hosted": "HOSTED"}, RERANKERS)
    fields = {"reranker_options": {"wide": {"weight": 2.0}}}
    plain, wide, hosted = arms("longest", "wide=longest", "hosted", **fields)
    assert (plain.judge.name, plain.judge.options["version"]) == ("custom:longest", "1")
    assert load_reranker(wide.judge)(**wide.judge.options["arguments"]).score("", ["ab"]) == [4.0]
    assert (hosted.judge.name, hosted.judge.options["documents"]) == ("hosted:small", "mine")
    for wrong, says in (
        ("longst", "did you mean 'longest'"),
        ("longest:x", "longest:x cannot be imported"),
        ("custom:none", "is not installed on this machine"),
    ):
        with pytest.raises(PanelError, match=says):
            arms(wrong)
    for judge in ("longest", "hosted:small"):
        with pytest.raises(PanelError, match="judges nothing"):
            build_panel((judge,), {}, {})


def test_one_that_is_broken_is_told_only_to_whoever_names_it(install):
    for n, (text, says) in enumerate(
        [
            ("import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_"),
            ("MEASURE = 1", "must be a MeasureKind, not int"),
            ("MESURE = 1", "has no MEASURE"),
        ]
    ):
        install(f"cracked{n}", "measures", {f"Cracked{n}": "MEASURE"}, text)
        assert parse_measure("nDCG@10").name == "nDCG"
        with pytest.raises(OptionError, match=f"^cracked{n} 1.0: .*{says}.*$"):
            parse_measure(f"Cracked{n}@10")


def test_a_name_of_two_packages_is_refused_and_a_built_in_one_wins(install):
    install("castor", "measures", {"Twin": "MEASURE", "nDCG": "MEASURE"})
    install("pollux", "measures", {"Twin": "MEASURE"})
    assert parse_measure("nDCG@10").name == "nDCG"
    with pytest.raises(OptionError, match="declared by castor and pollux"):
        parse_measure("Twin@10")


def test_a_key_in_dotenv_is_taken_for_a_declared_provider(install, monkeypatch, tmp_path):
    install("keys", "providers", {"keyed": "KEYED"}, "overlap.py")
    monkeypatch.delenv("PYTHON_DOTENV_DISABLED", raising=False)
    monkeypatch.setenv("OVERLAP_KEY", "another")
    monkeypatch.delenv("OVERLAP_KEY")
    (tmp_path / ".env").write_text("OVERLAP_KEY=one-for-tests\n")
    assert checks("keyed:plain")["keyed:plain"]["finding"] == "its price is unknown"


# A protocol of the user's, which nothing in the package names

THUMBS = f"{OWN}/thumbs.py:PROTOCOL"
WORTHS = (0, 3, 1, 2)
PROVIDERS = ("openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "gemini:gemini-3.8-flash")


def worthy(query_id):
    """A pool whose documents say what they are worth, to simulated judges in their metadata."""
    pool = pool_of(WORTHS, query_id)
    documents = zip(pool.documents, WORTHS, strict=True)
    told = tuple(replace(document, metadata={"grade": worth}) for document, worth in documents)
    return replace(pool, documents=told)


POOLS = [worthy(f"q{i}") for i in range(3)]


def judged(way, out, environ=None):
    """Write the results of a run by thumbs."""
    fields = {"protocol": THUMBS, "tone": "fair"}
    if way == "in batches":
        (batcher, *_) = send_away(POOLS, out, environ, judges=PROVIDERS, **fields).values()
        panel, options = batcher.job
    else:
        judges = {"online": PROVIDERS, "simulated": ("simulated:a", "simulated:b")}
        names = judges.get(way, ("offline",))
        panel, options = ask(POOLS, out, environ or {}, judges=names, **fields).job
    blocks = [build_results(lines_of(POOLS), panel, options, Ledger(options.out))]
    summary = write_results(blocks, options)
    assert (summary.missing, summary.failures, summary.judgments) == (0, 0, 12 * len(panel))
    return panel, options, summary


def changed(folder, old, new):
    """A protocol like that of the user's but for a few words."""
    (folder / "mine.py").write_text((OWN / "thumbs.py").read_text().replace(old, new))
    return f"{folder}/mine.py:PROTOCOL"


def page_words(out):
    write_report(str(out))
    return Page((out / "report.html").read_text()).words()


@pytest.mark.parametrize("way", ["online", "in batches", "simulated", "offline"])
def test_a_protocol_of_ones_own_is_told_truly(way, tmp_path, environ):
    panel, _, summary = judged(way, tmp_path, environ)
    write_run(tmp_path, summary, cycles=None, protocol=THUMBS, tone="fair")
    ups = {(r["query_id"], r["doc_id"], r["judge"]): r["up"] for r in rows_of(tmp_path, "thumbs")}
    for score in rows_of(tmp_path, "scores"):
        thumbs = [ups[score["query_id"], score["doc_id"], judge.name] for judge in panel]
        assert (score["score"], score["comparisons"]) == (mean(thumbs), len(panel))
    assert explained(tmp_path, "q0").count("thumb by") == 4 * len(panel)
    one = explained(tmp_path, "q0", "d1")
    assert f"from {len(panel)} thumb" in one
    text = page_words(tmp_path)
    for untrue in ("logits", "against", "comparison", "grade"):
        assert untrue not in one
    assert "battle" not in text
    status = cli.main(["agree", str(tmp_path), "--levels", "2"])
    assert status in (0, 3)


def test_what_is_mistyped_about_it_is_told(tmp_path):
    given = {"inputs": "x", "out": "o", "protocol": THUMBS}
    assert load_command("annotate", {**given, "tone": "harsh"}).tone == "harsh"
    for wrong, says in (("tune", "tune: .*did you mean 'tone'"), ("cycles", "--cycles is of ")):
        with pytest.raises(OptionError, match=says):
            load_command("annotate", {**given, wrong: 3})
    for name in (
        THUMBS.replace("PROTOCOL", "Thumb"),
        THUMBS.replace("thumbs", "none"),
        "no_such_module:PROTOCOL",
    ):
        with pytest.raises(OptionError):
            load_protocol(name)
    twin = changed(tmp_path, 'name="thumbs"', 'name="zelo"')
    fields = {"inputs": ("x",), "out": "o", "human": "h", "try_": (f"protocol={twin}",)}
    with pytest.raises(OptionError, match="another column is called 'zelo'"):
        make_ways(CompareOptions(**fields, judges=("offline",)))


def test_a_file_that_changes_is_read_again(tmp_path):
    name = changed(tmp_path, "", "")
    assert load_protocol(name).options is load_protocol(name).options
    changed(tmp_path, 'name="thumbs"', 'name="fists"')
    os.utime(tmp_path / "mine.py", ns=(1, 1))
    assert load_protocol(name).name == "fists"


def test_a_model_of_the_users_is_not_taken_for_one_of_ours():
    models = (*load_protocol(THUMBS).response_models, *load_protocol("zelo").response_models)
    names = [response_model_name(model) for model in (*models, order_of(3))]
    assert names == ["own_thumbs.Thumbing", "Preference", "LetterVote", "Grading", "Order:3"]


def test_another_protocol_on_the_same_place_removes_its_table(tmp_path):
    panel, options, _ = judged("offline", tmp_path)
    record = {"finished": False, "before": {"judgments": ["thumbs"]}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "mine.parquet").write_bytes(b"mine")
    graded = options_of(out=str(tmp_path), protocol="graded")
    write_results([build_results(lines_of(POOLS), panel, graded, Ledger(options.out))], graded)
    assert not (tmp_path / "thumbs.parquet").exists()
    assert (tmp_path / "mine.parquet").exists()


def test_it_runs_resumes_and_is_compared(tmp_path):
    pools, human = write_graded(tmp_path / "pools.jsonl", POOLS), tmp_path / "human.txt"
    rows = [f"q{i} 0 d{d} {w}\n" for i in range(3) for d, w in enumerate(WORTHS)]
    human.write_text("".join(rows))
    environ = {n: v for n, v in crash.environment({}).items() if n != "TEST_OPTION_LIMITS"}
    job = ["annotate", str(pools), "--judges", "offline", "--protocol", THUMBS]
    for told in ("thumbs 36", "nothing to ask"):
        status, printed = run_job(environ, *job, "--out", str(tmp_path / "out"))
        assert status == 0, printed
        assert told in printed
    assert len(rows_of(tmp_path / "out", "thumbs")) == 36
    words = ["compare", str(pools), "--human", str(human), "--judges", "offline", "--protocol"]
    words += ["graded", "--try", f"protocol={THUMBS}", "--tone", "fair"]
    words += ["--out", str(tmp_path / "worth")]
    status, printed = run_job(environ, *words)
    assert status == 0, printed
    assert "thumbs" in printed
