"""What the input holds is known before anything is asked."""

import pyarrow.parquet as pq
import pytest

from tests.helpers.builders import line_of, pool_of
from zelo_ray.engine.count_input import count_input
from zelo_ray.errors import InputError


def requests(pool):
    return {"one": 6, "two": len(pool.documents)}


def count_lines(tmp_path, *shards):
    names = []
    for i, lines in enumerate(shards):
        names.append(str(tmp_path / f"{i}.jsonl"))
        (tmp_path / f"{i}.jsonl").write_bytes(b"\n".join(lines))
    return count_input(names, requests, str(tmp_path / "out"))


def test_a_query_id_is_taken_once_over_all_shards(tmp_path):
    good = line_of(pool_of())
    input_count = count_lines(tmp_path, [good], [b"{", good])
    assert (input_count.pools, input_count.documents, input_count.rejected) == (1, 4, 2)
    assert input_count.repeated == {(str(tmp_path / "1.jsonl"), 2)}
    assert input_count.planned == {"one": 6, "two": 4}
    rejected = pq.read_table(tmp_path / "out" / "rejected.parquet").to_pylist()
    assert [(row["line"], row["raw"]) for row in rejected] == [(1, "{"), (2, good.decode())]


def test_turns_of_sessions_that_share_their_ids_are_told_the_way_out(tmp_path):
    lines = [
        line_of(pool_of()).replace(b"{", b'{"session_id": "%s", ' % s, 1) for s in (b"s", b"t")
    ]
    count_lines(tmp_path, lines)
    (row,) = pq.read_table(tmp_path / "out" / "rejected.parquet").to_pylist()
    assert "--blocks session" in row["reason"]


@pytest.mark.parametrize(("lines", "says"), [([], "it is empty"), ([b"{bad"], "line 1: Invalid")])
def test_an_input_without_any_pool_is_an_error_that_says_why(tmp_path, lines, says):
    with pytest.raises(InputError, match=says):
        count_lines(tmp_path, lines)
