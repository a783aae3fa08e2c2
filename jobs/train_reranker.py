"""Train a reranker on lists of labelled documents, and save it where a bake-off finds it.

    zelo-ray convert train out --form lists --out training
    python jobs/train_reranker.py training --base MODEL --out reranker
    zelo-ray bakeoff --truth ... --rerankers cross-encoder:reranker ...

``--base`` is a folder or a name that `sentence_transformers.CrossEncoder` loads, or ``tiny``: two
layers with random weights and a vocabulary of the data's own, which shows that all parts fit, and
no more. Needs the extra ``train``.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from datasets import load_dataset
from sentence_transformers.cross_encoder import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
)
from sentence_transformers.cross_encoder.losses import LambdaLoss
from tokenizers import BertWordPieceTokenizer
from torch import cuda
from torch.nn import Identity
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
    set_seed,
)


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", help="what convert train --form lists wrote")
    parser.add_argument("--base", required=True, help="the model to begin with, or tiny")
    parser.add_argument("--out", required=True, help="where the trained model goes")
    parser.add_argument("--epochs", type=float, default=2, help="0: save it untrained")
    parser.add_argument("--rate", type=float, default=2e-5, help="the learning rate at its highest")
    parser.add_argument("--lists", type=int, default=4, help="lists of documents in a step")
    parser.add_argument("--tokens", type=int, default=256, help="of a query and a document")
    parser.add_argument("--seed", type=int, default=0)
    train(parser.parse_args())


def train(options: argparse.Namespace) -> None:
    """Train by LambdaLoss (Wang et al. 2018, CIKM), which weighs pairs by what they do to nDCG."""
    set_seed(options.seed)
    examples = load_dataset(options.data).select_columns(["query", "documents", "labels"])
    with TemporaryDirectory() as folder:
        base = options.base
        if base == "tiny":
            base = make_tiny_model(folder, texts_of(examples["train"]), options.tokens)
        model = CrossEncoder(
            base, num_labels=1, max_length=options.tokens, activation_fn=Identity()
        )
        arguments = CrossEncoderTrainingArguments(
            output_dir=f"{folder}/steps",
            num_train_epochs=options.epochs,
            per_device_train_batch_size=options.lists,
            learning_rate=options.rate,
            warmup_steps=0.1,  # a share of all steps
            dataloader_pin_memory=cuda.is_available(),
            seed=options.seed,
            save_strategy="no",
            eval_strategy="epoch" if "validation" in examples else "no",
            report_to="none",
        )
        trainer = CrossEncoderTrainer(
            model=model,
            args=arguments,
            train_dataset=examples["train"],
            eval_dataset=examples.get("validation"),
            loss=LambdaLoss(model, mini_batch_size=16),
        )
        if options.epochs:
            trainer.train()
    model.save_pretrained(options.out)
    sys.stdout.write(f"The trained model is in {options.out}.\n")


def texts_of(examples: Iterable[dict]) -> Iterable[str]:
    """Yield the texts of all queries and documents."""
    for example in examples:
        yield example["query"]
        yield from example["documents"]


def make_tiny_model(folder: str, texts: Iterable[str], tokens: int) -> str:
    """Write a cross-encoder with random weights and a vocabulary of the texts; return its place."""
    place = str(Path(folder) / "tiny")
    words = BertWordPieceTokenizer()
    words.train_from_iterator(texts, vocab_size=8_000, show_progress=False)
    tokenizer = BertTokenizerFast(tokenizer_object=words._tokenizer, model_max_length=tokens)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=tokens,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
