"""Write the card of training data: what is in it, who judged, how far to trust it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa

from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.commands.annotate.report.judge_agreement import mean_agreement, measured_judges
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.commands.convert.train.examples import ExampleOptions
from zelo_ray.formats.files import open_for_reading
from zelo_ray.formats.judgments.qrels import digest_judgments
from zelo_ray.formats.results import write_text
from zelo_ray.formats.run_record import record_of_results, run_directory
from zelo_ray.formats.wording import counted
from zelo_ray.options import ConvertOptions
from zelo_ray.reports.command_lines import command_of
from zelo_ray.reports.source import Source

CARD = "README.md"
TEST_POOLS = "test-pools.jsonl"
_SPLIT_NAMES: Mapping[str, str] = {"train": "train", "dev": "validation", "test": "test"}
"""What Hugging Face calls the splits."""
_MEANING: Mapping[str, str] = {
    "query_id": "id of the query",
    "doc_id": "id of the document",
    "query": "text of the query",
    "document": "text of the document",
    "documents": "texts of all its judged documents",
    "positive": "text of the better document",
    "negative": "text of the other",
    "score": "relevance as it was judged",
    "target": "relevance on a scale from 0 to 1",
    "labels": "relevance of each document on a scale from 0 to 1",
    "p": "the chance that A is better: the mean of the judges' votes, or by scores",
    "votes": "how many votes `p` is the mean of; 0 for pairs by scores",
    "margin": "relevance of the better (or first) document minus that of the other",
    "gap_in_errors": "the margin in its standard errors",
    "std_error": "the standard error of the score, about people where the run has one",
    "weight": "the share of the variance that is no error, from 0 to 1",
    "weights": "of each document, the share of the variance that is no error, from 0 to 1",
    "run": "the run that orders the two the other way",
    "rank_positive": "its rank of the better document",
    "rank_negative": "its rank of the other",
}
_INPUTS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "rows": (("query", "document", "target"), "target", "CrossEncoder: BinaryCrossEntropyLoss"),
    "pairs": (
        ("query", "document_a", "document_b", "margin"),
        "margin",
        "CrossEncoder or SentenceTransformer: MarginMSELoss",
    ),
    "lists": (("query", "documents", "labels"), "labels", "CrossEncoder: LambdaLoss, RankNetLoss"),
    "triplets": (
        ("query", "positive", "negative"),
        "",
        "SentenceTransformer: MultipleNegativesRankingLoss, TripletLoss",
    ),
}
"""By form: the columns that a loss of sentence-transformers takes, the label, and such losses."""


@dataclass(slots=True)
class WrittenSplit:
    """Count the queries and examples of a split, and name the columns of the examples."""

    queries: int = 0
    examples: int = 0
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Describe the data that was written, and the judgments that it was made of."""

    options: ConvertOptions
    example_options: ExampleOptions
    splits: Mapping[str, WrittenSplit]
    qrels: pa.Table
    shared: Mapping[str, list[str]]
    """splits by the id of a document that stands in more than one"""
    ending: str


def write_card(data: TrainingData) -> None:
    """Write ``README.md``, whose head tells `datasets.load_dataset` which file is which split."""
    parts = [
        _head(data),
        f"# Training data: {data.options.form}\n\nMade by zelo-ray of `{data.options.source}`.",
        _describe_splits(data),
        _describe_judges(data),
        _describe_columns(data),
        _describe_use(data),
    ]
    write_text(data.options.out.rstrip("/"), CARD, "\n\n".join(parts) + "\n")


def _head(data: TrainingData) -> str:
    files = "\n".join(
        f"  - split: {_SPLIT_NAMES[name]}\n    path: {name}.{data.ending}" for name in data.splits
    )
    # The cache of the library goes by this name, and not by what the files hold.
    name = f"{data.options.form}-{_hash_files(data)}"
    return f"---\nconfigs:\n- config_name: {name}\n  data_files:\n{files}\n---"


def _hash_files(data: TrainingData) -> str:
    """Hash the files of all splits."""
    digest = hashlib.sha256()
    for name in data.splits:
        with open_for_reading(f"{data.options.out.rstrip('/')}/{name}.{data.ending}") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()[:12]


def _describe_splits(data: TrainingData) -> str:
    rows = "\n".join(
        f"| {name} | {split.queries:,} | {split.examples:,} |"
        for name, split in data.splits.items()
    )
    shares = "/".join(f"{share:g}" for share in data.options.splits)
    text = (
        f"| split | queries | examples |\n|---|---|---|\n{rows}\n\n"
        f"A hash of a query's text decides on its split ({shares}): equal queries are in one, and "
        "more queries move none."
    )
    if data.shared:
        some = ", ".join(
            f"`{doc_id}` ({', '.join(names)})" for doc_id, names in [*data.shared.items()][:10]
        )
        text += (
            f"\n\n{counted(len(data.shared), 'document')} of equal text in more than one split: "
            f"{some}."
        )
    return f"## Splits\n\n{text}"


def _describe_judges(data: TrainingData) -> str:
    """Describe who judged, how far the judges agree, and how large errors are."""
    errors = data.qrels["std_error"].to_numpy()
    errors = errors[np.isfinite(errors)]
    relevance = data.qrels["relevance"].to_numpy()
    scale = f"{relevance.min():.2f} to {relevance.max():.2f}, standard deviation"
    lines = [
        f"{len(relevance):,} judged documents, relevance {scale} {relevance.std():.2f}",
        f"digest of the judgments: `{digest_judgments(data.qrels)}`",
    ]
    if errors.size:
        low, middle, high = np.quantile(errors, (0.1, 0.5, 0.9))
        lines.append(
            f"standard errors: median {middle:.2f}, nine in ten below {high:.2f}, "
            f"one in ten below {low:.2f}"
        )
    else:
        lines.append("standard errors are unknown")
    if data.options.unjudged is not None:
        lines.append(f"documents that nobody judged count as {data.options.unjudged:g}")
    out = run_directory(data.options.source)
    if run := record_of_results(out):
        lines = [*_describe_run(out, run), *lines]
    listed = "\n".join(f"* {line}" for line in lines)
    return f"## Judgments\n\n{listed}\n\nThe licence of the texts is theirs; none is given here."


def _describe_run(out: str, run: Mapping[str, Any]) -> list[str]:
    results = AnnotateResults(Source(out, ANNOTATE_REPORT.rows), run)
    judges, summary = measured_judges(results), results.summary
    work = f"{counted(summary.judgments, 'judgment')}, {counted(summary.failures, 'failure')}"
    lines = [
        f"protocol: `{run['options'].get('protocol')}`",
        f"panel: {', '.join(f'`{judge}`' for judge in judges) or 'unknown'}",
        f"{work}, ${summary.dollars_in_all:.2f}",
    ]
    agreement, items = mean_agreement(results)
    if not isnan(agreement):
        what = (
            "mean correlation of two judges' grades"
            if results.gradings.counts
            else ("mean share of pairs on which two judges prefer the same document")
        )
        lines.append(f"{what}: {agreement:.2f} (at least {items:,} in common)")
    return lines


def _describe_columns(data: TrainingData) -> str:
    names = next(split.columns for split in data.splits.values() if split.columns)
    rows = "\n".join(f"| `{name}` | {_MEANING[name]} |" for name in names if name in _MEANING)
    options = data.example_options
    notes = [f"The scale from 0 to 1: {options.scale.formula}."]
    if data.options.form in ("triplets", "hard"):
        unit = "standard errors of the gap" if options.gap_in_errors else "points of relevance"
        notes.append(f"The smallest gap is {options.min_gap:g} {unit}.")
    if data.options.form == "pairs":
        notes.append(
            "Pairs are the battles that judges fought."
            if options.from_battles
            else "Pairs are all pairs of a query's judged documents."
        )
    if options.per_query:
        notes.append(f"At most {options.per_query:,} of a query are drawn (seed {options.seed}).")
    return f"## Columns\n\n| column | holds |\n|---|---|\n{rows}\n\n{' '.join(notes)}"


def _describe_use(data: TrainingData) -> str:
    names, label, losses = _INPUTS.get(data.options.form, _INPUTS["triplets"])
    rename = f'.rename_column("{label}", "label")' if label and label != "labels" else ""
    return (
        "## Use\n\n```python\nfrom datasets import load_dataset\n\n"
        f'examples = load_dataset("{data.options.out.rstrip("/").rsplit("/", 1)[-1]}")\n'
        f"inputs = examples.select_columns({[*names]}){rename}\n```\n\n"
        f"For sentence-transformers, `inputs` has the columns of {losses}."
        f"{_describe_measuring(data)}"
    )


def _describe_measuring(data: TrainingData) -> str:
    if "test" not in data.splits:
        return ""
    place = f"{data.options.out.rstrip('/')}/{TEST_POOLS}"
    command = command_of(
        *("bakeoff", "--truth", data.options.source, "--pools", place),
        *("--rerankers", "BEFORE", "AFTER", "--out", "contest"),
    )
    return (
        f"\n\nOn the queries of the test split, before and after training:\n\n```sh\n{command}\n```"
    )
