"""Train a reranker on labels, and save it where a bake-off finds it.

    zelo-ray convert train out --form lists --out training
    python jobs/train_reranker.py training --base MODEL --out reranker
    zelo-ray bakeoff --truth ... --rerankers cross-encoder:reranker ...

A ``cross-encoder`` learns from lists, a ``bi-encoder`` from triplets. ``--base`` is a folder or a
name that sentence-transformers loads, or for a bi-encoder ``tiny``: the mean of its words' random
vectors, of a vocabulary of the data's own, which learns and ranks in seconds. Needs the extra
``train``.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable
from tempfile import TemporaryDirectory
from typing import Any

from datasets import DatasetDict, load_dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.cross_encoder import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
)
from sentence_transformers.cross_encoder.losses import LambdaLoss
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sentence_transformers.sentence_transformer.training_args import BatchSamplers
from tokenizers import BertWordPieceTokenizer, Tokenizer
from torch import cuda
from torch.nn import Identity
from transformers import set_seed

COLUMNS = {
    "cross-encoder": ["query", "documents", "labels"],
    "bi-encoder": ["query", "positive", "negative"],
}


def main() -> None:
    """Read the command line, train, and save the model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", help="what convert train --form lists or triplets wrote")
    parser.add_argument("--kind", choices=[*COLUMNS], default="cross-encoder")
    parser.add_argument("--base", required=True, help="the model to begin with, or tiny")
    parser.add_argument("--out", required=True, help="where the trained model goes")
    parser.add_argument("--epochs", type=float, default=2, help="0: save it untrained")
    parser.add_argument("--rate", type=float, default=2e-5, help="the learning rate at its highest")
    parser.add_argument("--batch", type=int, default=4, help="lists or triplets in a step")
    parser.add_argument("--tokens", type=int, default=256, help="of what a model reads at once")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    set_seed(options.seed)
    examples = load_dataset(options.data).select_columns(COLUMNS[options.kind])
    with TemporaryDirectory() as folder:
        how = {
            "output_dir": folder,
            "num_train_epochs": options.epochs,
            "per_device_train_batch_size": options.batch,
            "learning_rate": options.rate,
            "warmup_steps": 0.1,  # a share of all steps
            "dataloader_pin_memory": cuda.is_available(),
            "seed": options.seed,
            "save_strategy": "no",
            "eval_strategy": "epoch" if "validation" in examples else "no",
            "report_to": "none",
        }
        build = build_bi_encoder if options.kind == "bi-encoder" else build_cross_encoder
        trainer = build(options, examples, how)
        if options.epochs:
            trainer.train()
        trainer.model.save_pretrained(options.out)
    sys.stdout.write(f"The model is in {options.out}.\n")


def build_cross_encoder(
    options: argparse.Namespace, examples: DatasetDict, how: dict[str, Any]
) -> CrossEncoderTrainer:
    """Prepare LambdaLoss (Wang et al. 2018, CIKM), which weighs pairs by what they do to nDCG."""
    size = {"max_length": options.tokens, "activation_fn": Identity()}
    model = CrossEncoder(options.base, num_labels=1, **size)
    return CrossEncoderTrainer(
        model=model,
        args=CrossEncoderTrainingArguments(**how),
        train_dataset=examples["train"],
        eval_dataset=examples.get("validation"),
        loss=LambdaLoss(model, mini_batch_size=16),
    )


def build_bi_encoder(
    options: argparse.Namespace, examples: DatasetDict, how: dict[str, Any]
) -> SentenceTransformerTrainer:
    """Prepare a loss by which a query is nearer to its positive than to all else in the step."""
    if options.base == "tiny":
        words = StaticEmbedding(make_vocabulary(examples["train"]), embedding_dim=512)
        model = SentenceTransformer(modules=[words], similarity_fn_name="cosine")
    else:
        model = SentenceTransformer(options.base)
        if not isinstance(model[0], StaticEmbedding):  # which reads texts of any length
            model.max_seq_length = options.tokens
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(batch_sampler=BatchSamplers.NO_DUPLICATES, **how),
        train_dataset=examples["train"],
        eval_dataset=examples.get("validation"),
        loss=MultipleNegativesRankingLoss(model),
    )


def make_vocabulary(examples: Iterable[dict]) -> Tokenizer:
    """Take the 8,000 most common words of the texts, and their characters as parts of others.

    Always in one order: the library's own trainer breaks ties by chance, whatever the seed, so that
    random weights would be those of other words each time.
    """
    reader = BertWordPieceTokenizer()
    texts = (text for row in examples for text in (row["query"], row["positive"], row["negative"]))
    plain = (reader.normalizer.normalize_str(text) for text in texts)
    counts = Counter(w for text in plain for w, _ in reader.pre_tokenizer.pre_tokenize_str(text))
    letters = sorted({letter for word in counts for letter in word})
    common = sorted(counts, key=lambda word: (-counts[word], word))[:8_000]
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = dict.fromkeys([*special, *letters, *(f"##{letter}" for letter in letters), *common])
    return BertWordPieceTokenizer({word: number for number, word in enumerate(words)})._tokenizer


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
