"""Unpack what others published, from tests/golden/*.tar.xz, for all benchmarks that read it.

    python -m benchmarks.data FOLDER    # unpack it there, to look at it

tests/golden/SOURCES.md says what each collection is. Without FOLDER a benchmark has it for itself.
"""

import atexit
import csv
import hashlib
import sys
import tarfile
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path

from zelo_ray.records import Vote

Grades = dict[str, dict[str, int]]

_ARCHIVES = Path(__file__).parents[1] / "tests" / "golden"


def unpack(folder: Path) -> None:
    """Unpack all collections into a folder."""
    for archive in sorted(_ARCHIVES.glob("*.tar.xz")):
        with tarfile.open(archive) as files:
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            files.extractall(folder, **safely)  # the filter came with Python 3.11.4


@cache
def published() -> Path:
    """Return a folder of all collections, which ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="zelo-ray-published-")
    atexit.register(folder.cleanup)
    unpack(Path(folder.name))
    return Path(folder.name)


def read_grades(path: Path) -> Grades:
    """Read a file in the form of qrels: grades from 0 to 3 by query and document."""
    grades: Grades = defaultdict(dict)
    for line in path.read_text().splitlines():
        query_id, _, doc_id, grade = line.split()
        grades[query_id][doc_id] = min(3, max(0, int(float(grade))))
    return grades


def read_battles() -> dict[str, list[Vote]]:
    """Read the battles of GPT-4o on DL 2019, by query; one that changed with the order is a tie."""
    votes: dict[str, list[Vote]] = defaultdict(list)
    with (published() / "trec_dl19" / "pairwise_gpt4o.tsv").open() as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            a, b = sorted((row["winner"], row["loser"]))
            won = -1.0 if a == row["winner"] else 1.0
            preference = 0.0 if row["order_consistency"] == "inconsistent_tie" else won
            votes[row["qid"]].append(Vote(row["qid"], a, b, "gpt-4o", preference, False, "", ""))
    return votes


def few(votes: list[Vote], battles: float, seed: int) -> list[Vote]:
    """So many battles a document, in the order of a hash, and no document much above the others."""
    fought: dict[str, int] = defaultdict(int)
    pairs: set[tuple[str, str]] = set()
    taken = []
    size = len({doc_id for vote in votes for doc_id in (vote.doc_id_a, vote.doc_id_b)})

    def drawn(vote: Vote) -> bytes:
        words = f"{seed}:{vote.query_id}:{vote.doc_id_a}:{vote.doc_id_b}"
        return hashlib.sha256(words.encode()).digest()

    for vote in sorted(votes, key=drawn):
        a, b = pair = vote.doc_id_a, vote.doc_id_b
        if pair in pairs or max(fought[a], fought[b]) >= 2 * battles:
            continue
        pairs.add(pair)
        fought[a] += 1
        fought[b] += 1
        taken.append(vote)
        if len(taken) >= battles * size:
            break
    return taken


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
