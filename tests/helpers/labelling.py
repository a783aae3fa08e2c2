"""A sample of `label` as it lies in its directory, without a contest; and its page, served."""

import contextlib
import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zelo_ray import cli
from zelo_ray.command_options import LabelOptions
from zelo_ray.commands.label.page import PAIR_RUBRIC, RUBRIC
from zelo_ray.commands.label.run import open_queue
from zelo_ray.commands.label.server import serve_page
from zelo_ray.files.labels import PersonsAnswer

AT = "2026-01-01T00:00:00+00:00"


def sample_at(out, drawn, *, text="", overlap=0.0, pairs=False):
    """A drawn sample of documents ``doc-0`` and so on of three queries; the directory.

    Or of pairs of ``doc-0`` and ``other-0`` and so on.
    """
    rng = np.random.default_rng(0)
    out.mkdir(parents=True, exist_ok=True)
    columns = {
        "query_id": [f"q{n % 3}" for n in range(drawn)],
        "doc_id": [f"doc-{n}" for n in range(drawn)],
        "size": rng.uniform(0.1, 1, drawn),
        "priority": np.sort(rng.uniform(0.1, 9, drawn))[::-1],
        "query": [f"query {n % 3}?" for n in range(drawn)],
        "document": [f"text {n} {text}" for n in range(drawn)],
    }
    if pairs:
        columns |= {"doc_id_a": columns.pop("doc_id"), "document_a": columns.pop("document")}
        columns |= {"doc_id_b": [f"other-{n}" for n in range(drawn)]}
        columns |= {"document_b": [f"other {n}" for n in range(drawn)]}
    file, unit = ("pairs.parquet", "pair") if pairs else ("documents.parquet", "document")
    pq.write_table(pa.table(columns), out / file)
    about = {"kind": "label", "unit": unit, "top": 3, "seed": 0, "overlap": overlap}
    about["rubric"] = PAIR_RUBRIC if pairs else RUBRIC
    about |= {"measure": "nDCG@10", "rankers": ["a", "b"], "pools": [], "documents": drawn}
    about |= {"contest": "contest", "stages": [{"labels": drawn, "at": AT}], "show_query": []}
    about["truth"] = {"place": "truth", "digest": "", "columns": []}
    (out / "label.json").write_text(json.dumps(about))
    return out


@contextlib.contextmanager
def serving(out):
    """The page of a sample, served by a thread of this process: its queue and its address."""
    with (
        open_queue(LabelOptions(out=str(out)), print) as queue,
        serve_page(queue, "again", "then") as url,
    ):
        yield queue, url


def sample(out, sizes, priorities, answers, **about):
    """A directory of ``label`` with documents d0, d1 ... of query q, by priority."""
    out.mkdir(exist_ok=True)
    ids = [f"d{n}" for n in range(len(sizes))]
    columns = {"query_id": ["q"] * len(ids), "doc_id": ids}
    columns |= {"size": np.array(sizes, float), "priority": np.array(priorities, float)}
    pq.write_table(pa.table(columns), out / "documents.parquet")
    about = {"top": 3, "stages": [{"labels": 2, "at": AT}], **about}
    (out / "label.json").write_text(json.dumps(about))
    lines = [
        PersonsAnswer(AT, who, ("q", doc_id), *more).to_json_line()
        for who, doc_id, *more in answers
    ]
    (out / "answers.jsonl").write_bytes(b"".join(lines))
    return str(out)


def sheet(out, file, capsys, *words):
    """Write a sheet by the command; its rows."""
    assert cli.main(["label", "--out", str(out), "--csv", str(file), *words]) == 0
    capsys.readouterr()
    with file.open(encoding="utf-8-sig", newline="") as text:
        return list(csv.DictReader(text))


def back(out, file, rows, capsys, *words, mark=","):
    """Read a sheet of these rows by the command; exit status, and what was said."""
    with file.open("w", encoding="utf-8-sig", newline="") as text:
        writer = csv.DictWriter(text, [*rows[0]], delimiter=mark)
        writer.writeheader()
        writer.writerows(rows)
    status = cli.main(["label", "--out", str(out), "--read", str(file), *words])
    told = capsys.readouterr()
    return status, told.out + told.err
