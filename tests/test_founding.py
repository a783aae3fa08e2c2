"""The rows of the documents that this project was founded on.

Each by the command line, on values and files, never on words: what is shown may change, these not.
"""

import base64
import gzip
import html
import json
import re
import tomllib
from collections import Counter
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tests.fakes.rerank import Rerankers
from tests.helpers import crash
from tests.helpers.jobs import run_job

DATA = crash.ROOT / "data"
SAMPLE, QRELS, BM25 = DATA / "sample", DATA / "qrels.txt", DATA / "bm25.run"
RECORDED = ("--judges", f"recorded:{DATA / 'recordings'}")
READERS = [f"recorded:{DATA}/recordings/reader-{name}.jsonl" for name in "abc"]
QUERY = "tick-removal"


class Stage:
    """A folder, and the three providers' servers; each run is made once, when asked for."""

    def __init__(self, folder, judging):
        self.folder, self.judging = folder, judging
        self.made = set()

    def run(self, *words, status=0, **environ):
        """Run a command without any key; the JSON document that it prints."""
        environ = {**crash.bare_environment(), **environ}
        ended, printed = run_job(environ, *map(str, words), "--json")
        assert ended == status, printed
        return json.loads(printed.splitlines()[-1])

    def out(self, name, *words, **how):
        """What a command leaves in a folder of this name."""
        if name not in self.made:
            self.run(*words, "--out", self.folder / name, **how)
            self.made.add(name)
        return self.folder / name

    def write(self, name, text):
        place = self.folder / name
        place.write_text(text)
        return place

    def pools(self, name, pools):
        return self.write(f"{name}.jsonl", "".join(json.dumps(pool) + "\n" for pool in pools))

    # Runs that several cases look at

    def battles(self):
        """zELO of the sample, by recorded judges."""
        return self.out("battles", "annotate", SAMPLE, *RECORDED)

    def panel(self):
        """zELO by three providers, with the options that a user has who gives none."""
        crash.write_pools(self.folder / "pools.jsonl", 3, 12)
        return self.out("panel", "annotate", self.folder / "pools.jsonl", **self.judging)

    def grades(self):
        """Grades of the sample, with a few of people's."""
        lines = QRELS.read_text().splitlines(keepends=True)
        people = self.write("few.txt", "".join(lines[:60]))
        words = ("annotate", SAMPLE, *RECORDED, "--protocol", "graded", "--human", people)
        return self.out("grades", *words)

    def contest(self):
        """Two rankers by zELO, and what they wrote back."""
        arms = ("--runs", BM25, "--rerankers", "original", "--write-annotated")
        return self.out("contest", "bakeoff", "--truth", self.battles(), *arms)

    def duels(self):
        """Two answers to each of six questions; people say who is better."""
        rows = [
            {
                "query": {"id": f"q{n}", "query": "Why?"},
                "documents": [
                    {"id": name, "content": f"{n}, {name}: [[worth={worth}]]"}
                    for name, worth in (("ada", 1.0), ("bob", 2.2 if n % 2 else 0.1))
                ],
            }
            for n in range(6)
        ]
        head = "query_id,doc_id_a,doc_id_b,winner\n"
        better = (f"q{n},ada,bob,{'model_b' if n % 2 else 'model_a'}\n" for n in range(6))
        self.write("people.csv", head + "".join(better))
        return self.pools("duels", rows)

    def debate(self, protocol, *words):
        words = ("annotate", self.duels(), "--protocol", protocol, *words)
        return self.out(protocol, *words, **self.judging)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("founding")
    with crash.fakes(folder) as environ:
        names = [*crash.URLS.values(), "TEST_OPTION_LIMITS"]
        keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
        yield Stage(folder, {name: environ[name] for name in (*names, *keys)})


def rows(place, name):
    return pq.read_table(place / f"{name}.parquet").to_pylist()


def lines(place):
    return [json.loads(line) for line in Path(place).read_text().splitlines()]


def grades_of_people():
    return {(q, d): int(grade) for q, _, d, grade in map(str.split, QRELS.read_text().splitlines())}


# zELO


def test_four_random_cycles_are_about_eight_battles_of_each_document(stage):
    votes = rows(stage.battles(), "votes")
    assert {vote["judge"] for vote in votes} == {*READERS}
    battles = Counter()
    for vote in votes:
        battles[vote["judge"], vote["doc_id_a"]] += 1
        battles[vote["judge"], vote["doc_id_b"]] += 1
    assert len(battles) == 3 * 329
    assert sum(battles.values()) == 8 * len(battles)
    assert min(battles.values()) > 4, "each stands on many battles"
    two = stage.out("two", "annotate", SAMPLE, *RECORDED, "--cycles", 2)
    assert len(rows(two, "votes")) == len(votes) / 2


def test_the_panel_is_a_model_of_each_of_three_providers(stage):
    votes = Counter(vote["judge"] for vote in rows(stage.panel(), "votes"))
    assert votes == dict.fromkeys(crash.DEFAULT_JUDGES, 3 * 12 * 4)


def test_a_vote_has_its_order_its_preference_and_reasons(stage):
    for place in (stage.battles(), stage.panel()):
        votes = rows(place, "votes")
        swapped = [vote["swapped"] for vote in votes]
        assert 0.4 < sum(swapped) / len(swapped) < 0.6
        assert all(-1 <= vote["preference"] <= 1 and vote["reasoning"] for vote in votes)
        assert min(vote["preference"] for vote in votes) < -0.5
        assert max(vote["preference"] for vote in votes) > 0.5


def test_scores_are_real_numbers_with_errors_and_order_documents_as_people_do(stage):
    scores = rows(stage.battles(), "scores")
    assert len(scores) == 329
    assert all(0 < row["std_error"] < row["truth_error"] for row in scores)
    people, found = grades_of_people(), []
    for one in scores:
        for two in scores:
            ids = [(row["query_id"], row["doc_id"]) for row in (one, two)]
            if one["query_id"] == two["query_id"] and people[ids[0]] > people[ids[1]]:
                found.append(one["score"] > two["score"])
    assert sum(found) / len(found) > 0.85


def page(place):
    """The page that a command left, with what it holds packed."""
    text = (place / "report.html").read_text()
    packed = re.findall(r"H4sI[A-Za-z0-9+/]+=*", text)
    return "\n".join([text, *(gzip.decompress(base64.b64decode(each)).decode() for each in packed)])


def test_the_page_holds_queries_with_their_documents_and_every_vote_with_its_reasons(stage):
    held = html.unescape(page(stage.battles()))
    for vote in rows(stage.battles(), "votes"):
        assert f"{abs(vote['preference'])}" in held
        assert vote["reasoning"] in held
    for line in lines(stage.battles() / "annotated.jsonl"):
        assert line["query"]["query"] in held
        assert all(each["content"][:30] in held for each in line["documents"])


def test_explain_has_the_battles_of_a_document(stage):
    words = ("explain", stage.battles(), "--query", QUERY, "--doc", f"{QUERY}-01")
    result = stage.run(*words)["result"]
    [score] = result["scores"]
    votes = result["votes"]
    assert score["comparisons"] == len(votes) == 27
    assert all(f"{QUERY}-01" in (vote["doc_id_a"], vote["doc_id_b"]) for vote in votes)


def test_input_and_annotated_file_have_the_shape_of_zbench(stage):
    found = lines(stage.panel() / "annotated.jsonl")
    before = lines(stage.folder / "pools.jsonl")
    for annotated, pool in zip(found, before, strict=True):
        assert annotated["query"] == pool["query"]
        for document, plain in zip(annotated["documents"], pool["documents"], strict=True):
            assert isinstance(document["score"], float)
            assert {name: document[name] for name in plain} == plain


def test_texts_are_not_kept_with_every_battle(stage):
    kept = [*(stage.panel() / "replies").glob("*.jsonl")]
    assert kept
    assert not [path for path in kept if b"[[worth=" in path.read_bytes()]
    for name in ("votes", "scores"):
        assert "[[worth=" not in json.dumps(rows(stage.panel(), name))


def test_a_limit_of_documents_and_a_pilot_of_queries(stage):
    few = stage.out("few", "annotate", SAMPLE, *RECORDED, "--document-limit", 3)
    assert set(Counter(row["query_id"] for row in rows(few, "scores")).values()) == {3}
    stage.run("annotate", SAMPLE, *RECORDED, "--pilot", 2, "--out", stage.folder / "pilot")
    assert len({row["query_id"] for row in rows(stage.folder / "pilot", "votes")}) == 2


def test_the_same_command_goes_on_and_asks_nothing_twice(stage):
    place, words = stage.folder / "resumed", ("annotate", stage.folder / "pools.jsonl")
    stage.panel()
    before = len(crash.journal(stage.folder))
    stage.run(*words, "--pilot", 1, "--out", place, **stage.judging)
    stage.run(*words, "--out", place, **stage.judging)
    assert len(crash.journal(stage.folder)) - before == 3 * 12 * 4 * 3
    assert rows(place, "scores") == rows(stage.panel(), "scores")


def test_an_annotated_file_is_truth_run_and_pools_alike(stage):
    file = stage.battles() / "annotated.jsonl"
    words = ("bakeoff", "--truth", file, "--runs", f"itself={file}", "--rerankers", "original")
    place = stage.out("alike", *words, "--measures", "nDCG@10", "--pools", file)
    means = {row["run"]: row["mean"] for row in rows(place, "means")}
    assert means["itself"] == pytest.approx(1)
    assert means["original"] < 0.9
    plain = stage.out("truth-alone", *words, "--measures", "nDCG@10")
    assert rows(plain, "metrics") == rows(place, "metrics")


def test_a_leaderboard_has_ndcg_recall_and_pairs(stage):
    words = ("bakeoff", "--truth", stage.battles(), "--runs", BM25, "--rerankers", "original")
    measures = ("nDCG@10", "R(k_gt=3)@10", "Pairs")
    place = stage.out("measured", *words, "--measures", *measures)
    found = {(row["run"], row["measure"]): row["mean"] for row in rows(place, "means")}
    assert {measure for _, measure in found} == {*measures}
    assert found["bm25", "Pairs"] > found["original", "Pairs"] > 0.4
    assert {row["measure"] for row in rows(place, "metrics")} == {*measures}


def test_pairs_in_order_are_on_every_leaderboard(stage):
    assert "Pairs" in {row["measure"] for row in rows(stage.contest(), "means")}


@pytest.mark.parametrize("truth", ["people", "zelo"])
def test_the_truth_is_people_or_zelo(stage, truth):
    place = QRELS if truth == "people" else stage.battles()
    words = ("bakeoff", "--truth", place, "--pools", SAMPLE, "--runs", BM25)
    out = stage.out(f"by-{truth}", *words, "--rerankers", "original")
    means = [row for row in rows(out, "means") if "nDCG" in row["measure"]]
    best = {row["measure"]: row["run"] for row in sorted(means, key=lambda row: row["mean"])}
    assert set(best.values()) == {"bm25"}


RERANKERS = """
class Longest:
    version = "1"

    def score(self, query, documents):
        return [len(text) for text in documents]


async def longest(query, documents):
    return [len(text) for text in documents]
"""


def test_a_reranker_of_ones_own_is_a_class_or_a_function_of_a_file(stage):
    stage.write("founding_rerankers.py", RERANKERS)
    arms = (f"c={stage.folder}/founding_rerankers.py:Longest",)
    arms += (f"f={stage.folder}/founding_rerankers.py:longest",)
    words = ("bakeoff", "--truth", QRELS, "--pools", SAMPLE, "--rerankers", *arms)
    found = rows(stage.out("own", *words), "runs")
    runs = {(row["run"], row["query_id"], row["doc_id"]): row["score"] for row in found}
    for line in lines(stage.battles() / "annotated.jsonl"):
        for document in line["documents"]:
            ids = (line["query"]["id"], document["id"])
            assert runs["c", *ids] == runs["f", *ids] == len(document["content"])


IN_PYTHON = """
import zelo_ray

class Longest:
    def score(self, query, documents):
        return [len(text) for text in documents]

async def longest(query, documents):
    return [len(text) for text in documents]

async def of_one(pool: zelo_ray.RerankerInput):
    return [len(text) for text in pool.documents]

def plain(pool):
    return [len(text) for text in pool.documents]

contest = zelo_ray.bakeoff(
    truth={truth!r},
    pools={pools!r},
    rerankers={{"class": Longest, "object": Longest(), "function": longest,
               "one": of_one, "plain": plain}},
    out={out!r},
    progress=None,
)
assert contest.complete
"""


def test_a_reranker_is_a_class_an_object_or_a_function_of_python(stage):
    out = stage.folder / "python"
    program = IN_PYTHON.format(truth=str(QRELS), pools=str(SAMPLE), out=str(out))
    status, said = run_job(crash.bare_environment(), "-c", program)
    assert status is None, said
    scores = {name: {} for name in ("class", "object", "function", "one", "plain")}
    for row in rows(out, "runs"):
        scores[row["run"]][row["query_id"], row["doc_id"]] = row["score"]
    assert all(each == scores["class"] for each in scores.values())
    assert len(scores["class"]) == 329


def test_zeroentropy_is_a_hosted_reranker(stage):
    crash.write_pools(stage.folder / "hosted.jsonl", 3, 6)
    truth = "".join(f"q{q} 0 d{d} {d % 2}\n" for q in range(3) for d in range(6))
    pools, out = stage.folder / "hosted.jsonl", stage.folder / "hosted"
    words = ("--truth", str(stage.write("hosted.txt", truth)), "--pools", str(pools))
    arms = ("--rerankers", "zeroentropy:zerank-2", "original", "--out", str(out))
    with Rerankers() as server:
        there = {"ZEROENTROPY_BASE_URL": f"{server.url}/zeroentropy/v1"}
        environ = {**crash.bare_environment(), **there, "ZEROENTROPY_API_KEY": server.key}
        status, said = run_job(environ, "bakeoff", *words, *arms)
    assert status == 0, said
    found = {
        (row["query_id"], row["doc_id"]): row["score"]
        for row in rows(out, "runs")
        if row["run"] != "original"
    }
    for pool in lines(stage.folder / "hosted.jsonl"):
        worth = {
            d["id"]: float(re.search(r"worth=(.*?)]", d["content"])[1]) for d in pool["documents"]
        }
        ranked = sorted(worth, key=lambda name: -found[pool["query"]["id"], name])
        assert ranked == sorted(worth, key=lambda name: -worth[name])


def test_scores_of_rankers_are_written_beside_the_documents(stage):
    ranked = {
        (row["run"], row["query_id"], row["doc_id"]): row["score"]
        for row in rows(stage.contest(), "runs")
    }
    for run in ("bm25", "original"):
        for line in lines(stage.contest() / f"annotated/{run}.jsonl"):
            for document in line["documents"]:
                assert document["score"] == ranked[run, line["query"]["id"], document["id"]]
                assert document["content"]


# Graded


def test_a_grade_has_facets_and_a_rationale_of_each_judge(stage):
    pools = stage.folder / "graded.jsonl"
    crash.write_pools(pools, 2, 4)
    out = stage.out("asked", "annotate", pools, "--protocol", "graded", **stage.judging)
    grades = rows(out, "grades")
    assert Counter(row["judge"] for row in grades) == dict.fromkeys(crash.DEFAULT_JUDGES, 8)
    for row in grades:
        assert row["grade"] in (0, 1, 2, 3)
        assert row["facets_covered"]
        assert row["facets_missing"]
        assert row["rationale"]


def requests(stage, *words):
    """The requests that judges would be sent."""
    judge = ("--judges", "openai:gpt-6-luna")
    return stage.run("prompt", *words, *judge, "--protocol", "graded")["result"]["requests"]


def test_four_worked_examples_stand_in_an_order_of_their_own_for_each_query(stage):
    examples = {
        grade: {"document": f"A text of grade {grade}.", "reason": f"It is worth {grade}."}
        for grade in range(4)
    }
    own = stage.write("anchors.yaml", yaml.dump({"query": "an example", "grades": examples}))
    orders = set()
    queries = [line["query"]["id"] for line in lines(stage.battles() / "annotated.jsonl")]
    for query in queries[:12]:
        [request] = requests(stage, SAMPLE, "--query", query, "--anchors", own)
        places = [request["user"].index(examples[grade]["document"]) for grade in range(4)]
        assert all(examples[grade]["reason"] in request["user"] for grade in range(4))
        orders.add(tuple(sorted(range(4), key=places.__getitem__)))
    assert len(orders) > 4
    domains = [requests(stage, SAMPLE, "--anchors", name)[0]["user"] for name in ("law", "health")]
    assert domains[0] != domains[1]


def test_the_schema_is_strict_and_grades_come_last(stage):
    [request] = requests(stage, SAMPLE)
    schema = request["schema"]
    assert [*schema["properties"]] == ["facets_covered", "facets_missing", "rationale", "grade"]
    assert {*schema["required"]} == {*schema["properties"]}
    assert request["body"]["response_format"]["json_schema"]["strict"] is True


def test_long_documents_are_cut_to_a_budget_of_tokens(stage):
    text = " ".join(f"word{n}" for n in range(5000))
    pools = stage.pools(
        "long",
        [{"query": {"id": "q", "query": "what?"}, "documents": [{"id": "d", "content": text}]}],
    )
    sizes = [len(requests(stage, pools, "--document-tokens", n)[0]["user"]) for n in (100, 1000)]
    assert sizes[1] - sizes[0] > 2000
    assert len(text) > sizes[1]


def test_raters_are_calibrated_by_thurstone_with_a_few_labels_of_people(stage):
    raters = {row["judge"]: row for row in rows(stage.grades(), "raters")}
    assert {*raters} == {*READERS, "human"}
    assert all(row["spread"] > 0 and row["severity_error"] > 0 for row in raters.values())
    assert {row["measure"] for row in rows(stage.grades(), "shares")} >= {"grade"}
    plain = stage.out("plain", "annotate", SAMPLE, *RECORDED, "--protocol", "graded")
    scores = [
        {(r["query_id"], r["doc_id"]): r["score"] for r in rows(place, "scores")}
        for place in (plain, stage.grades())
    ]
    assert scores[0] != scores[1]


def test_documents_on_which_judges_split_are_marked_and_can_be_left_out(stage):
    config = stage.write("split.yaml", "ambiguous: 0.5\n")
    words = ("annotate", SAMPLE, *RECORDED, "--protocol", "graded", "--config", config)
    place, out = stage.out("split", *words), stage.folder / "sure.txt"
    scores = rows(place, "scores")
    split = {(row["query_id"], row["doc_id"]) for row in scores if row["ambiguous"]}
    assert 0 < len(split) < len(scores)
    stage.run("convert", "qrels", place, "--grades", "--without-ambiguous", "--out", out)
    kept = {(q, d) for q, _, d, _ in map(str.split, out.read_text().splitlines())}
    assert kept == {(row["query_id"], row["doc_id"]) for row in scores} - split


def test_difficulty_and_the_number_of_relevant_documents_are_slices(stage):
    words = ("bakeoff", "--truth", stage.grades(), "--runs", BM25, "--rerankers", "original")
    names = {row["slice"] for row in rows(stage.out("sliced", *words), "slices")}
    assert {name.partition(" (")[0] for name in names} >= {"difficulty", "relevant documents"}


def test_old_labels_meet_new_ones_whose_scale_differs(stage):
    binary = "".join(f"{q} 0 {d} {int(g >= 2)}\n" for (q, d), g in grades_of_people().items())
    labels = (f"old={stage.write('old.txt', binary)}", f"new={stage.grades()}/scores.parquet")
    words = (*labels, "--relevant", "old=1", "new=2", "--runs", stage.contest() / "runs.parquet")
    out = stage.out("compared", "agree", *words)
    found = [row for row in rows(out, "figures") if row["scale"] == "mean by labels"]
    board = {(row["of"], row["against"]): row["value"] for row in found}
    assert {*board} == {*product(("bm25", "original"), ("old", "new"))}
    assert all(0 <= value <= 1 for value in board.values())
    [pair] = rows(out, "effects")
    assert pair["d_a"] * pair["d_b"] > 0


def test_a_public_collection_is_named_as_what_models_may_have_read(stage):
    folder = stage.folder / "scifact"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d1", "text": "one"}\n{"_id": "d2", "text": "two"}\n'
    )
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "which?"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n")
    judged = ("--judges", "offline")
    commands = (
        ("annotate", folder, *judged, "--out", stage.folder / "noted"),
        ("agree", stage.folder / "noted", "--human", folder),
        ("probe", folder, *judged, "--out", stage.folder / "probed"),
    )
    for words, status in zip(commands, (0, 0, 3), strict=True):
        document = stage.run(*words, status=status)
        assert "public" in " ".join(document["notes"])


def test_labels_become_training_data_of_four_forms_split_by_query(stage):
    heads = {
        "rows": {"query", "document", "score", "target", "weight"},
        "pairs": {"query", "document_a", "document_b", "p", "votes"},
        "lists": {"query", "documents", "labels"},
        "triplets": {"query", "positive", "negative"},
    }
    for form, columns in heads.items():
        out = stage.folder / f"train-{form}"
        stage.run("convert", "train", stage.battles(), "--form", form, "--out", out)
        queries = []
        for split in ("train", "dev", "test"):
            examples = lines(out / f"{split}.jsonl")
            assert examples
            assert all(columns <= {*example} for example in examples)
            queries.append({example["query"] for example in examples})
        assert not queries[0] & queries[1] | queries[0] & queries[2] | queries[1] & queries[2]


# King of the hill


def answers(stage):
    rows = [
        {
            "query": {"id": f"q{n}", "query": "Why?"},
            "documents": [
                {"id": name, "content": f"{n}, {name}: [[worth={worth}]]"}
                for name, worth in zip("abcd", (1.0, 0.2, 2.2, 0.1), strict=True)
            ],
        }
        for n in range(3)
    ]
    return stage.pools("answers", rows)


def test_the_first_is_king_and_each_other_challenges_once(stage):
    words = ("annotate", answers(stage), "--protocol", "best-of")
    out = stage.out("hill", *words, **stage.judging)
    by_judge = {}
    for row in rows(out, "contests"):
        by_judge.setdefault((row["query_id"], row["judge"]), []).append(row)
    assert len(by_judge) == 3 * 3
    for contests in by_judge.values():
        contests.sort(key=lambda row: row["round"])
        assert [row["round"] for row in contests] == [1, 2, 3]
        assert [row["right_id"] for row in contests] == ["b", "c", "d"]
        kings = ["a", *(row["king_id"] for row in contests)]
        assert [row["left_id"] for row in contests] == kings[:-1]
        for row in contests:
            assert row["winner_id"] in (row["left_id"], row["right_id"], "tie")
            assert 0 <= row["confidence"] <= 1
            assert row["verdict"]
            assert row["reasoning"]
    assert {row["winner_id"] for row in rows(out, "winners")} == {"c"}
    random = stage.out("random", *words, "--order", "random", **stage.judging)
    assert len({row["left_id"] for row in rows(random, "contests") if row["round"] == 1}) > 1


def test_what_counts_is_an_instruction(stage):
    told = [
        stage.run(
            "prompt",
            answers(stage),
            "--protocol",
            "best-of",
            "--judges",
            "openai:gpt-6-luna",
            *more,
        )
        for more in ((), ("--instructions", "Brevity counts twice."))
    ]
    texts = [json.dumps(each["result"]["requests"]) for each in told]
    assert ["Brevity counts twice." in text for text in texts] == [False, True]


def test_a_file_of_criteria_is_of_grades_alone(stage):
    criteria = stage.write("criteria.yaml", "- name: exact\n  question: Is it exact?\n")
    words = ("annotate", answers(stage), "--protocol", "best-of", "--criteria", criteria)
    document = stage.run(*words, "--out", stage.folder / "criteria", status=2, **stage.judging)
    assert document["error"]["code"] == "option"


def test_answers_of_assistants_and_whole_conversations_are_judged(stage):
    for name, worth in (("red", 1.0), ("blue", 2.0)):
        turns = [
            {"qa_id": f"q{n}", "query": "Why?", "assistant": f"[[worth={worth}]] {n} by {name}"}
            for n in range(2)
        ]
        session = {"session_id": "s", "assistant_id": name, "conversation": turns}
        stage.write(f"{name}.json", json.dumps([session]))
    words = (
        "annotate",
        stage.folder / "red.json",
        stage.folder / "blue.json",
        "--protocol",
        "best-of",
    )
    out = stage.out("assistants", *words, **stage.judging)
    assert {row["winner_id"] for row in rows(out, "winners")} == {"blue"}
    turns = [
        {
            "session_id": "s1",
            "query": {"id": f"s1-{n}", "query": "And then?"},
            "documents": [
                {"id": name, "content": f"{n} [[worth={worth}]]"}
                for name, worth in (("red", 2.0), ("blue", 1.0))
            ],
        }
        for n in (1, 2)
    ]
    words = (
        "annotate",
        stage.pools("sessions", turns),
        "--protocol",
        "best-of",
        "--blocks",
        "session",
    )
    out = stage.out("blocks", *words, **stage.judging)
    [one] = {(row["query_id"], row["winner_id"]) for row in rows(out, "winners")}
    assert one == ("s1", "red")


# Debate


def test_a_debate_has_rounds_with_defences_feedback_and_scores(stage):
    for row in rows(stage.debate("samre"), "verdicts"):
        assert (
            row["rounds"]
            == len(row["score_history"])
            == len(row["feedback"])
            == len(row["arguments"])
        )
        assert 2 <= row["rounds"] <= 4, "it stops early where two rounds agree"
        assert all(len(both) == 2 and all(both) for both in row["arguments"])
        means = [
            sum(scores[side] for scores in row["score_history"]) / row["rounds"] for side in (0, 1)
        ]
        assert row["average_scores"] == pytest.approx(means)
        assert row["winner"] == ("model_b" if int(row["query_id"][1:]) % 2 else "model_a")


def test_the_strong_baseline_is_asked_as_often_as_the_debate_took(stage):
    debate = {
        (r["query_id"], r["judge"]): r["rounds"] for r in rows(stage.debate("samre"), "verdicts")
    }
    ledger = ("--ledger", stage.folder / "samre")
    strong = rows(stage.debate("baseline-strong", "--rounds", "samre", *ledger), "verdicts")
    assert {(row["query_id"], row["judge"]): row["rounds"] for row in strong} == debate


def test_the_weak_baseline_is_one_question(stage):
    weak = rows(stage.debate("baseline-weak"), "verdicts")
    assert {row["rounds"] for row in weak} == {1}
    assert {row["method"] for row in weak} == {"baseline-weak"}
    assert len(weak) == 6 * 3
    told = json.loads((stage.folder / "baseline-weak/run.json").read_text())["summary"]["notes"]
    assert any("steer" in note for note in told)


def test_agreement_with_people_is_alpha_mcc_and_a_share_with_intervals(stage):
    human = ("--human", stage.folder / "people.csv")
    out = stage.out("agreed", "agree", stage.debate("samre"), stage.debate("baseline-weak"), *human)
    named = ("alpha-nominal", "mcc", "agreement", "kappa")
    every = rows(out, "figures")
    found = {row["what"]: row for row in every if row["against"] == "human"}
    assert {*named} <= {*found}
    assert all(found[w]["low"] <= found[w]["value"] <= found[w]["high"] for w in named)
    assert any(row["what"] == "more alpha-nominal, in %" for row in every)


def test_ways_of_judging_are_compared_on_the_same_pairs_at_their_cost(stage):
    words = ("compare", stage.duels(), "--human", stage.folder / "people.csv")
    tried = ("--protocol", "samre", "--try", "protocol=baseline-weak", "protocol=baseline-strong")
    out = stage.out("worth", *words, *tried, "--rounds", "samre", **stage.judging)
    ways, found = ("samre", "baseline-weak", "baseline-strong"), rows(out, "figures")
    figures = {(row["of"], row["what"]): row for row in found}
    assert {figures[way, "concordance"]["items"] for way in ways} == {6}
    for what in ("calls", "dollars"):
        samre, weak, strong = (figures[way, what]["value"] for way in ways)
        assert strong > samre > weak > 0
    assert {figures[way, what]["value"] for way in ways for what in ("alpha", "MCC")} == {1}
    assert {row["of"] for row in found if row["what"] == "difference"} <= {*ways}


def test_ways_of_judging_leave_a_row_for_each_pair(stage):
    test_ways_of_judging_are_compared_on_the_same_pairs_at_their_cost(stage)
    items = rows(stage.folder / "worth", "items")
    assert len(items) == 6
    assert {"human", "samre", "baseline-weak"} <= {*items[0]}


def test_effect_sizes_of_every_two_runs_by_old_and_new_labels(stage):
    arms = ("--rerankers", "original", "bm25", "likelihood")
    three = stage.out("three", "bakeoff", "--truth", QRELS, "--pools", SAMPLE, *arms)
    labels = (
        f"old={QRELS}",
        f"new={stage.grades()}/scores.parquet",
        "--relevant",
        "old=2",
        "new=2",
    )
    out = stage.out("every-two", "agree", *labels, "--runs", three / "runs.parquet")
    assert len(rows(out, "effects")) == 3


# The given shape


def test_the_packages_and_the_jobs_are_those_that_were_given():
    project = tomllib.loads((crash.ROOT / "pyproject.toml").read_text())["project"]
    named = {re.match(r"[\w-]+", each)[0] for each in project["dependencies"]}
    given = {"ray", "pydantic", "openai", "anthropic", "google-genai", "pandas", "pyarrow", "numpy"}
    assert given | {"scipy", "fsspec"} <= named
    top = {"pyproject.toml", "README.md", "zelo_ray", "jobs", "cluster.yaml", "tests", "data"}
    assert top <= {path.name for path in crash.ROOT.iterdir()}
    assert {"run.py", "kubernetes"} <= {path.name for path in (crash.ROOT / "jobs").iterdir()}


def test_metrics_are_parquet_and_batches_come_to_what_calls_come_to(stage):
    pools = stage.folder / "batched.jsonl"
    crash.write_pools(pools, 2, 5)
    way = ("--mode", "batch", "--config", stage.write("poll.yaml", "batch_poll: 0.2\n"))
    online = stage.out("online", "annotate", pools, **stage.judging)
    batched = stage.out("batched", "annotate", pools, *way, **stage.judging)
    for name in ("votes.parquet", "scores.parquet", "annotated.jsonl"):
        assert (online / name).read_bytes() == (batched / name).read_bytes()
    assert {row["measure"] for row in rows(stage.contest(), "metrics")}
