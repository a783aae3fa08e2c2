"""Results in parts: what is in them, and no older ones beside them."""

from dataclasses import asdict

import fsspec
import pytest

from tests.builders import PANEL, answers, lines_of, options_of, pool_of, results_of, write_run
from zelo_ray.commands.explain import explain
from zelo_ray.commands.report import write_report
from zelo_ray.engine import write_parts as parts_module
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.count_input import InputCount
from zelo_ray.engine.write_parts import collect_parts, plan_parts, write_part
from zelo_ray.errors import Stopped
from zelo_ray.formats.files import read_placed_lines
from zelo_ray.formats.stored import StoredTable

TABLES = ("votes", "scores", "failures")
POOLS = [
    *(pool_of(tuple(range(n, n + 4)), query_id=f"q{n}") for n in range(5)),
    pool_of(query_id="alone", worths=(0,)),
]


def say(request):
    """Some requests fail."""
    refused = {d.id for d in request.documents} == {"d0", "d1"}
    return "refused" if refused and request.judge.provider == "anthropic" else None


def blocks_of(out, pools, size):
    options = options_of(out=str(out))
    shelf, all_lines = answers(POOLS, options, say), lines_of(pools)
    cuts = range(0, len(pools), size)
    return options, [build_results(all_lines[at : at + size], PANEL, options, shelf) for at in cuts]


def in_parts(out, pools=POOLS, size=2, only=False):
    options, blocks = blocks_of(out, pools, size)
    told = [write_part(n, [block], options, judgments_only=only) for n, block in enumerate(blocks)]
    return collect_parts(reversed(told), options, len(told), judgments_only=only)


def content(out):
    tables = {name: StoredTable(f"{out}/{name}.parquet").read().to_pylist() for name in TABLES}
    return tables | {"lines": [line for _, line in read_placed_lines(f"{out}/annotated.jsonl")]}


def tree(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("size", [1, 4, 10])
def test_parts_hold_what_the_files_hold_and_add_up_to_the_same(tmp_path, size):
    one, many = tmp_path / "one", tmp_path / "many"
    summary = results_of(one, POOLS, say)
    told = in_parts(many, size=size)
    assert asdict(told) | {"out": ""} == asdict(summary) | {"out": ""}
    assert (told.failures, told.reasons, [*told.unscored]) == (
        *(summary.failures, summary.reasons),
        ["alone"],
    )
    assert content(many) == content(one)
    assert len([*(many / "votes").iterdir()]) == -(-len(POOLS) // size)


def test_the_same_part_has_the_same_bytes_whenever_it_is_written(tmp_path):
    in_parts(tmp_path)
    before = tree(tmp_path)
    options, blocks = blocks_of(tmp_path, POOLS, 2)
    write_part(1, blocks[1:2], options)
    assert tree(tmp_path) == before
    write_part(1, (block.slice(n, 1) for block in blocks[1:2] for n in range(2)), options)
    assert tree(tmp_path) == before


def test_no_form_leaves_the_other_or_older_parts(tmp_path):
    results_of(tmp_path, POOLS[:1], say)
    in_parts(tmp_path, size=1)
    assert {name.partition("/")[0] for name in tree(tmp_path)} == {*TABLES, "annotated"}
    in_parts(tmp_path, size=3)
    fresh = tmp_path / "fresh"
    in_parts(fresh, size=3)
    found = {name: data for name, data in tree(tmp_path).items() if "fresh" not in name}
    assert found == tree(fresh)
    single = tmp_path / "single"
    for out in (fresh, single):
        results_of(out, POOLS, say)
    assert tree(fresh) == tree(single)


def test_until_all_parts_are_there_the_old_results_count(tmp_path):
    results_of(tmp_path, POOLS[:1], say)
    old = content(tmp_path)
    options, blocks = blocks_of(tmp_path, POOLS, 2)
    told = [write_part(n, [blocks[n]], options) for n in (0, 2)]
    assert content(tmp_path) == old
    with pytest.raises(Stopped, match="part 1 of 3"):
        collect_parts(told, options, 3)
    told.append(write_part(1, [blocks[1]], options))
    (tmp_path / "scores" / "part-00002.parquet").unlink()
    with pytest.raises(Stopped, match=r"scores: lacks part-00002\.parquet"):
        collect_parts(told, options, 3)
    assert content(tmp_path) == old


def test_a_worker_that_fails_leaves_no_part_and_one_that_is_killed_no_lasting_file(tmp_path):
    options, blocks = blocks_of(tmp_path, POOLS, 2)

    def broken():
        yield blocks[0]
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        write_part(0, broken(), options)
    assert not tree(tmp_path)
    (tmp_path / "votes" / "part-00000.parquet.0123.partial").write_text("half")
    (tmp_path / "votes" / "mine.txt").write_text("not ours")
    in_parts(tmp_path)
    assert [name for name in tree(tmp_path) if "partial" in name] == []
    results_of(tmp_path, POOLS, say)
    assert (tmp_path / "votes" / "mine.txt").read_text() == "not ours"


def test_judgments_alone_leave_scores_as_they_were(tmp_path):
    in_parts(tmp_path)
    before = content(tmp_path)
    in_parts(tmp_path, POOLS[:4], only=True)
    now = content(tmp_path)
    assert len(now["votes"]) < len(before["votes"])
    assert (now["scores"], now["lines"]) == (before["scores"], before["lines"])


def test_parts_on_an_object_store(tmp_path):
    options, blocks = blocks_of("memory://parts-of-a-run", POOLS, 3)
    told = [write_part(n, [block], options) for n, block in enumerate(blocks)]
    collect_parts(told, options, 2)
    results_of(tmp_path, POOLS, say)
    assert content("memory://parts-of-a-run") == content(tmp_path)
    write_results_names = fsspec.filesystem("memory").find("/parts-of-a-run")
    assert len(write_results_names) == 2 * 4


def test_a_run_in_parts_is_explained_and_reported_as_any_other(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    write_run(one, results_of(one, POOLS, say))
    write_run(many, in_parts(many))
    assert explain(str(many), "q3") == explain(str(one), "q3")
    pages = []
    for out in (one, many):
        write_report(str(out))
        pages.append((out / "report.html").read_text().replace(str(out), "OUT"))
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ([], []),
        ([25], [(0, 10, 1), (1, 10, 1), (2, 5, 1)]),
        ([4, 4, 4], [(0, 12, 3)]),
        ([4, 6, 25, 3], [(0, 10, 2), (1, 10, 1), (2, 10, 1), (3, 8, 2)]),
        ([0, 10, 0], [(0, 10, 1)]),
    ],
)
def test_parts_are_planned_from_the_input_alone(monkeypatch, counts, groups):
    monkeypatch.setattr(parts_module, "PART_POOLS", 10)
    found = plan_parts(census_of({f"s{n}.jsonl": count for n, count in enumerate(counts)}))
    assert [(each.first, each.pools, len(each.stretches)) for each in found] == groups
    assert [each.parts for each in found] == [-(-pools // 10) for _, pools, _ in groups]


def test_a_packed_file_is_read_by_one_worker(monkeypatch):
    monkeypatch.setattr(parts_module, "PART_POOLS", 10)
    found = plan_parts(census_of({"a.jsonl.gz": 25, "b.jsonl": 12, "c.jsonl.zst": 3}))
    assert [(each.first, each.parts) for each in found] == [(0, 3), (3, 1), (4, 1)]
    assert [[(s.number, s.offset) for s in each.stretches] for each in found] == [
        [(1, 0)],
        [(1, 0)],
        [(11, 100), (1, 0)],
    ]


def census_of(counts):
    """Lines of ten bytes."""
    places = [(f, n, f"{f}{n}") for f, count in counts.items() for n in range(1, count + 1)]
    return InputCount(places=places, offsets=[10 * (number - 1) for _, number, _ in places])
