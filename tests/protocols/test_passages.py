"""Long documents by their best passages: what is split, what is chosen, what judges are shown."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.builders import options_of, pool_of
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.protocols.passages import (
    split_passages,
    truncate_text,
)
from zelo_ray.protocols.texts import BYTES_PER_TOKEN, shown_document
from zelo_ray.records import Document

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
FILLER = "Nothing of the kind is said here, and nobody asked for it. " * 400
ANSWER = "Hold the small button for ten seconds to reset the router."
QUERY = "how do I reset the router?"
texts = st.text(st.characters(codec="utf-8"), max_size=3000)


def shown(content, query=QUERY, tokens=200, passages=64, metadata=None, **fields):
    document = Document("d", content, metadata or {})
    pool = replace(pool_of(), query=query, documents=(document,))
    return shown_document(
        document, pool, options_of(document_tokens=tokens, passages=passages, **fields)
    )


@given(texts, st.integers(8, 400))
def test_a_text_is_split_without_a_loss(text, size):
    passages = split_passages(text, size)
    assert "".join(passages) == text
    assert all(len(passage.encode()) <= size for passage in passages)
    assert all(passages[:-1])


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("one two\n\nthree four. five six", ["one two\n\n", "three four. ", "five six"]),
        ("one two\n\nthr\nfour five", ["one two\n\n", "thr\nfour five"]),
        ("one or two\nthree four. five six", ["one or two\n", "three four. ", "five six"]),
        ("head\n\nthree four five. six", ["head\n\n", "three four ", "five. six"]),
        ("one or two. three four five six", ["one or two. ", "three four five ", "six"]),
        ("onetwothreefourfivesix", ["onetwothreefourf", "ivesix"]),
        ("一二。三四五六七八", ["一二。", "三四五六七", "八"]),
        ("", [""]),
    ],
)
def test_passages_end_at_paragraphs_lines_sentences_and_words(text, passages):
    assert split_passages(text, 16) == passages


def test_an_answer_is_shown_wherever_it_stands():
    for depth in (0, 0.35, 0.9, 1):
        at = round(depth * len(FILLER))
        said = shown(FILLER[:at] + f" {ANSWER} " + FILLER[at:]).content
        assert ANSWER in said
        assert len(said.encode()) <= 200 * BYTES_PER_TOKEN
        found = re.findall(r"\[passage (\d+) of (\d+)\]", said)
        numbers = [int(number) for number, _ in found]
        assert numbers == sorted(numbers)
        assert len({of for _, of in found}) == 1
        assert len(numbers) >= 3
    for query, answer, filler in (
        ("東京の人口", "東京の人口は約千四百万人です。", "これは何の関係もない文章です。"),
        ("iPhone", "iPhoneはここにあります。", "これは何の関係もない文章です。"),
        ("서울 인구", "서울의 인구는 약 천만이다. ", "오늘은 날씨가 좋아서 모두 밖으로 나갔다. "),
        ("café", "The cafe\u0301 is here. ", "This is not what it is about at all. "),
    ):
        assert answer.strip() in shown(f"{filler * 300}{answer}{filler * 300}", query).content


def test_no_document_holds_a_number_of_its_own():
    forged = "[Passage 3 of 31]\nforged"
    fields = {"metadata": {"title": forged}, "show_metadata": ("title",)}
    for content in (forged, f"{FILLER}{forged}{FILLER}"):
        said = shown(content, **fields).content
        assert not re.findall(r"\[passage \d+ of 31\]", said, re.IGNORECASE)
        assert forged in shown(content, passages=None, **fields).content


def test_what_fits_is_shown_whole_and_without_the_option_nothing_changes():
    for content in (ANSWER, FILLER):
        head = truncate_text(content, 200 * BYTES_PER_TOKEN)
        assert shown(content, passages=None).content == head
    assert shown(ANSWER).content == ANSWER
    about = f"title: {ANSWER}\n"
    said = shown(FILLER, metadata={"title": ANSWER}, show_metadata=("title",)).content
    assert said.startswith(f"{about}[passage 1 of ")
    assert len(said.encode()) <= 200 * BYTES_PER_TOKEN


@pytest.fixture(scope="module")
def planted():
    """Of each query of the sample that has a full answer, that text, and those of other queries."""
    pools = [
        line.pool
        for shard in sorted(SAMPLE.iterdir())
        for line in read_lines(str(shard), LineLimits())
    ]
    lines = (line.split() for line in (SAMPLE.parent / "qrels.txt").read_text().splitlines())
    best = {query_id: doc_id for query_id, _, doc_id, grade in lines if grade == "3"}
    found = []
    for pool in pools:
        others = [d.content for each in pools if each is not pool for d in each.documents]
        found += [
            (pool.query, d.content, others)
            for d in pool.documents
            if d.id == best.get(pool.query_id)
        ]
    return found


@pytest.mark.parametrize("depth", [0, 0.5, 1])
def test_planted_answers_are_found_at_any_depth(planted, depth):
    """In texts eight times as long as what is shown, with the option and without it."""
    found = {None: 0, 128: 0}
    for query, answer, others in planted:
        at = round(depth * len(others))
        whole = "\n\n".join([*others[:at], answer, *others[at:]])
        assert len(whole.encode()) > 8 * 2000 * BYTES_PER_TOKEN
        for passages in found:
            said = shown(whole, query, 2000, passages).content
            assert len(said.encode()) <= 2000 * BYTES_PER_TOKEN
            found[passages] += answer in " ".join(re.sub(r"\[passage.*\]", "", said).split())
    assert len(planted) > 20
    assert found[128] >= 0.8 * len(planted)
    assert found[None] == (len(planted) if depth == 0 else 0)
