"""Train a reranker on labels, and save it where a bake-off finds it.

    zelo-ray convert train out --form lists --out training
    python jobs/train_reranker.py training --base MODEL --out reranker
    zelo-ray bakeoff --truth ... --rerankers cross-encoder:reranker ...

``--kind`` says what is trained, and of which form of examples:

* ``cross-encoder`` (lists): a model that reads a query and a document together.
* ``bi-encoder`` (triplets): a model that embeds each text by itself.
* ``query-map`` (lists): of a bi-encoder only one matrix more, by which the vectors of queries are
  multiplied. An index of the documents' vectors stays as it is. It takes seconds once the texts
  are embedded, and holds few numbers, which suits some hundred labelled queries.

``--base`` is a folder or a name that sentence-transformers loads, or ``tiny``, with a vocabulary of
the data's own and random weights: a cross-encoder of two layers, which shows that all parts fit,
or a bi-encoder that takes the mean of its words' vectors, which learns and ranks in seconds.
Needs the extra ``train``.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset, DatasetDict, load_dataset
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
from sentence_transformers.sentence_transformer.modules import Dense, Router, StaticEmbedding
from sentence_transformers.sentence_transformer.training_args import BatchSamplers
from tokenizers import BertWordPieceTokenizer, Tokenizer
from torch import cuda
from torch.nn import Identity
from torch.nn.functional import log_softmax, normalize
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
    set_seed,
)

KINDS = ("cross-encoder", "bi-encoder", "query-map")
SCALE = 20.0  # of cosines, as in the library's losses
PULL = 0.01  # towards the map that changes nothing


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", help="what convert train --form lists or triplets wrote")
    parser.add_argument("--kind", choices=KINDS, default="cross-encoder")
    parser.add_argument("--base", required=True, help="the model to begin with, or tiny")
    parser.add_argument("--out", required=True, help="where the trained model goes")
    parser.add_argument("--epochs", type=float, default=2, help="0: save it untrained")
    parser.add_argument("--rate", type=float, default=2e-5, help="the learning rate at its highest")
    parser.add_argument("--batch", type=int, default=4, help="lists or triplets in a step")
    parser.add_argument("--tokens", type=int, default=256, help="of what a model reads at once")
    parser.add_argument("--seed", type=int, default=0)
    train(parser.parse_args())


def train(options: argparse.Namespace) -> None:
    """Train, and save the model."""
    set_seed(options.seed)
    triplets = options.kind == "bi-encoder"
    columns = ["query", "positive", "negative"] if triplets else ["query", "documents", "labels"]
    with TemporaryDirectory() as folder:
        examples = load_dataset(options.data).select_columns(columns)
        if options.kind == "query-map":
            model = train_query_map(options, examples["train"])
        else:
            model = train_encoder(options, examples, folder)
    model.save_pretrained(options.out)
    sys.stdout.write(f"The model is in {options.out}.\n")


def train_encoder(
    options: argparse.Namespace, examples: DatasetDict, folder: str
) -> CrossEncoder | SentenceTransformer:
    """Train all weights of a cross-encoder or bi-encoder by the library's trainer."""
    how = {
        "output_dir": f"{folder}/steps",
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
    trainer = build(options, examples, how, folder)
    if options.epochs:
        trainer.train()
    return trainer.model


def build_cross_encoder(
    options: argparse.Namespace, examples: DatasetDict, how: dict[str, Any], folder: str
) -> CrossEncoderTrainer:
    """Prepare LambdaLoss (Wang et al. 2018, CIKM), which weighs pairs by what they do to nDCG."""
    base = options.base
    if base == "tiny":
        base = make_tiny_model(folder, texts_of(examples["train"]), options.tokens)
    model = CrossEncoder(base, num_labels=1, max_length=options.tokens, activation_fn=Identity())
    return CrossEncoderTrainer(
        model=model,
        args=CrossEncoderTrainingArguments(**how),
        train_dataset=examples["train"],
        eval_dataset=examples.get("validation"),
        loss=LambdaLoss(model, mini_batch_size=16),
    )


def build_bi_encoder(
    options: argparse.Namespace, examples: DatasetDict, how: dict[str, Any], _: str
) -> SentenceTransformerTrainer:
    """Prepare a loss by which a query is nearer to its positive than to all else in the step."""
    if options.base == "tiny":
        words = StaticEmbedding(make_vocabulary(texts_of(examples["train"])), embedding_dim=512)
        model = SentenceTransformer(modules=[words], similarity_fn_name="cosine")
    else:
        model = load_bi_encoder(options)
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(batch_sampler=BatchSamplers.NO_DUPLICATES, **how),
        train_dataset=examples["train"],
        eval_dataset=examples.get("validation"),
        loss=MultipleNegativesRankingLoss(model),
    )


def load_bi_encoder(options: argparse.Namespace) -> SentenceTransformer:
    """Load the base; one that takes the mean of words' vectors reads texts of any length."""
    model = SentenceTransformer(options.base)
    if not isinstance(model[0], StaticEmbedding):
        model.max_seq_length = options.tokens
    return model


def train_query_map(options: argparse.Namespace, examples: Dataset) -> SentenceTransformer:
    """Learn a matrix for queries' vectors by cross-entropy of a list's labels, as shares of 1.

    Lists without a relevant document teach nothing, and are left out.
    """
    model = load_bi_encoder(options)
    lists = [x for x in examples if max(x["labels"]) > 0]
    places = {
        text: i for i, text in enumerate(dict.fromkeys(t for x in lists for t in x["documents"]))
    }
    how = {"convert_to_tensor": True, "normalize_embeddings": True, "show_progress_bar": False}
    queries = model.encode_query([x["query"] for x in lists], **how).clone()
    documents = model.encode_document(list(places), **how).clone()
    unchanged = torch.eye(queries.shape[1], device=queries.device)
    matrix = unchanged.clone().requires_grad_()
    optimizer = torch.optim.Adam([matrix], lr=options.rate)
    for _ in range(int(options.epochs)):
        for step in torch.randperm(len(lists)).split(options.batch):
            loss = PULL * (matrix - unchanged).square().sum()
            for i in step.tolist():
                labels = torch.tensor(lists[i]["labels"], device=queries.device)
                found = documents[[places[text] for text in lists[i]["documents"]]]
                scores = SCALE * found @ normalize(matrix @ queries[i], dim=0)
                loss -= (labels / labels.sum()) @ log_softmax(scores, dim=0) / len(step)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    size = len(unchanged)
    routes = {
        route: [Dense(size, size, bias=False, activation_function=Identity(), init_weight=weight)]
        for route, weight in (("query", matrix.detach()), ("document", unchanged))
    }
    model.append(Router(routes, default_route="document"))
    return model


def texts_of(examples: Iterable[dict]) -> Iterable[str]:
    """Yield the texts of all queries and documents."""
    for example in examples:
        documents = example.get("documents") or [example["positive"], example["negative"]]
        yield from (example["query"], *documents)


def make_vocabulary(texts: Iterable[str]) -> Tokenizer:
    """Take the 8,000 most common words of the texts, and their characters as parts of others.

    Always in one order: the library's own trainer breaks ties by chance, whatever the seed, so that
    random weights would be those of other words each time.
    """
    reader = BertWordPieceTokenizer()
    counts = Counter(
        word
        for text in texts
        for word, _ in reader.pre_tokenizer.pre_tokenize_str(reader.normalizer.normalize_str(text))
    )
    letters = sorted({letter for word in counts for letter in word})
    common = sorted(counts, key=lambda word: (-counts[word], word))[:8_000]
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = dict.fromkeys([*special, *letters, *(f"##{letter}" for letter in letters), *common])
    return BertWordPieceTokenizer({word: number for number, word in enumerate(words)})._tokenizer


def make_tiny_model(folder: str, texts: Iterable[str], tokens: int) -> str:
    """Write a cross-encoder with random weights and a vocabulary of the texts; return its place."""
    place = str(Path(folder) / "tiny")
    vocabulary = make_vocabulary(texts)
    tokenizer = BertTokenizerFast(tokenizer_object=vocabulary, model_max_length=tokens)
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
