"""One small file of every kind that a user may bring, made in a folder, the same each time.

All of them speak of the same 12 queries and 72 documents (`base/`), but for the cases in
`golden/cases`, which are as they were found. Results of commands are in `golden/results.tar.xz`.
"""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CASES = Path(__file__).parent / "golden" / "cases"
RESULTS = CASES.with_name("results.tar.xz")
BASE = "base"
"""The folder of what commands are given beside the file that is tried."""
_ANNOTATED = "zelo lean graded zelo-and-graded best-of samre offline baseline-strong baseline-weak"
_RESULTS = [*_ANNOTATED.split(), "contest", "labels", "agree-votes"]
_UNLIKE_INPUT = "report kin slices comparisons holes consensus shares metrics systems"
"""Files (without their endings) of results that are as little input as others that are tried."""
_AT = "2026-03-01T12:00:00+00:00"
_TYPES = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
_WORDS = {
    "models": ("model_a", "tie", "model_b"),
    "letters": ("A", "tie", "B"),
    "sides": ("left", "tie", "right"),
    "numbers": ("1", "tie", "2"),
    "firsts": ("first", "tie", "second"),
    "arena": ("model_a", "tie (bothbad)", "model_b"),
    "brackets": ("[[A]]", "[[C]]", "[[B]]"),
}
"""Words for who won: the first, nobody, or the second."""
_TABLES = {
    "rows": {
        "rows-without-ids": "query, text",
        "rows-with-scores": "query_id, query, doc_id, text, score",
        "rows-other-names": "query_id>Query ID, query>Query-Text, doc_id>DocNo, text>Passage",
        "rows-strange-names": "query>prompt, text>html",
        "rows-two-texts": "query, text>passage, text>body",
        "rows-of-ids": "query_id, doc_id",
        "rows-of-ids-and-queries": "query_id, query, doc_id",
        "rows-of-ids-and-texts": "query_id, doc_id, text",
        "rows-with-grades": "query_id, query, doc_id, text, grade",
        "rows-with-labels": "query, text>document, grade>label",
        "quepid-ratings": "query, doc_id>docid, grade>rating",
        "quepid-snapshot": "query>Query Text, doc_id>Doc ID, rank>Doc Position, grade>Rating",
    },
    "runs": {
        "run-of-ranks": "query_id, doc_id, rank",
        "run-pyterrier": "query_id>qid, doc_id>docno, rank, score, query",
        "run-other-names": "query_id>Query_ID, doc_id>Doc_ID, score>Score",
    },
    "judgments": {
        "judgments-score-and-grade": "query_id, doc_id, score, grade",
        "judgments-capitals": "query_id>Query_ID, doc_id>Doc_ID, grade>Grade",
        "judgments-other-names": "query_id>qid, doc_id>docno, grade>relevance",
        "labels-a-column-a-person": "query_id, doc_id, grade>ann, grade>bob",
    },
}
"""By group, CSV files of these names, and the columns of each."""
_TREC_RUN = "query_id Q0 doc_id rank score mine"
_TREC_QRELS = "query_id 0 doc_id grade"
Row = Mapping[str, Any]
Content = str | bytes | pa.Table
Files = Mapping[str, Content]


def write_files(folder: Path) -> dict[str, str]:
    """Write all files below a folder; return the path of each, and the group that it is of."""
    with tarfile.open(RESULTS) as archive:
        record = {m.name: archive.extractfile(m).read().decode() for m in archive}
    _write_base(folder, record)
    sample = _Sample(record)
    groups: dict[str, str] = {}
    for group, make in _GROUPS.items():
        for path, content in make(sample).items():
            if "/" in path:  # a file of a folder, which is tried as a whole
                groups.setdefault(path.partition("/")[0], group)
            else:
                groups[path] = group
            _write(folder / path, content)
    for case in sorted(CASES.iterdir()):
        place = folder / f"case-{case.name}"
        shutil.copytree(case, place) if case.is_dir() else shutil.copy(case, place)
        groups[place.name] = "cases"
    for name in _RESULTS:
        _write_results(folder / name, name, record)
        groups[name] = "results"
    groups |= dict.fromkeys(_files_of_results(folder), "results")
    groups |= {"shards/*.jsonl": "pools", "no-such-file.jsonl": "refused"}
    return groups


def _files_of_results(folder: Path) -> Iterator[str]:
    """Yield one file of each name in the results, the one of the protocol that is about it."""
    seen = set[str]()
    for name in _RESULTS[:-1]:
        for file in sorted((folder / name).iterdir()):
            if file.name not in seen and file.stem not in _UNLIKE_INPUT.split():
                seen.add(file.name)
                yield f"{name}/{file.name}"


def _write(place: Path, content: Content) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, pa.Table):
        pq.write_table(content, place)
    else:
        place.write_bytes(content.encode() if isinstance(content, str) else content)


def _write_base(folder: Path, record: Mapping[str, str]) -> None:
    base = folder / BASE
    for name in ("pools.jsonl", "people.qrels", "votes.jsonl", "runs/a.run", "runs/b.run"):
        _write(base / name.rpartition("/")[2], record[f"{name}.txt"])
    sample = _Sample(record)
    _write(base / "corpus.jsonl", _lines(sample.corpus))
    _write(base / "queries.jsonl", _lines(sample.queries))
    for name in ("graded", "zelo", "contest", "labels"):
        _write_results(base / name, name, record)


def _write_results(folder: Path, name: str, record: Mapping[str, str]) -> None:
    """Write the results of a command again that were recorded as texts."""
    for path, text in record.items():
        place = path.removesuffix(".txt")
        if not place.startswith(f"{name}/"):
            continue
        file = folder / place.partition("/")[2]
        if place.endswith(".parquet"):
            _write(file, _table(text))
        elif place.endswith("answers.jsonl"):
            _write(file, _lines({"at": _AT, **json.loads(line)} for line in text.splitlines()))
        else:
            _write(file, text.replace('"pools.jsonl"', f'"{BASE}/pools.jsonl"'))


def _table(text: str) -> pa.Table:
    types, *rows = map(json.loads, text.splitlines())
    return pa.Table.from_pylist(rows, pa.schema({n: _type(of) for n, of in types.items()}))


def _type(of: str) -> pa.DataType:
    inner = re.fullmatch(r"list<element: (.+)>", of)
    return pa.list_(pa.field("element", _type(inner[1]))) if inner else _TYPES[of]


class _Sample:
    """The queries, documents, grades, ranks and votes that all files speak of."""

    def __init__(self, record: Mapping[str, str]) -> None:
        self.record = record
        self.pools = [json.loads(line) for line in record["pools.jsonl.txt"].splitlines()]
        judged = (line.split() for line in record["people.qrels.txt"].splitlines())
        self.grades = {(query, doc): int(grade) for query, _, doc, grade in judged}
        self.votes = [json.loads(line) for line in record["votes.jsonl.txt"].splitlines()]
        self.lists = [(p["query"]["id"], p["query"]["query"], p["documents"]) for p in self.pools]
        self.queries = [{"_id": query_id, "text": query} for query_id, query, _ in self.lists]
        """Queries as BEIR has them."""
        self.corpus = [
            {"_id": d["id"], "title": "", "text": d["content"]}
            for *_, documents in self.lists
            for d in documents
        ]
        """Documents as BEIR has them."""

    def rows(self, names: str, **more: Callable[[Row], Any]) -> list[Row]:
        """Return a row for each document of a query, with columns of these names.

        Names are roles, or ``role>name``; values of ``more`` are made of all roles.
        """
        roles = [
            {
                "query_id": query_id,
                "query": query,
                "doc_id": document["id"],
                "text": document["content"],
                "rank": rank,
                "score": 10.5 - rank,
                "grade": self.grades[query_id, document["id"]],
            }
            for query_id, query, documents in self.lists
            for rank, document in enumerate(documents, 1)
        ]
        return [_row(of, names, more) for of in roles]

    def compared(self, names: str, **more: Callable[[Row], Any]) -> list[Row]:
        """Return a row for each vote; roles are query_id, query, a, b, preference, text_a ..."""
        texts = {d["_id"]: d["text"] for d in self.corpus}
        queries = {q["_id"]: q["text"] for q in self.queries}
        rows = []
        for vote in self.votes:
            a, b, preference = vote["doc_id_a"], vote["doc_id_b"], vote["preference"]
            side = (preference > 0) - (preference < 0)
            of = {"query": queries[vote["query_id"]], "a": a, "b": b, "side": side}
            of |= {"text_a": texts[a], "text_b": texts[b], "winner_id": (a, "tie", b)[side + 1]}
            rows.append(_row({**vote, **of}, names, more))
        return rows


def _row(roles: Row, names: str, more: Mapping[str, Callable[[Row], Any]]) -> Row:
    pairs = [(name.rpartition(">")[2], name.partition(">")[0]) for name in names.split(", ")]
    return {name: roles[role] for name, role in pairs if name} | {
        name: make(roles) for name, make in more.items()
    }


def _won(*words: Any) -> Callable[[Row], Any]:
    """Return what tells by one of three words who won a comparison."""
    return lambda roles: words[roles["side"] + 1]


def _always(value: Any) -> Callable[[Row], Any]:
    return lambda _: value


def _lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _csv(rows: Sequence[Row], mark: str = ",", end: str = "\n") -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*rows[0]], delimiter=mark, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _parquet(rows: Sequence[Row]) -> pa.Table:
    """A table of rows, with nested fields in the order of the rows: older Arrow sorts them."""
    given = [dict(row) for row in rows]
    schema = pa.Table.from_pylist(given).schema
    kinds = {f.name: _in_order(f.type, [row.get(f.name) for row in given]) for f in schema}
    return pa.Table.from_pylist(given, pa.schema(kinds))


def _in_order(kind: pa.DataType, values: Iterable[Any]) -> pa.DataType:
    held = [value for value in values if value is not None]
    if pa.types.is_list(kind):
        return pa.list_(_in_order(kind.value_type, itertools.chain.from_iterable(held)))
    if pa.types.is_struct(kind):
        names = dict.fromkeys(itertools.chain.from_iterable(held))
        inner = {n: _in_order(kind.field(n).type, [value.get(n) for value in held]) for n in names}
        return pa.struct(inner)
    return kind


def _trec(rows: Iterable[Row], columns: str, mark: str = " ") -> str:
    return "".join(mark.join(str(row.get(c, c)) for c in columns.split()) + "\n" for row in rows)


def _gz(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


def _forms(stem: str, rows: Sequence[Row], kinds: str) -> dict[str, Content]:
    """Return the same rows as files of some kinds, by their names."""
    return {f"{stem}.{kind}": _FORMS[kind](rows) for kind in kinds.split()}


def _tables(sample: _Sample, group: str) -> dict[str, Content]:
    """Return the CSV files of a group."""
    return {f"{name}.csv": _csv(sample.rows(of)) for name, of in _TABLES[group].items()}


_FORMS: Mapping[str, Callable[[Any], Content]] = {
    "csv": _csv,
    "tsv": lambda rows: _csv(rows, "\t"),
    "csv.gz": lambda rows: _gz(_csv(rows)),
    "json": json.dumps,
    "jsonl": _lines,
    "parquet": _parquet,
}


def _zip(*members: tuple[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), text)
    return data.getvalue()


def _of_pools(sample: _Sample) -> Files:
    """JSON of pools, packed and named in every way."""
    pools, plain = sample.pools, _lines(sample.pools)
    bare = [[{n: d[n] for n in ("id", "content")} for d in p["documents"]] for p in pools]
    about = {"description": "More.", "lang": "en"}
    scored = [
        {**p, "documents": [{**d, "score": float(sample.grades[query_id, d["id"]])} for d in of]}
        for p, (query_id, _, of) in zip(pools, sample.lists, strict=True)
    ]
    return {
        "pools.jsonl": plain,
        "pools.ndjson": plain,
        "pools.txt": plain,
        "pools-without-ending": plain,
        "pools.jsonl.gz": _gz(plain),
        "pools.jsonl.zst": bytes(pa.compress(plain.encode(), "zstd", asbytes=True)),
        "pools.jsonl.bz2": bz2.compress(plain.encode()),
        "pools.jsonl.xz": lzma.compress(plain.encode()),
        "pools.jsonl.zip": _zip(("pools.jsonl", plain)),
        "pools-bom.jsonl": "\ufeff" + plain,
        "pools-crlf.jsonl": plain.replace("\n", "\r\n"),
        "pools-array.json": json.dumps(pools),
        "pools-array-of-lines.json": "[\n" + ",\n".join(map(json.dumps, pools)) + "\n]\n",
        "pools-pretty.json": json.dumps(pools, indent=1),
        "pools-within-object.json": json.dumps({"data": pools}),
        "pools.parquet": _parquet(
            [{**p, "documents": two} for p, two in zip(pools, bare, strict=True)]
        ),
        "pool-of-one-line.json": json.dumps(pools[0]),
        "pools-with-fields.jsonl": _lines(
            {**p, "query": {**p["query"], **about}, "set": 1} for p in pools
        ),
        "pools-of-sessions.jsonl": _lines(
            {**p, "session_id": f"s{n // 2}"} for n, p in enumerate(pools)
        ),
        **_forms("pools-with-scores", scored, "jsonl json"),
        "pools-of-one-document.jsonl": _lines(
            {**p, "documents": p["documents"][:1]} for p in pools
        ),
        "pools-with-a-bad-line.jsonl": plain + '{"query": {"id": "q13"}}\n{"torn\n',
        "pools-with-a-query-twice.jsonl": plain + json.dumps(pools[0]) + "\n",
        "shards/part-0.jsonl": _lines(pools[:6]),
        "shards/part-1.jsonl.gz": _gz(_lines(pools[6:])),
        "shards/README.md": "# Pools\n",
    }


def _of_lists(sample: _Sample) -> Files:
    """A query and a list of its documents in each row."""
    lists = sample.lists
    texts = [{"query": q, "documents": [d["content"] for d in of]} for _, q, of in lists]
    objects = [
        {
            "qid": query_id,
            "question": query,
            "passages": [{"doc_id": d["id"], "text": d["content"]} for d in documents],
        }
        for query_id, query, documents in lists
    ]
    titled = {"title": "T"}
    dpr = [
        {
            "question": query,
            "ctxs": [{"id": d["id"], **titled, "text": d["content"], "score": 1.5} for d in of],
        }
        for _, query, of in lists
    ]
    ms_marco = [
        {
            "query_id": n,
            "query": query,
            "passages": {
                "is_selected": [1, *[0] * (len(of) - 1)],
                "passage_text": [d["content"] for d in of],
            },
        }
        for n, (_, query, of) in enumerate(lists)
    ]
    rank_llm = [
        {
            "query": {"text": query, "qid": query_id},
            "candidates": [
                {"docid": d["id"], "score": 1.0, "doc": {"contents": d["content"]}} for d in of
            ],
        }
        for query_id, query, of in lists
    ]
    mteb = []
    for query_id, query, of in lists:
        grades = [(d["content"], sample.grades[query_id, d["id"]]) for d in of]
        good, bad = ([t for t, g in grades if (g > 1) is is_good] for is_good in (True, False))
        mteb.append({"query": query, "positive": good, "negative": bad})
    red, blue = (
        {
            "session_id": "s",
            "assistant_id": name,
            "conversation": [
                {"qa_id": query_id, "query": query, "assistant": of[n]["content"]}
                for query_id, query, of in lists
            ],
        }
        for n, name in enumerate(("red", "blue"))
    )
    return {
        **_forms("lists-of-texts", texts, "jsonl json parquet"),
        **_forms("lists-of-objects", objects, "jsonl parquet"),
        "dpr-ctxs.json": json.dumps(dpr),
        "ms-marco-v1.parquet": _parquet(ms_marco),
        "rank-llm.jsonl": _lines(rank_llm),
        **_forms("mteb-rows", mteb, "jsonl json parquet"),
        "triplets.jsonl": _lines(
            {"query": r["query"], "pos": r["positive"], "neg": r["negative"]} for r in mteb
        ),
        "assistants.json": json.dumps([red, blue]),
        "assistants.jsonl": _lines([red, blue]),
        "assistant-red.json": json.dumps(red),
    }


def _of_rows(sample: _Sample) -> Files:
    """A query and a document in each row."""
    rows = sample.rows
    usual = rows("query_id, query, doc_id, text")
    return {
        **_tables(sample, "rows"),
        **_forms("rows", usual, "csv tsv csv.gz jsonl json parquet"),
        "rows-semicolons.csv": _csv(usual, ";"),
        "rows-crlf-bom.csv": "\ufeff" + _csv(usual, end="\r\n"),
        "rows-sep.csv": "sep=;\r\n" + _csv(usual, ";", "\r\n"),
        "rows.txt": _csv(usual, "\t"),
        "rows-with-titles.csv": _csv(
            rows("query_id, query, doc_id, text", title=lambda r: f"Of {r['doc_id']}")
        ),
        "rows-with-relevance.jsonl": _lines(rows("query_id, query, doc_id, text, grade>relevance")),
        "shopping.csv": _csv(
            rows(
                "query_id, query, doc_id>product_id, text>product_title",
                esci_label=lambda r: "ISCE"[r["grade"]],
            )
        ),
        "train.jsonl": sample.record["train.jsonl.txt"],
    }


def _of_runs(sample: _Sample) -> Files:
    """Runs: what a ranker put where."""
    rows, table = (
        sample.rows("query_id, doc_id, rank, score"),
        sample.rows("query_id, doc_id, score"),
    )
    plain = _trec(rows, _TREC_RUN)
    several = [{"run": "a", **row} for row in table] + [
        {"run": "b", "query_id": r["query_id"], "doc_id": r["doc_id"], "score": float(r["rank"])}
        for r in rows
    ]
    return {
        **_tables(sample, "runs"),
        "trec.run": plain,
        "trec-tabs.run": _trec(rows, _TREC_RUN, "\t"),
        "trec-run.txt": plain,
        "trec.run.gz": _gz(plain),
        "trec-run-with-notes.run": _trec(rows, f"{_TREC_RUN} a note"),
        "run-of-5-columns.run": _trec(rows, "query_id Q0 doc_id rank score"),
        "run-of-4-columns.run": _trec(rows, "query_id doc_id rank score"),
        "run-of-3-columns.tsv": _trec(rows, "query_id doc_id rank", "\t"),
        **_forms("run", table, "csv tsv jsonl parquet"),
        "run-rows.json": json.dumps(table),
        "run-with-ranks.csv": _csv(rows),
        **_forms("several-runs", several, "csv parquet"),
        "run-nested.json": json.dumps(_nested(sample, "score")),
        "folder-of-runs/a.run": plain,
        "folder-of-runs/b.run": _trec(rows, _TREC_RUN.replace("mine", "other")),
    }


def _nested(sample: _Sample, name: str) -> dict[str, dict[str, Any]]:
    by_query: dict[str, dict[str, Any]] = {}
    for row in sample.rows(f"query_id, doc_id, {name}"):
        by_query.setdefault(row["query_id"], {})[row["doc_id"]] = row[name]
    return by_query


def _of_judgments(sample: _Sample) -> Files:
    """Judgments of documents: qrels and tables."""
    of = sample.rows
    rows = of("query_id, doc_id, grade")
    beir = of("query_id>query-id, doc_id>corpus-id, grade>score")
    judges = [row | {"judge": judge} for judge in ("j1", "j2") for row in rows]
    people = [row | {"person": person} for person in ("ann", "bob") for row in rows]
    sure = [row | {"person": "ann", "probability": 0.5} for row in rows]

    def graded(make: Callable[[int], Any]) -> list[Row]:
        return [row | {"grade": make(row["grade"])} for row in rows]

    def with_second(names: str) -> list[Row]:
        return of(names, relevance=lambda r: int(r["grade"] > 1))

    plain = _trec(rows, _TREC_QRELS)
    return {
        **_tables(sample, "judgments"),
        "trec.qrels": plain,
        "trec-tabs.qrels": _trec(rows, _TREC_QRELS, "\t"),
        "trec-qrels.txt": plain,
        "trec.qrels.gz": _gz(plain),
        "trec-bom-crlf.qrels": "\ufeff" + plain.replace("\n", "\r\n"),
        "trec-fractions.qrels": _trec(graded(lambda g: g + 0.5), _TREC_QRELS),
        "trec-below-zero.qrels": _trec(graded(lambda g: g - 1), _TREC_QRELS),
        "trec-many-grades.qrels": _trec(graded(lambda g: 2 * g), _TREC_QRELS),
        "trec-with-a-comment.qrels": "# people, in May\n" + plain,
        "trec-with-a-head.qrels": "query_id iteration doc_id relevance\n" + plain,
        "trec-twice.qrels": plain + plain.partition("\n")[0] + "\n",
        "qrels-of-3-columns.txt": _trec(rows, "query_id doc_id grade"),
        "qrels-of-2-columns.tsv": _trec(rows, "query_id doc_id", "\t"),
        **_forms("beir-qrels", beir, "tsv csv jsonl parquet"),
        "beir-qrels-bare.tsv": _csv(beir, "\t").partition("\n")[2],
        **{
            f"judgments-{name}.csv": _csv(of(f"query_id, doc_id, grade>{name}"))
            for name in ("relevance", "score", "grade", "rating", "label", "rel", "judgment")
        },
        "judgments-two-values.csv": _csv(with_second("query_id, doc_id, grade")),
        "judgments-two-values.jsonl": _lines(with_second("query_id, doc_id, score, grade")),
        **_forms("judgments", rows, "tsv jsonl json parquet"),
        "judgments-semicolons.csv": _csv(rows, ";"),
        "judgments-decimal-commas.csv": _csv(graded(lambda g: f"{g},0"), ";"),
        "judgments-sep.csv": "\ufeffsep=;\r\n" + _csv(rows, ";", "\r\n"),
        "judgments-ir-datasets.csv": _csv(
            of("query_id, doc_id, grade>relevance", iteration=_always(0))
        ),
        "judgments-number-ids.jsonl": _lines(
            {
                "grade": r["grade"],
                "query_id": int(r["query_id"][1:]),
                "doc_id": int(r["doc_id"][1:]),
            }
            for r in rows
        ),
        "judgments-with-errors.csv": _csv(
            of("query_id, doc_id, grade>relevance", std_error=_always(0.25))
        ),
        "judgments-with-blanks.csv": _csv(
            of("query_id, doc_id", grade=lambda r: r["grade"] if r["rank"] > 2 else "")
        ),
        "judgments-with-words.csv": _csv(graded(("no", "partly", "yes", "fully").__getitem__)),
        "judgments-yes-no.jsonl": _lines(
            of("query_id, doc_id", relevance=lambda r: r["grade"] > 1)
        ),
        **_forms("judgments-of-judges", judges, "csv parquet"),
        **_forms("labels-of-people", people, "csv jsonl"),
        "labels-with-probabilities.csv": _csv(sure),
        "judgments-nested.json": json.dumps(_nested(sample, "grade")),
        "folder-of-judges/one.txt": plain,
        "folder-of-judges/two.csv": _csv(rows),
        "folder-of-judges/README.md": "# Judges\n",
        "filled-sheet.csv": sample.record["filled.csv.txt"],
        "empty-sheet.csv": sample.record["sheet.csv.txt"],
    }


def _tab_lines(texts: Iterable[Row]) -> str:
    return "".join(f"{t['_id']}\t{' '.join(t['text'].split())}\n" for t in texts)


def _of_texts(sample: _Sample) -> Files:
    """Corpora, queries, topics and the folders that hold them."""
    corpus, queries = sample.corpus, sample.queries
    judged = sample.rows("query_id>query-id, doc_id>corpus-id, grade>score")
    ranks = sample.rows("query_id, doc_id, rank, score")
    run, qrels = _trec(ranks, _TREC_RUN.replace("mine", "bm25")), _csv(judged, "\t")
    texts = {"corpus.jsonl": _lines(corpus), "queries.jsonl": _lines(queries)}
    # In Quora and ArguAna a query is a document, too.
    more = [*corpus, *({"_id": q["_id"], "title": "", "text": q["text"]} for q in queries)]
    own = "".join(f"{q['_id']}\t{q['_id']}\t1\n" for q in queries)
    ranked = [
        {"query-id": query_id, "corpus-ids": [d["id"] for d in documents][::-1]}
        for query_id, _, documents in sample.lists
    ]
    topic = "<top>\n<num> Number: {_id}\n<title> {text}\n<desc> Description:\nMore.\n</top>\n"
    tables = {"corpus": corpus, "queries": queries, "qrels": judged}
    folders: dict[str, dict[str, Content]] = {
        "beir": {**texts, "qrels/test.tsv": qrels},
        "beir-ranked": {**texts, "qrels/test.tsv": qrels, "top_ranked.jsonl": _lines(ranked)},
        "beir-with-run": {**texts, "bm25.run": run},
        "beir-without-candidates": {**texts},
        "beir-splits": {**texts, "qrels/train.tsv": qrels, "qrels/dev.tsv": qrels},
        "hugging-face": {
            f"{name}/test-00000-of-00001.parquet": _parquet(rows) for name, rows in tables.items()
        },
        "ir-datasets": {
            "docs.tsv": _tab_lines(corpus),
            "queries.tsv": _tab_lines(queries),
            "qrels": _trec(sample.rows("query_id, doc_id, grade"), _TREC_QRELS),
            "scoreddocs.run": run,
        },
        "queries-among-documents": {
            **texts,
            "corpus.jsonl": _lines(more),
            "qrels/test.tsv": qrels + own,
        },
    }
    return {
        **_forms("corpus", corpus, "jsonl csv parquet"),
        "corpus.tsv": _tab_lines(corpus),
        "corpus.jsonl.gz": _gz(_lines(corpus)),
        "corpus-pyserini.jsonl": _lines({"id": d["_id"], "contents": d["text"]} for d in corpus),
        "corpus-array.json": json.dumps(corpus),
        "queries.jsonl": _lines(queries),
        "queries.tsv": _tab_lines(queries),
        "queries.csv": _csv([{"qid": q["_id"], "query": q["text"]} for q in queries]),
        "topics.txt": "".join(topic.format(**q) for q in queries),
        **{
            f"{folder}/{name}": content
            for folder, files in folders.items()
            for name, content in files.items()
        },
    }


def _of_votes(sample: _Sample) -> Files:
    """Comparisons of two documents, or of anything else."""
    compared = sample.compared
    ids, sides = "query_id, a>doc_id_a, b>doc_id_b", "query_id, a, b"
    models = "query_id>question_id, a>model_a, b>model_b"
    by_model, by_letter = _won(*_WORDS["models"]), _won("a", "tie", "b")
    usual = compared(f"{ids}, preference, judge")
    gpt_4 = _won("model_1", "tie", "model_2")
    ends = compared("query_id, query, side, text_a, text_b, a, b")
    decided = [(r, "ab"[r["side"] > 0], "ba"[r["side"] > 0]) for r in ends if r["side"]]
    singles = sample.rows(
        "query_id>question_id, doc_id>model",
        turn=_always(1),
        score=lambda r: 1 + 3 * r["grade"],
    )
    answers = [
        {"question_id": r["query_id"], "model_id": f"m{n % 6}"}
        | {"choices": [{"index": 0, "turns": [r["text"]]}]}
        for n, r in enumerate(sample.rows("query_id, text"))
    ]
    by = [{"model_name": name, "type": "ai"} for name in ("one", "two")]
    examples = [
        {
            "query": r["query"],
            "answer": r["text_a"],
            "second_answer": r["text_b"],
            "answer_by": by[0],
            "second_answer_by": by[1],
            "reference_score": (1 - r["side"]) / 2,
        }
        for r in {row["query"]: row for row in ends}.values()
    ]
    return {
        **_forms("votes", usual, "jsonl json csv tsv parquet"),
        "votes-semicolons.csv": _csv(usual, ";"),
        "votes-of-nobody.csv": _csv(compared(f"{ids}, preference")),
        "votes-swapped.jsonl": _lines(
            compared(f"{ids}, preference, judge", swapped=_won(False, False, True))
        ),
        "votes-with-texts.csv": _csv(compared(f"{ids}, preference, query, text_a, text_b")),
        "votes-capitals.csv": _csv(
            compared("query_id>Query_ID, a>Doc_ID_A, b>Doc_ID_B, preference>Preference")
        ),
        "votes-with-blanks.csv": _csv(
            compared(ids, preference=lambda r: r["preference"] if r["side"] else "")
        ),
        **{
            f"winners-{name}.csv": _csv(compared(f"{models}, judge", winner=_won(*words)))
            for name, words in _WORDS.items()
        },
        "winners-names.csv": _csv(compared(f"{models}, judge, winner_id>winner")),
        "winners-of-documents.csv": _csv(compared(f"{ids}, winner_id>winner")),
        "winners-of-documents-by-word.csv": _csv(compared(ids, winner=by_letter)),
        "fastchat-human.jsonl": _lines(
            compared(f"{models}, judge", turn=_always(1), winner=by_model)
        ),
        "fastchat-gpt-4-pair.jsonl": _lines(
            compared(
                "query_id>question_id, a>model_1, b>model_2",
                turn=_always(1),
                g1_winner=gpt_4,
                g2_winner=gpt_4,
            )
        ),
        "fastchat-gpt-4-single.jsonl": _lines(singles),
        "fastchat/question.jsonl": _lines(
            {"question_id": q["_id"], "category": "any", "turns": [q["text"]]}
            for q in sample.queries
        ),
        "fastchat/answers.jsonl": _lines(answers),
        "one-hot-winners.csv": _csv(
            compared(
                "a>model_a, b>model_b",
                winner_model_a=_won(1, 0, 0),
                winner_model_b=_won(0, 0, 1),
                winner_tie=_won(0, 1, 0),
            )
        ),
        "winner-and-loser.csv": _csv(
            [{"query_id": r["query_id"], "winner": r[w], "loser": r[x]} for r, w, x in decided]
        ),
        "counts-of-wins.csv": _csv(
            compared(sides, a_wins=_won(3, 2, 1), b_wins=_won(1, 2, 3), ties=_always(1))
        ),
        "home-and-away.csv": sample.record["baseball.csv.txt"],
        "games-of-other-names.csv": (
            "Heim,Gast,Tore_Heim,Tore_Gast\nA,B,1,0\nB,C,2,1\nC,A,0,0\nA,C,1,3\n"
        ),
        "first-won.csv": _csv(compared("query_id, a>left, b>right", win=_won(1, 0.5, 0))),
        "weighted-winners.csv": _csv(compared(sides, weight=_always(2), winner=by_letter)),
        "chosen-and-rejected.jsonl": _lines(
            {
                "prompt": r["query"],
                "chosen": r["text_b" if r["side"] > 0 else "text_a"],
                "rejected": r["text_a" if r["side"] > 0 else "text_b"],
            }
            for r in ends
        ),
        "llamahub.json": json.dumps({"examples": examples}, indent=4),
        "rankings.jsonl": _lines(
            {"query_id": query_id, "ranking": [d["id"] for d in documents]}
            for query_id, _, documents in sample.lists
        ),
        "ratings.csv": sample.record["ratings.csv.txt"],
        "ratings.parquet": _table(sample.record["ratings.parquet.txt"]),
    }


def _of_runs_of_annotate(sample: _Sample) -> Files:
    """Results that are not finished, or mixed with others."""
    record = sample.record
    table = {n: _table(record[f"zelo/{n}.parquet.txt"]) for n in ("votes", "scores", "failures")}
    annotated = record["zelo/annotated.jsonl.txt"].splitlines(keepends=True)
    done = record["zelo/run.json.txt"]
    return {
        "run-not-finished/annotated.jsonl": "".join(annotated),
        "run-not-finished/scores.parquet": table["scores"],
        "run-not-finished/votes.parquet": table["votes"],
        "run-not-finished/run.json": done.replace('"finished": true', '"finished": false'),
        "scores-alone/scores.parquet": _table(record["graded/scores.parquet.txt"]),
        "grades-alone/grades.parquet": _table(record["graded/grades.parquet.txt"]),
        "everything/pools.jsonl": _lines(sample.pools),
        "everything/people.qrels": record["people.qrels.txt"],
        "everything/bm25.run": record["runs/a.run.txt"],
        "everything/votes.jsonl": _lines(sample.votes),
        "everything/notes.md": "# Notes\n",
    }


def _that_are_refused(sample: _Sample) -> Files:
    """What no command can use, and says so."""
    plain, rows = _lines(sample.pools).encode(), sample.rows("query_id, doc_id, grade")
    return {
        "empty.jsonl": "",
        "empty.csv": "",
        "blank-lines.txt": "\n \n\n",
        "head-alone.csv": "query_id,doc_id,grade\n",
        "binary.bin": bytes(range(256)) * 4,
        "page.html": "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n",
        "prose.txt": "These are my notes.\nThey hold no table.\n",
        "truncated.jsonl.gz": gzip.compress(plain, mtime=0)[:-2000],
        "truncated-pools.jsonl": plain[:-2000],
        "packed-without-ending.jsonl": gzip.compress(plain, mtime=0),
        "not-packed.jsonl.gz": plain,
        "workbook.xlsx": _zip(("xl/workbook.xml", "<workbook/>"), ("a.xml", "<a/>")),
        "two-files.zip": _zip(("a.jsonl", "{}"), ("b.jsonl", "{}")),
        "damaged.parquet": b"PAR1" + bytes(200) + b"PAR1",
        "utf-16.csv": _csv(rows).encode("utf-16"),
        "latin-1.csv": _csv([{**rows[0], "doc_id": "caf\u00e9"}]).encode("latin-1"),
        "carriage-returns.csv": _csv(rows).replace("\n", "\r"),
        "wrong-columns.csv": "name,age\nAda,36\nBob,40\n",
        "same-name-twice.csv": "query_id,doc_id,grade,grade\nq1,d1,1,2\n",
        "a-cell-too-many.csv": "query_id,doc_id,grade\nq1,d1,1\nq1,d2,1,2\n",
        "open-quote.csv": 'query_id,doc_id,grade\nq1,"d1,1\n',
        "one-column.csv": "doc_id\nd1\nd2\n",
        "unknown.json": json.dumps({"name": "Ada", "age": 36}),
        "numbers.json": "[1, 2, 3]",
        "null.json": "null",
        "torn.json": '[{"query_id": "q1", "doc_id": "d1", "grade": 1},\n{"query_',
        "unknown-lines.jsonl": _lines([{"name": "Ada"}, {"name": "Bob"}]),
        "float-ids.csv": "query_id,doc_id,grade\nq1,1.23457E+18,1\n",
        "infinite.qrels": "q1 0 d1 inf\nq1 0 d2 nan\n",
        "folder-of-nothing/README.md": "# Nothing\n",
    }


_GROUPS: Mapping[str, Callable[[_Sample], Files]] = {
    "pools": _of_pools,
    "lists": _of_lists,
    "rows": _of_rows,
    "runs": _of_runs,
    "judgments": _of_judgments,
    "texts": _of_texts,
    "votes": _of_votes,
    "results": _of_runs_of_annotate,
    "refused": _that_are_refused,
}
