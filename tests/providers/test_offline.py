"""The offline judges: classic scorers, against hand computation and others' code."""

import asyncio
import json
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel
from sklearn.feature_extraction.text import TfidfVectorizer

from tests.helpers.builders import judge_of, request_of
from zelo_ray.protocols import grading as sheets
from zelo_ray.protocols import zelo
from zelo_ray.providers import Refused, Settings, load_provider, offline
from zelo_ray.records import Document

CASES = Path(__file__).parents[1] / "golden" / "cases"
QUERY = "How do I reset my garage door opener?"
GOOD = "To reset the garage door opener, hold its learn button until the light goes out."
BAD = "Our bakery opens at seven; sourdough bread is sold out before noon on most days."


def preference(model, first, second, query=QUERY):
    documents = (Document("a", first), Document("b", second))
    request = request_of(judge=judge_of(f"offline:{model}"), query=query, documents=documents)
    answer = asyncio.run(load_provider("offline").connect(Settings()).send(request))
    assert answer.status == "ok"
    verdict = zelo.Preference.model_validate_json(answer.text)
    assert verdict.reasoning
    return verdict.preference


MODELS = offline.PROVIDER.models
TEXTS = [GOOD, BAD, "reset", "A garage is a building.", f"{GOOD} {BAD}", "车库门", "door " * 90, ""]
NOTHING = ("?!", "的", "\N{GRINNING FACE}", "of the")


def test_preferences_turn_with_the_order():
    for model in MODELS:
        assert preference(model, GOOD, BAD) < -0.2
        for first in TEXTS:
            for second in TEXTS:
                assert preference(model, first, second) == -preference(model, second, first)
        for query in NOTHING:
            assert -1 <= preference(model, GOOD, BAD, query=query) <= 1
            assert all(0 <= grading(model, text, query).grade <= 3 for text in ("", "?!", GOOD))


def cases_of(name):
    """Queries, their documents, and which of these is relevant."""
    lines = (CASES / f"{name}.jsonl").read_text().splitlines()
    qrels = (line.split() for line in (CASES / f"{name}.qrels").read_text().splitlines())
    relevant = {query: doc for query, _, doc, grade in qrels if grade == "1"}
    for pool in map(json.loads, lines):
        documents = {document["id"]: document["content"] for document in pool["documents"]}
        yield pool["query"]["query"], documents, relevant[pool["query"]["id"]]


OTHERS = [
    ("自転車のパンクを直す方法", "タイヤを外してパンクを直す。", "朝ごはんの作り方を紹介します。"),
    ("ｶﾒﾗの修理", "壊れたｶﾒﾗを修理する店。", "朝ごはんを食べる。"),
    ("자전거타이어교체방법", "자전거의 타이어를 교체하려면 바퀴를 뗀다", "오늘 날씨가 좋다"),
    ("วิธีเปลี่ยนยางจักรยาน", "ถอดล้อจักรยานออกแล้วเปลี่ยนยางใหม่", "วันนี้อากาศดีมาก"),
    ("របៀបប្តូរកង់", "ដោះកង់ចេញហើយប្តូរ", "អាកាសធាតុល្អ"),
    ("दाँत का दर्द", "दाँत के दर्द में लौंग का तेल लगाएँ", "दिन का समय कैसे देखें"),
    ("to\u0308ne", "die töne der geige", "die tonne der firma"),
]


@pytest.mark.parametrize("model", MODELS)
def test_words_are_found_in_scripts_without_blanks_and_with_vowel_signs(model):
    score = offline._JUDGES[model].score
    for name in ("bm25-zh", "bm25-hi"):
        for query, documents, relevant in cases_of(name):
            scores = dict(zip(documents, score(query, [*documents.values()]), strict=True))
            assert max(scores, key=scores.get) == relevant
            assert list(scores.values()).count(scores[relevant]) == 1
    for query, good, bad in OTHERS:
        best, worst = score(query, [good, bad])
        assert best > worst
        assert preference(model, good, bad, query=query) < 0


def test_bm25_is_what_another_implementation_computes():
    """bm25s with the same tokens and k1, b; one query word at a time, to lend it our weights."""
    bm25s = pytest.importorskip("bm25s")
    documents = [GOOD, BAD + " The door of the garage was open.", "reset " * 5 + "door"]
    tokens = [list(offline._stems(document)) for document in documents]
    theirs = np.zeros(len(documents))
    for stem, word in offline._query_words(QUERY):
        index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        index.index(tokens, show_progress=False)
        holding = sum(stem in each for each in tokens)
        if not holding:
            continue
        idf = math.log(1 + (len(tokens) - holding + 0.5) / (holding + 0.5))
        # Lucene leaves out the factor k1 + 1, which changes no order; the book has it.
        theirs += index.get_scores([stem]) / idf * offline.rarity(word) * (1.2 + 1)
    assert offline.bm25(QUERY, documents) == pytest.approx(theirs.tolist(), rel=1e-5)


def test_likelihood_by_hand():
    """Three words, of which "reset" stands twice in the document: (2 + mu p) / (4 + mu)."""
    document, mu = "reset the door reset", 300
    expected = [
        math.log((count + mu * offline.frequency(word)) / (4 + mu))
        for word, count in {"reset": 2, "garage": 0, "door": 1}.items()
    ]
    (found,) = offline.likelihood("reset garage door", [document])
    assert found == pytest.approx(sum(expected) / 3)


def test_chargram_is_the_cosine_of_character_grams():
    """Without hashing: what the hashes merge is too little to be seen."""
    query, document = "garage door opener", "opening garages, doorways"
    count = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), use_idf=False)
    one, other = count.fit_transform([query, document.replace(",", "")])
    (found,) = offline.chargram(query, [document])
    assert found == pytest.approx((one @ other.T).toarray()[0, 0], abs=1e-3)
    assert offline.chargram(query, [query]) == pytest.approx([1.0])


def grading(model, document, query=QUERY):
    documents = (Document("a", document),)
    request = request_of(
        judge=judge_of(f"offline:{model}"),
        query=query,
        documents=documents,
        response_model=sheets.Grading,
    )
    answer = asyncio.run(load_provider("offline").connect(Settings()).send(request))
    assert answer.status == "ok"
    return sheets.Grading.model_validate_json(answer.text)


@pytest.mark.parametrize("model", MODELS)
def test_the_more_a_document_covers_the_higher_its_grade(model):
    texts = [BAD, "The garage is cold.", "A garage door", "Reset the door of the garage", GOOD]
    grades = [grading(model, text).grade for text in texts]
    assert grades == sorted(grades)
    assert (grades[0], grades[-1]) == (0, 3)
    assert len(set(grades)) >= 3
    found = grading(model, "Resetting garage doors")
    assert {"reset", "garage", "door"} <= set(found.facets_covered)
    assert "opener" in found.facets_missing
    assert grading(model, "Resetting garage doors") == found


def test_what_compares_nothing_is_refused():
    class Other(BaseModel):
        colour: str

    two = (Document("a", GOOD), Document("b", BAD))
    for fields in ({"response_model": Other, "documents": two}, {"documents": two[:1]}):
        request = request_of(judge=judge_of("offline:bm25"), query=QUERY, **fields)
        with pytest.raises(Refused, match="cannot argue"):
            asyncio.run(offline.Offline().send(request))


def test_threads_that_stem_at_once_find_the_same_words():
    """Judges and rerankers of one process compute in threads of their own."""
    ends = ("ing", "ed", "ization", "fulness", "ies", "ational", "ously", "ement")
    words = [
        f"{begin}{end}" for begin in ("relat", "hop", "condit", "vi", "operat") for end in ends
    ]
    alone = [*map(offline._stem, words)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            offline._stem.cache_clear()
            turned = [words[n:] + words[:n] for n in range(0, len(words), len(words) // 8)]
            with ThreadPoolExecutor(len(turned)) as pool:
                found = [
                    *pool.map(
                        lambda order: dict(zip(order, map(offline._stem, order), strict=True)),
                        turned,
                    )
                ]
            assert all([each[word] for word in words] == alone for each in found)
    finally:
        sys.setswitchinterval(before)
