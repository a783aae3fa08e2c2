"""Make pools and people's votes of MT-Bench, as inputs of annotate, agree and compare.

* llamahub: FILE is LlamaHub's MtBenchHumanJudgementDataset (LlamaIndex's
  `LabelledPairwiseEvaluatorDataset`): ``{"examples": [...]}`` with two answers each, and the share
  of people who prefer the first. A score from .4 to .6 is a tie. Each row is a pool of its own.
* fastchat: FILE is a folder with FastChat's ``question.jsonl`` and ``model_answer/``, and the
  ``human.jsonl`` of lmsys/mt_bench_human_judgments. A pool holds two answers that people compared,
  in a turn; a later turn's answers are the whole conversation, as the people saw it.

In LlamaHub's file a tie counts as a vote for the second answer: where both are at hand, take
FastChat's. ``--rows 300`` draws rows as `rows.sample(n=300, random_state=42)` of pandas does, by
which tylerburleigh.com (12 January 2025) drew its 300 of LlamaHub's 1,204.
Run: python -m benchmarks.mt_bench llamahub|fastchat FILE --out FOLDER [--rows N]
It writes FOLDER/pools.jsonl and FOLDER/votes.jsonl.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from zelo_ray.files.conversations import join_turns
from zelo_ray.files.pools import pool_row, to_line, write_lines
from zelo_ray.records import Document, Pool

SEED = 42
"""The seed of the post's draw."""
_WON = {"model_a": -1, "model_b": 1}


@dataclass(frozen=True)
class Compared:
    """Two answers that people compared, and their votes; negative ones prefer the first."""

    pool: Pool
    votes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, preference: float, **more: Any) -> None:
        a, b = (document.id for document in self.pool.documents)
        ids = {"query_id": self.pool.query_id, "doc_id_a": a, "doc_id_b": b}
        self.votes.append({**ids, "preference": preference, **more})


def read_llamahub(file: Path) -> list[Compared]:
    """Read the rows of LlamaHub's file, in their order."""
    compared = []
    for row, example in enumerate(json.loads(file.read_text())["examples"]):
        a, b = (
            Document(example[f"{name}_by"]["model_name"], example[name])
            for name in ("answer", "second_answer")
        )
        both = Compared(Pool(f"{row}:{a.id}:{b.id}", example["query"], (a, b)))
        share = example["reference_score"]
        both.add(0 if 0.4 <= share <= 0.6 else -1 if share > 0.6 else 1)
        compared.append(both)
    return compared


def read_turns(folder: Path) -> list[Pool]:
    """Read a pool for each of FastChat's questions and turns, with all models' answers."""
    models: dict[str, dict[Any, list[str]]] = {}
    for file in sorted((folder / "model_answer").glob("*.jsonl")):
        for row in _rows(file):
            answers = models.setdefault(row["model_id"], {})
            answers[row["question_id"]] = row["choices"][0]["turns"]
    pools = []
    for row in _rows(folder / "question.jsonl"):
        question = row["question_id"]
        for turn in range(1, len(row["turns"]) + 1):
            replies = {
                model: answers[question][:turn]
                for model, answers in models.items()
                if answers[question][turn - 1].strip()
            }
            query, led = join_turns(row["turns"][:turn], [*replies.values()])
            pools.append(Pool(f"{question}-{turn}", query, tuple(map(Document, replies, led))))
    return pools


def read_fastchat(folder: Path) -> list[Compared]:
    """Read each two answers that people compared; A is the A of the first vote on the two.

    Pairs with an empty answer are left out.
    """
    pools = {pool.query_id: pool for pool in read_turns(folder)}
    compared: dict[tuple[str, frozenset[str]], Compared] = {}
    for row in _rows(folder / "human.jsonl"):
        a, b, turn = row["model_a"], row["model_b"], f"{row['question_id']}-{row['turn']}"
        answers = {document.id: document for document in pools[turn].documents}
        if not {a, b} <= answers.keys():
            continue
        pool = Pool(f"{turn}:{a}:{b}", pools[turn].query, (answers[a], answers[b]))
        both = compared.setdefault((turn, frozenset((a, b))), Compared(pool))
        sign = 1 if both.pool.documents[0].id == a else -1
        both.add(sign * _WON.get(row["winner"], 0), judge=row["judge"])
    return [*compared.values()]


def draw(compared: Sequence[Compared], number: int) -> list[Compared]:
    """Draw so many rows, in the order in which pandas draws them."""
    rows = pd.DataFrame({"row": range(len(compared))})
    return [compared[row] for row in rows.sample(n=number, random_state=SEED)["row"]]


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_text().splitlines())


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=["llamahub", "fastchat"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int)
    flags = parser.parse_args(words)
    read = read_llamahub if flags.form == "llamahub" else read_fastchat
    compared = read(flags.file)
    if flags.rows:
        compared = draw(compared, flags.rows)
    votes = [vote for both in compared for vote in both.votes]
    write_lines(f"{flags.out}/pools.jsonl", (to_line(pool_row(both.pool)) for both in compared))
    write_lines(f"{flags.out}/votes.jsonl", (json.dumps(vote).encode() for vote in votes))
    print(f"{len(compared):,} pools and {len(votes):,} votes: {flags.out}")


if __name__ == "__main__":
    main()
