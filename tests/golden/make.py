"""Pack the figures that others published for the tests that compare with them.

    python -m tests.golden.make FOLDER

FOLDER holds a copy of each source in a folder of its own; SOURCES.md says where it comes from and
what its licence is. Ids, grades, votes, runs and expected values are packed as they are. Texts are
not: a stand-in that names its document, query or answer takes the place of each.
"""

import csv
import io
import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent

AS_THEY_ARE = {
    "cranfield": ("qrels_graded_0to3.txt",),
    "evalica_fixtures": (
        *("LICENSE", "codings.csv"),
        *("simple.csv", "simple-golden.csv", "food.csv", "food-golden.csv"),
    ),
    "llmjudge2024": (
        *("LICENSE", "submissions/*.txt"),
        *("llmjudge_test_qrel_idx.txt", "published_agreement.csv"),
    ),
    "mtbench_human": ("LICENSE", "human.jsonl", "gpt4_pair.jsonl"),
    "trec_dl19": (
        *("qrels.txt", "official_ndcg_cut_10.csv", "runs_top10/*.run", "runs_top100/*.run"),
        *("judges/*.txt", "pairwise_gpt4o.tsv"),
    ),
    "trec_eval_fixtures": (
        *("LICENSE.md", "qrels.test", "qrels-302.test"),
        *("results.test", "results-302.test", "results.trunc"),
        *("out.test.a", "out.test.aq", "out.test.meas_params"),
    ),
}


def queries(text: str) -> Iterator[str]:
    """Lines of an id and a question."""
    for number, _ in csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE):
        yield f"{number}\tWhat is question {number}?"


def documents(text: str) -> Iterator[str]:
    """Documents by their ids; one without a text stays without."""
    for line in text.splitlines():
        found = json.loads(line)
        number = found["docid"]
        yield json.dumps({"docid": number, "text": f"Text {number}." if found["text"] else ""})


def questions(text: str) -> Iterator[str]:
    """Questions of several turns."""
    for line in text.splitlines():
        found = json.loads(line)
        number = found["question_id"]
        turns = [f"What is turn {i} of {number}?" for i, _ in enumerate(found["turns"], 1)]
        yield json.dumps({**found, "turns": turns})


def answers(text: str) -> Iterator[str]:
    """Models' answers to these; an empty one stays empty."""
    for line in text.splitlines():
        found = json.loads(line)
        number, model = found["question_id"], found["model_id"]
        (choice,) = found["choices"]
        told = [
            f"{model} says this in turn {i} of {number}." if said.strip() else said
            for i, said in enumerate(choice["turns"], 1)
        ]
        choices = [{"index": 0, "turns": told}]
        yield json.dumps({"question_id": number, "model_id": model, "choices": choices})


WITHOUT_TEXTS: dict[str, Callable[[str], Iterator[str]]] = {
    "cranfield/docs.jsonl": documents,
    "cranfield/queries.tsv": queries,
    "trec_dl19/passages.jsonl": documents,
    "trec_dl19/queries.tsv": queries,
    "mtbench_human/question.jsonl": questions,
    "mtbench_human/model_answer/*.jsonl": answers,
}


def members(folder: Path, source: str) -> Iterator[tuple[str, bytes]]:
    """The name in the archive and the content of each file of a source."""
    for pattern in AS_THEY_ARE[source]:
        for path in sorted(folder.glob(f"{source}/{pattern}")):
            yield str(path.relative_to(folder)), path.read_bytes()
    for pattern, stand_in in WITHOUT_TEXTS.items():
        if pattern.startswith(f"{source}/"):
            for path in sorted(folder.glob(pattern)):
                lines = stand_in(path.read_text("utf-8"))
                yield str(path.relative_to(folder)), "".join(f"{x}\n" for x in lines).encode()


def main() -> None:
    """Write one archive for each source."""
    folder = Path(sys.argv[1])
    for source in AS_THEY_ARE:
        target = HERE / f"{source}.tar.xz"
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for name, data in members(folder, source):
                entry = tarfile.TarInfo(name)  # neither a date nor an owner: the same bytes again
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        print(f"{target.name}: {target.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
