"""Encoders on this machine: tiny models, made here from nothing and saved to disk."""

import asyncio
import json
import os
import warnings

import numpy as np
import pytest

from tests.fakes.rerank import rank
from tests.helpers.builders import Shelf, ask, request_of
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.errors import PanelError
from zelo_ray.protocols import advance, load_protocol
from zelo_ray.providers import Settings, build_panel, load_provider
from zelo_ray.records import Document, Pool
from zelo_ray.rerankers import build_rankers, local

pytestmark = pytest.mark.nightly

WORDS = ("how", "do", "i", "reset", "the", "garage", "door", "opener", "hold", "its", "learn")
WORDS += ("button", "bread", "is", "sold", "here")
TEXTS = ["hold its learn button", "", "bread is sold here", "reset the door opener " * 200]
POOL = Pool(
    "q1",
    "how do i reset the opener",
    tuple(Document(f"d{i}", text) for i, text in enumerate(TEXTS)),
)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A cross-encoder of one number, one of three, and a bi-encoder, with random weights."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

    root = tmp_path_factory.mktemp("models")
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *WORDS,
        "button",
        "bread",
        "is",
        "sold",
    ]
    (root / "vocab.txt").write_text("\n".join(vocabulary))
    tokenizer = BertTokenizerFast(str(root / "vocab.txt"), model_max_length=64)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"intermediate_size": 64, "max_position_embeddings": 64}
    torch.manual_seed(7)
    for name, labels in (("cross", 1), ("three", 3)):
        config = BertConfig(vocab_size=len(vocabulary), num_labels=labels, **shape)
        config.initializer_range = 1.0
        BertForSequenceClassification(config).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    config = BertConfig(vocab_size=len(vocabulary), initializer_range=1.0, **shape)
    BertModel(config).save_pretrained(root / "plain")
    tokenizer.save_pretrained(root / "plain")
    plain = Transformer(str(root / "plain"))
    pooling = Pooling(plain.get_embedding_dimension())
    SentenceTransformer(modules=[plain, pooling], device="cpu").save(str(root / "bi"))
    return root


def scores_of(kind, folder, out, **options):
    spec, fields = f"e={kind}:{folder}", {"reranker_options": {"e": {"device": "cpu", **options}}}
    found = rank([POOL], out, {}, spec, **fields)
    assert not found.failures, found.failures
    return np.array(list(found.scores["q1"].values()))


def test_a_cross_encoder_gives_its_own_numbers(folders, tmp_path):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    scores = scores_of("cross-encoder", folders / "cross", tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folders / "cross")
    model = AutoModelForSequenceClassification.from_pretrained(folders / "cross").eval()
    expected = []
    for text in TEXTS:
        pairs = [(POOL.query, text)]
        tokens = tokenizer(pairs, truncation=True, max_length=64, return_tensors="pt")
        with torch.no_grad():
            expected.append(model(**tokens).logits.item())
    assert scores == pytest.approx(expected, abs=1e-4)
    assert len(set(scores)) == 4


def test_a_bi_encoder_gives_similarities(folders, tmp_path):
    scores = scores_of("bi-encoder", folders / "bi", tmp_path)
    assert len(set(scores)) == 4
    assert np.all(np.abs(scores) <= 1 + 1e-6)


def test_a_model_that_cannot_be_loaded_ends_it(tmp_path):
    (tmp_path / "empty").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the packages think of such a folder is theirs
        found = rank([POOL], tmp_path, {}, f"e=cross-encoder:{tmp_path / 'empty'}")
    (reason,) = found.asker.disabled.values()
    assert "cannot be loaded" in reason.message
    assert "\n" not in reason.message


def test_a_folder_that_is_not_there_is_told_at_once(tmp_path):
    options = BakeoffOptions(truth="t", out="o", rerankers=(f"bi-encoder:{tmp_path}/no",))
    with pytest.raises(PanelError, match="there is no such folder"):
        build_rankers(options, {}, run_id="run")


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder"])
def test_without_the_package_the_error_names_the_extra(monkeypatch, kind):
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(PanelError, match=r"zelo-ray\[encoders\]"):
        load_provider(kind).connect(Settings())


def test_the_loop_lives_while_a_model_computes(folders):
    options = BakeoffOptions(
        truth="t", out="o", rerankers=(f"cross-encoder:{folders / 'cross'}",), document_limit=2
    )
    (arm,) = build_rankers(options, {}, run_id="run")
    assert arm.judge.options["version"]

    async def run():
        from tests.helpers.builders import request_of
        from zelo_ray.protocols.rankers import Scores

        provider = load_provider("cross-encoder").connect(Settings())
        documents = POOL.documents * 50
        request = request_of(
            judge=arm.judge, response_model=Scores, query=POOL.query, documents=documents
        )
        sending, beats = asyncio.create_task(provider.send(request)), 0
        while not sending.done():
            await asyncio.sleep(0.001)
            beats += 1
        await provider.aclose()
        return beats, await sending

    beats, answer = asyncio.run(run())
    assert answer.status == "ok"
    assert beats > 1


# On a panel


def judge_pool(folders, out, **fields):
    names = (f"cross-encoder:{folders / 'cross'}", f"bi-encoder:{folders / 'bi'}")
    options = {name: {"device": "cpu"} for name in names}
    pool = Pool("q1", POOL.query, tuple(d for d in POOL.documents if d.content))
    asker = ask([pool], out, {}, judges=names, judge_options=options, **fields)
    assert not asker.stopped, asker.stopped
    panel, own = asker.job
    protocol = load_protocol(own.protocol)
    step = advance(protocol.rounds(pool, panel, own), Shelf(*asker.books))
    return asker, step, protocol.fit([step.judgments], own)[0]


@pytest.mark.parametrize(
    "fields", [{}, {"answer": "token"}, {"protocol": "listwise-votes", "group": 3}]
)
def test_encoders_vote_by_the_order_of_their_scores(folders, tmp_path, fields):
    asker, step, _ = judge_pool(folders, tmp_path / "out", **fields)
    assert {row.status for row in asker.books} == {"ok"}
    assert {(row.dollars, row.input_tokens) for row in asker.books} == {(0.0, 0)}
    for kind, folder in (("cross-encoder", "cross"), ("bi-encoder", "bi")):
        scores = scores_of(kind, folders / folder, tmp_path / kind)
        by_doc = {d.id: score for d, score in zip(POOL.documents, scores, strict=True)}
        votes = [vote for vote in step.judgments if vote.judge.startswith(kind)]
        assert len(votes) == 3
        for vote in votes:
            gap = by_doc[vote.doc_id_b] - by_doc[vote.doc_id_a]
            assert np.sign(vote.preference) == np.sign(gap)


def test_the_size_of_an_encoders_vote_follows_from_its_slope(folders):
    name = f"cross-encoder:{folders / 'cross'}"
    found = {}
    for slope in (None, 0.5, 2.0):
        (judge,) = build_panel((name,), {name: {"device": "cpu", "slope": slope}}, {})
        request = request_of(judge=judge, query=POOL.query, documents=POOL.documents[::2])
        connection = load_provider("cross-encoder").connect(Settings())
        answer = asyncio.run(connection.send(request))
        found[slope] = np.arctanh(np.clip(json.loads(answer.text)["preference"], -0.999, 0.999))
    assert found[None] == pytest.approx(found[0.5])
    assert abs(found[2.0]) > abs(found[0.5])


def test_an_encoder_gives_no_grade_and_no_reasons(folders, tmp_path):
    name = f"cross-encoder:{folders / 'cross'}"
    given = {"judges": (name,), "judge_options": {name: {"device": "cpu"}}}
    asker = ask([POOL], tmp_path, {}, protocol="graded", **given)
    assert {row.status for row in asker.books} == {"failed"}
    assert "they give no grades" in asker.books[0].reason


def test_a_judge_knows_its_model_by_the_models_files(folders, tmp_path):
    name = f"cross-encoder:{folders / 'cross'}"
    (judge,) = build_panel((name,), {}, {})
    assert judge.options["version"] == local.fingerprint_of(judge)
    (mine,) = build_panel((name,), {name: {"version": "mine"}}, {})
    assert mine.options["version"] == "mine"
    with pytest.raises(PanelError, match="no such folder"):
        build_panel((f"cross-encoder:{tmp_path}/none",), {}, {})
    with pytest.raises(PanelError, match="name a model: cross-encoder:MODEL"):
        build_panel(("cross-encoder",), {}, {})
    with pytest.raises(PanelError, match="which judges nothing"):
        build_panel(("cohere:rerank-v4",), {}, {})


def test_two_documents_of_one_text_are_a_tie(folders):
    name = f"cross-encoder:{folders / 'cross'}"
    (judge,) = build_panel((name,), {name: {"device": "cpu"}}, {})
    connection = load_provider("cross-encoder").connect(Settings())
    for text in TEXTS:
        same = (Document("a", text), Document("b", text))
        request = request_of(judge=judge, query=POOL.query, documents=same)
        answer = asyncio.run(connection.send(request))
        assert json.loads(answer.text)["preference"] == 0
