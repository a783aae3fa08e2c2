"""Training data in the libraries that it is for, and a reranker that learns from it."""

import json
import math
import random
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tests.helpers import crash
from tests.helpers.builders import convert
from tests.helpers.crash import ROOT, bare_environment

pytestmark = pytest.mark.nightly

TRAINER = ROOT / "jobs" / "train_reranker.py"
ADJECTIVES = {"splendid": 3, "decent": 2, "meagre": 1, "dreadful": 0}
BASE = """
import json, re
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

torch.manual_seed(1)
rows = map(json.loads, open("lists/train.jsonl"))
words = {w for row in rows for text in (row["query"], *row["documents"]) for w in text.split()}
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
open("vocab.txt", "w").write("\\n".join([*special, *sorted(words)]))
tokenizer = BertTokenizerFast("vocab.txt", model_max_length=16)
config = BertConfig(vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_labels=1,
                    num_attention_heads=4, intermediate_size=512, max_position_embeddings=16)
BertForSequenceClassification(config).save_pretrained("base")
tokenizer.save_pretrained("base")
"""
LOSSES = """
import json
from datasets import load_dataset
from sentence_transformers import (
    SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments,
)
from sentence_transformers.cross_encoder import (
    CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments, losses,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

how = dict(output_dir="steps", max_steps=2, report_to="none", save_strategy="no",
           dataloader_pin_memory=False, disable_tqdm=True)
ranker, encoder, found = CrossEncoder("base"), SentenceTransformer("base"), {}
by_form = {
    "rows": (losses.BinaryCrossEntropyLoss, ["query", "document", "target"]),
    "pairs": (losses.MarginMSELoss, ["query", "document_a", "document_b", "margin"]),
    "lists": (losses.LambdaLoss, ["query", "documents", "labels"]),
    "triplets": (MultipleNegativesRankingLoss, ["query", "positive", "negative"]),
}
for form, (loss, columns) in by_form.items():
    inputs = load_dataset(form).select_columns(columns)
    if columns[-1] in ("target", "margin"):
        inputs = inputs.rename_column(columns[-1], "label")
    model, trainer, arguments = ranker, CrossEncoderTrainer, CrossEncoderTrainingArguments
    if form == "triplets":
        model, trainer = encoder, SentenceTransformerTrainer
        arguments = SentenceTransformerTrainingArguments
    done = trainer(model=model, args=arguments(**how), train_dataset=inputs["train"],
                   loss=loss(model)).train()
    found[form] = {"examples": {k: len(v) for k, v in inputs.items()},
                   "loss": done.training_loss}
print(json.dumps(found))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Pools whose documents' adjectives say how good they are, with people's grades of them."""
    monkeypatch.chdir(tmp_path)
    rng, pools, qrels = random.Random(1), [], []
    for q in range(90):
        topic, documents = f"topic{q}", []
        for d, adjective in enumerate(rng.sample([*ADJECTIVES, *ADJECTIVES], 8)):
            noun = rng.choice(("answer", "reply", "text"))
            documents.append({"id": f"d{d}", "content": f"a {adjective} {noun} on {topic}"})
            qrels.append(f"q{q} 0 d{d} {ADJECTIVES[adjective]}\n")
        query = {"id": f"q{q}", "query": f"what is best on {topic}"}
        pools.append(json.dumps({"query": query, "documents": documents}))
    (tmp_path / "pools.jsonl").write_text("\n".join(pools) + "\n")
    (tmp_path / "people.qrels").write_text("".join(qrels))
    return tmp_path


def make_data(form):
    words = f"people.qrels --pools pools.jsonl --form {form} --out {form} --splits 50 10 40"
    return convert("train", *words.split())


def python(place, *words):
    environ = {**bare_environment(), "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hub")}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=place,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def contest(place, kind, *names):
    """Means of nDCG@10 by a bake-off of models, and its comparisons."""
    words = [
        *("bakeoff", "--truth", str(place / "people.qrels"), "--measures", "nDCG@10"),
        *("--pools", str(place / "lists" / "test-pools.jsonl"), "--out", str(place / "contest")),
        *("--rerankers", *(f"{name}={kind}:{place / name}" for name in names)),
    ]
    status, printed = crash.completed([*crash.COMMAND, *words], bare_environment())
    assert status == 0, printed
    means = pq.read_table(place / "contest" / "means.parquet").to_pylist()
    found = {row["run"]: row["mean"] for row in means if row["measure"] == "nDCG@10"}
    return found, pq.read_table(place / "contest" / "comparisons.parquet").to_pylist()


def test_each_form_is_loaded_by_datasets_and_taken_by_its_loss(place):
    """Two steps of the library's trainer by each."""
    for form in ("rows", "pairs", "lists", "triplets"):
        make_data(form)
    python(place, "-c", BASE)
    (place / "steps.py").write_text(LOSSES)
    found = json.loads(python(place, "steps.py").splitlines()[-1])
    for form, told in found.items():
        assert math.isfinite(told["loss"])
        for split, count in told["examples"].items():
            file = place / form / f"{ {'validation': 'dev'}.get(split, split) }.jsonl"
            assert count == len(file.read_text().splitlines()) > 0


AGAIN = """
from datasets import load_dataset
print(len(load_dataset("lists")["train"]))
"""


def test_a_folder_that_is_written_again_is_not_taken_from_a_cache(place):
    """The cache of `datasets` knows a folder by its name, and by what the card calls its data."""
    (place / "again.py").write_text(AGAIN)
    for share in (50, 80):
        words = "people.qrels --pools pools.jsonl --form lists --out lists --splits"
        convert("train", *words.split(), str(share), "0", str(100 - share))
        lines = (place / "lists" / "train.jsonl").read_text().splitlines()
        assert python(place, "again.py").split()[-1] == str(len(lines))


def test_a_cross_encoder_that_was_trained_wins_on_queries_that_it_has_not_seen(place):
    """Random weights order documents at random; after a few steps they know good adjectives."""
    make_data("lists")
    python(place, "-c", BASE)
    words = ["lists", "--base", "base", "--tokens", "16", "--seed", "1", "--out", "after"]
    python(place, str(TRAINER), *words, "--epochs", "8", "--rate", "1e-3")
    found, (comparison,) = contest(place, "cross-encoder", "base", "after")
    assert found["base"] < 0.95 < found["after"]
    assert comparison["queries"] > 30
    assert comparison["p_holm"] < 0.05


def test_the_recipe_before_and_after(place):
    """A bi-encoder of random vectors of words learns from triplets; a bake-off measures both."""
    for form in ("triplets", "lists"):
        make_data(form)
    encoder = ["--kind", "bi-encoder", "--base", "tiny", "--rate", "0.1", "--batch", "32"]
    python(place, str(TRAINER), "triplets", *encoder, "--epochs", "0", "--out", "before")
    python(place, str(TRAINER), "triplets", *encoder, "--epochs", "3", "--out", "after")
    found, (comparison,) = contest(place, "bi-encoder", "before", "after")
    assert found["before"] < 0.95 < found["after"]
    assert comparison["p_holm"] < 0.05
