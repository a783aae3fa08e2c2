"""Packages that are installed declare plug-ins, which are then known by plain names."""

import textwrap
from pathlib import Path

import pytest

from tests.builders import options_of
from zelo_ray import cli, doctor, measure
from zelo_ray.engine.request_plans import RequestPlans
from zelo_ray.engine.run_fingerprint import RunFingerprint
from zelo_ray.errors import MeasureError, OptionError, PanelError, UnknownProtocol
from zelo_ray.evaluation.measures import parse_measure
from zelo_ray.options import BakeoffOptions
from zelo_ray.plugins import find_installed, loaded_packages
from zelo_ray.protocols import load_annotate, load_protocol
from zelo_ray.providers import build_panel, parse_judge
from zelo_ray.rerankers import build_rankers
from zelo_ray.rerankers.custom import load_reranker

OWN = Path(__file__).parent / "own"
QRELS, RUN = {"q1": {"d1": 3, "d2": 0}}, {"q1": {"d1": 0.9, "d2": 0.8}}
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
    """Put a package on Python's path: its modules, and what it declares."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def installed(package, declared, version="1.0", **modules):
        info = tmp_path / "site" / f"{package}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {package}\nVersion: {version}\n")
        lines = list[str]()
        for group, names in declared.items():
            lines += [f"[zelo_ray.{group}]", *(f"{n} = {place}" for n, place in names.items())]
        (info / "entry_points.txt").write_text("\n".join(lines))
        for name, text in modules.items():
            (tmp_path / "site" / f"{name}.py").write_text(textwrap.dedent(text))
        find_installed.cache_clear()

    yield installed
    find_installed.cache_clear()


def test_a_measure_is_one_by_its_plain_name(install):
    first = (OWN / "first.py").read_text()
    install(
        "gains", {"measures": {"First": "gains_first:MEASURE [extra]"}}, "2.5", gains_first=first
    )
    row = measure(RUN, QRELS, ["First@1", "First(least=2)@2"]).to_pandas().iloc[0]
    assert (row["First@1"], row["First(least=2)@2"]) == (1.0, 1.0)
    with pytest.raises(MeasureError, match="needs a cutoff, such as First@10"):
        parse_measure("First")
    with pytest.raises(MeasureError, match=r"did you mean 'First'.*nDCG, .*, First, and your own"):
        parse_measure("Firts@10")
    assert loaded_packages()["gains"] == "2.5"


def test_a_protocol_has_its_options_and_stands_in_the_help(install, capsys):
    thumbs = (OWN / "thumbs.py").read_text()
    install("hands", {"protocols": {"thumbs": "hands_thumbs:PROTOCOL"}}, hands_thumbs=thumbs)
    words = {"inputs": "x", "out": "o", "protocol": "thumbs"}
    assert load_annotate({**words, "tone": "harsh"}).tone == "harsh"
    assert load_protocol("thumbs").name == "thumbs"
    with pytest.raises(OptionError, match=r"no such option .did you mean 'tone'"):
        load_annotate({**words, "tune": "harsh"})
    with pytest.raises(UnknownProtocol, match=r"did you mean 'thumbs'.*zelo, .*, thumbs, and your"):
        load_protocol("thumb")
    with pytest.raises(SystemExit):
        cli.main(["annotate", "--help", "--protocol", "thumbs"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "baseline-weak, thumbs" in printed
    assert "options of thumbs: --tone TONE" in printed


def test_nothing_is_kept_that_code_which_may_change_unseen_would_make_wrong(install, tmp_path):
    thumbs = (OWN / "thumbs.py").read_text()
    install("fists", {"protocols": {"fists": "fists_thumbs:PROTOCOL"}}, fists_thumbs=thumbs)
    overlap = (OWN / "overlap.py").read_text()
    install("nails", {"providers": {"nails": "nails_overlap:PROVIDER"}}, nails_overlap=overlap)
    options = {name: options_of(protocol=name, out=str(tmp_path)) for name in ("zelo", "fists")}
    plans = {name: RequestPlans(of_run)._in_use for name, of_run in options.items()}
    assert plans == {"zelo": True, "fists": False}
    runs = [("zelo", "offline"), ("fists", "offline"), ("zelo", "nails")]
    fingerprints = [
        bool(RunFingerprint(options[name], build_panel((judge,), {}, {}), ())._inputs)
        for name, judge in runs
    ]
    assert fingerprints == [True, False, False]


def test_a_provider_judges_by_its_plain_name(install):
    overlap = (OWN / "overlap.py").read_text()
    install("words", {"providers": {"overlap": "words_overlap:PROVIDER"}}, words_overlap=overlap)
    panel = build_panel(("overlap",), {"overlap:plain": {"power": 2}}, {})
    assert [judge.name for judge in panel] == ["overlap:plain", "overlap:contrary"]
    assert panel[0].options == {"power": 2}
    assert parse_judge("overlap:plain@http://x/v1").base_url == "http://x/v1"
    with pytest.raises(PanelError, match=r"'overlp' \(did you mean 'overlap'\?\); .*, overlap, "):
        build_panel(("overlp:plain",), {}, {})
    options = {"truth": "t", "out": "o"}
    with pytest.raises(PanelError, match="overlap:plain is a judge; write listwise:overlap:plain"):
        build_rankers(BakeoffOptions(**options, rerankers=("overlap:plain",)), {}, run_id="run")
    ranker = BakeoffOptions(**options, rerankers=("listwise:overlap:plain",))
    assert build_rankers(ranker, {}, run_id="run")[0].judge.name == "overlap:plain"


def test_a_reranker_is_a_class_or_a_provider(install):
    declared = {"longest": "ranks_all:Longest", "hosted": "ranks_all:HOSTED"}
    install("ranks", {"rerankers": declared}, ranks_all=RERANKERS)
    options = BakeoffOptions(
        truth="t",
        out="o",
        rerankers=("longest", "wide=longest", "hosted"),
        reranker_options={"wide": {"weight": 2.0}},
    )
    plain, wide, hosted = build_rankers(options, {}, run_id="run")
    assert (plain.judge.name, plain.judge.options["version"]) == ("custom:longest", "1")
    assert load_reranker(wide.judge)(**wide.judge.options["arguments"]).score("", ["ab"]) == [4.0]
    assert (hosted.judge.name, hosted.judge.options["documents"]) == ("hosted:small", "mine")
    for wrong, says in (
        (
            "longst",
            r"unknown reranker 'longst' \(did you mean 'longest'\?\); .*Class, hosted, longest",
        ),
        ("longest:x", "longest:x cannot be imported: .*, hosted, longest"),
        ("custom:none", "none is not installed on this machine"),
    ):
        with pytest.raises(PanelError, match=says):
            build_rankers(BakeoffOptions(truth="t", out="o", rerankers=(wrong,)), {}, run_id="run")
    for judge in ("longest", "hosted:small"):
        with pytest.raises(PanelError, match="is a reranker, which judges nothing"):
            build_panel((judge,), {}, {})


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (
            "import nothing_of_the_kind",
            "ModuleNotFoundError: No module named 'nothing_of_",
        ),
        ("MEASURE = 1", "broken_{n}:MEASURE must be a MeasureKind, not int"),
        ("MESURE = 1", "broken_{n} has no MEASURE"),
    ],
)
def test_one_that_is_broken_is_told_only_to_whoever_names_it(install, module, says):
    n = abs(hash(module))  # a module of this name is imported once
    install("cracked", {"measures": {"Cracked": f"broken_{n}:MEASURE"}}, **{f"broken_{n}": module})
    assert parse_measure("nDCG@10").name == "nDCG"
    with pytest.raises(MeasureError) as told:
        parse_measure("Cracked@10")
    assert str(told.value).startswith("cracked 1.0: ")
    assert says.format(n=n) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_name_of_two_packages_is_refused_and_a_built_in_one_wins(install, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {"measures": {"Twin": "twins:MEASURE", "nDCG": "twins:MEASURE"}}
    install("castor", names, twins="raise RuntimeError")
    install("pollux", {"measures": {"Twin": "twins:MEASURE"}})
    assert parse_measure("nDCG@10").name == "nDCG"
    with pytest.raises(
        MeasureError, match=r"^Twin is declared by castor and pollux; uninstall one"
    ):
        parse_measure("Twin@10")
    findings = {row["check"]: row for row in doctor(judges=["offline"], no_ray=True)}
    assert findings["measure Twin"]["state"] == findings["measure nDCG"]["state"] == "warn"
    assert findings["measure Twin"]["finding"] == "Twin is declared by castor and pollux"
    assert (
        "zelo-ray's own is used, and not that of castor 1.0" in findings["measure nDCG"]["finding"]
    )


def test_doctor_lists_what_is_installed_and_imports_nothing(install, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    install("hands", {"protocols": {"waves": "waves_none:PROTOCOL"}}, "3.1")
    cli.main(["doctor", "--judges", "offline", "--no-ray"])
    assert "protocol waves hands 3.1 (waves_none:PROTOCOL)" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_key_in_dotenv_is_taken_for_a_declared_provider_that_is_named(
    install, monkeypatch, tmp_path
):
    overlap = (OWN / "overlap.py").read_text()
    install("keys", {"providers": {"keyed": "keys_overlap:KEYED"}}, keys_overlap=overlap)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHON_DOTENV_DISABLED", raising=False)
    monkeypatch.setenv("OVERLAP_KEY", "another")
    monkeypatch.delenv("OVERLAP_KEY")
    (tmp_path / ".env").write_text("OVERLAP_KEY=one-for-tests\n")
    findings = {row["check"]: row for row in doctor(judges=["keyed:plain"], no_ray=True)}
    assert findings["keyed:plain"]["finding"] == "its price is unknown"
