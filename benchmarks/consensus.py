"""Do people agree with a panel that agrees? Recorded judges beside people, by level of agreement.

    python -m benchmarks.consensus [--panels 100]

It reads llmjudge2024, mtbench_human and trec_dl19: see tests/golden/SOURCES.md. For each
panel, whole and in draws of three and of five: what share of pairs (by the order of their grades,
or by votes) or of documents lies at each level, how often people say the same there, with the 95%
interval, or for draws the mean, the worst of the panels, and how many reach .97. People tie on what
they grade alike. The eight judges of DL 2019 are GPT-4, GPT-4o, and prompts of smaller models. For
MT-Bench, how often two people who both decide say the same, on the pairs that GPT-4 decides, is
what no judge can be expected to beat. About a minute.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from benchmarks.data import published, read_grades
from benchmarks.panels import Recorded, draw_panels, load
from zelo_ray.evaluation.consensus import (
    ALL,
    LEVELS,
    ORDERS,
    Consensus,
    grade_consensus,
    vote_consensus,
)
from zelo_ray.evaluation.votes import encode_votes, judge_verdicts
from zelo_ray.files.judges import read_all_judgments

CLAIM = 0.97


def graded(data: Recorded, panel: Iterable[int]) -> list[Consensus]:
    grades = data.grades[:, list(panel)].T.astype(np.int16)
    return grade_consensus(grades, data.human.astype(np.int16), data.query, 4, (2,))


def line(title: str, row: Consensus) -> None:
    same = f"{row.same:.3f} [{row.low:.3f}, {row.high:.3f}]"
    kind = f"{row.about} {row.scale}".strip()
    tied = row.tied / (row.items + row.tied)
    cells = (title, kind, row.level, f"{row.share:.3f}", same, f"{row.items:,}", f"{tied:.2f}")
    print(f"| {' | '.join(cells)} |", flush=True)


def drawn(title: str, panels: list[list[Consensus]]) -> None:
    """Print means over panels."""
    for about, scale in ((ORDERS, ""), ("grades", ">=2")):
        for level in (*LEVELS, ALL):
            rows = [
                row
                for rows in panels
                for row in rows
                if (row.about, row.scale, row.level) == (about, scale, level)
            ]
            if not rows:
                continue
            same, low, share = np.array([(row.same, row.low, row.share) for row in rows]).T
            reach = f"{(same >= CLAIM).mean():.2f}, surely {(low >= CLAIM).mean():.2f}"
            kind = f"{about} {scale}".strip()
            told = f"{same.mean():.3f} | {same.min():.3f} to {same.max():.3f} | {reach}"
            print(f"| {title} | {kind} | {level} | {share.mean():.3f} | {told} |", flush=True)


def voted(folder: Path) -> None:
    """MT-Bench: GPT-4 in both orders, and how far people agree on the same pairs."""
    found = read_all_judgments([str(folder / "gpt4_pair.jsonl")], human=str(folder / "human.jsonl"))

    votes = pa.concat_tables([found.human_votes, found.votes], promote_options="default")
    cast = encode_votes(votes, sorted(set(votes["query_id"].to_pylist())))
    said = judge_verdicts(cast)
    for row in vote_consensus(said[1:], said[0], cast.pairs[:, 0]):
        line("MT-Bench, GPT-4", row)
    decided = {key: winner != "tie" for key, _, winner in winners(folder / "gpt4_pair.jsonl")}
    people: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for key, judge, winner in winners(folder / "human.jsonl"):
        people.setdefault(key, []).append((judge, winner))
    for title, wanted in (("decides", True), ("ties", False)):
        both = [
            a == b
            for key, each in people.items()
            if decided.get(key) == wanted
            for (one, a), (other, b) in combinations(each, 2)
            if one != other and "tie" not in a + b
        ]
        print(f"two people who decide, where GPT-4 {title}: {np.mean(both):.3f} of {len(both):,}")


def battled(folder: Path) -> None:
    """GPT-4o's battles, each in both orders: people beside what it said in both, or in one."""
    human = read_grades(folder / "qrels.txt")
    kinds: dict[str, list[tuple[int, float, float]]] = {}
    queries: dict[str, int] = {}
    for text in (folder / "pairwise_gpt4o.tsv").read_text().splitlines()[1:]:
        _, query_id, winner, loser, kind = text.split("\t")
        graded = human.get(query_id, {})
        if winner in graded and loser in graded:
            people = np.sign(graded[winner] - graded[loser])
            place = queries.setdefault(query_id, len(queries))
            said = 0.0 if kind == "inconsistent_tie" else 1.0
            kinds.setdefault(kind, []).append((place, said, float(people)))
    for kind, rows in kinds.items():
        query, said, people = np.array(rows).T
        for row in vote_consensus(said[np.newaxis], people, query.astype(np.int64)):
            if row.level != ALL:
                line(f"DL 2019, GPT-4o's battles, {kind}", row)


def winners(path: Path) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Question, turn and models; who judged; who won."""
    for text in path.read_bytes().splitlines():
        row = orjson.loads(text)
        key = (str(row["question_id"]), str(row["turn"]), row["model_a"], row["model_b"])
        yield key, row["judge"], row["winner"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=100)
    flags = parser.parse_args()
    first, second = published() / "llmjudge2024", published() / "trec_dl19"
    sets = [
        load("DL 2019", sorted((second / "judges").glob("*_graded.txt")), second / "qrels.txt"),
        load(
            "LLMJudge 2024",
            sorted((first / "submissions").glob("*.txt")),
            first / "llmjudge_test_qrel_idx.txt",
        ),
    ]
    print("| panel | of | judges | share | people say the same | of so many | people tie |")
    print("|---|---|---|---:|---:|---:|---:|")
    for data in sets:
        for row in graded(data, range(len(data.judges))):
            line(f"{data.name}, {len(data.judges)} judges", row)
    battled(second)
    voted(published() / "mtbench_human")
    print("\n| panels | of | judges | share | people say the same | worst to best | reach .97 |")
    print("|---|---|---|---:|---:|---:|---:|")
    for data in sets:
        for size in (3, 5):
            panels = [graded(data, panel) for panel in draw_panels(data, size, flags.panels)]
            drawn(f"{data.name}, {flags.panels} panels of {size}", panels)


if __name__ == "__main__":
    main()
