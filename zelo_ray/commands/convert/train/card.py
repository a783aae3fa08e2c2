"""Write the card of training data: its splits, its scale, and how to measure what it teaches."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zelo_ray.command_options import ConvertOptions
from zelo_ray.files.storage import open_for_reading, write_text
from zelo_ray.files.wording import counted
from zelo_ray.report.command_lines import command_of

CARD = "README.md"
TEST_POOLS = "test-pools.jsonl"
_SPLIT_NAMES: Mapping[str, str] = {"train": "train", "dev": "validation", "test": "test"}
"""What Hugging Face calls the splits."""


@dataclass(slots=True)
class WrittenSplit:
    """Count the queries and examples of a split."""

    queries: int = 0
    examples: int = 0


def write_card(
    options: ConvertOptions,
    formula: str,
    splits: Mapping[str, WrittenSplit],
    shared: Mapping[str, Sequence[str]],
) -> None:
    """Write ``README.md``, whose head tells `datasets.load_dataset` which file is which split.

    Args:
        options: of ``convert train``.
        formula: how a relevance becomes a target from 0 to 1.
        splits: what was written.
        shared: splits by the id of a document that stands in more than one.
    """
    root, digest = options.out.rstrip("/"), hashlib.sha256()
    for name in splits:
        with open_for_reading(f"{root}/{name}.jsonl") as file:
            digest.update(file.read())
    lines = ["---", "configs:"]
    # The cache of the library goes by this name, and not by what the files hold.
    lines += [f"- config_name: {options.form}-{digest.hexdigest()[:12]}", "  data_files:"]
    for name in splits:
        lines += [f"  - split: {_SPLIT_NAMES[name]}", f"    path: {name}.jsonl"]
    lines += ["---", "", f"# Training data: {options.form}", ""]
    lines += [f"Made by zelo-ray of `{options.source}`. The scale from 0 to 1: {formula}.", ""]
    lines += ["| split | queries | examples |", "|---|---|---|"]
    lines += [f"| {name} | {of.queries:,} | {of.examples:,} |" for name, of in splits.items()]
    if shared:
        some = ", ".join(f"`{doc}` ({', '.join(names)})" for doc, names in [*shared.items()][:10])
        documents = counted(len(shared), "document")
        lines += ["", f"{documents} of equal text in more than one split: {some}."]
    if "test" in splits:
        measured = ("--truth", options.source, "--pools", f"{root}/{TEST_POOLS}", "--rerankers")
        command = command_of("bakeoff", *measured, "BEFORE", "AFTER", "--out", "contest")
        lines += ["", f"To measure on the test split: `{command}`"]
    write_text(root, CARD, "\n".join(lines) + "\n")
