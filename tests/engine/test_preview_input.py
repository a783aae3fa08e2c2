"""The dry run, as a person sees it."""

import json

from tests.helpers.builders import line_of, pool_of
from zelo_ray.cli import main


def write(path, pools, *more):
    path.write_bytes(b"".join([*(line_of(pool) + b"\n" for pool in pools), *more]))
    return str(path)


def test_a_dry_run_needs_no_key_calls_nobody_and_writes_nothing(tmp_path, capsys):
    pools = [pool_of(range(8), query_id=f"q{i}", query=f"question {i}?") for i in range(10)]
    inputs = write(tmp_path / "in.jsonl", pools, b"no pool\n")
    out = tmp_path / "out"
    judges = ("openai:gpt-6-luna", "gemini", "openai:own@http://127.0.0.1:9/v1", "offline:bm25")
    words = ["annotate", inputs, "--out", str(out), "--dry-run", "--judges", *judges]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert not out.exists()
    figures = told["result"]
    [estimate] = figures["estimates"]
    assert (figures["requests_left"], estimate["pools"]) == (1120, 10)
    assert figures["unpriced"] == [judges[2]]
    assert [row["judge"] for row in estimate["forecasts"]][2:] == [*judges[2:]]
    assert estimate["forecasts"][0]["batch"]["expected"] > 0
    assert "1 invalid input line would be rejected." in told["notes"]
    assert told["next_command"].startswith(f"zelo-ray annotate {inputs} ")
    assert "--dry-run" not in told["next_command"]


def test_a_dry_run_tells_what_may_have_been_billed_besides(tmp_path, capsys):
    inputs = write(tmp_path / "in.jsonl", [pool_of()])
    folder = tmp_path / "out" / "exposure"
    folder.mkdir(parents=True)
    (folder / "run-1.json").write_text('{"out": "x", "run_id": "run", "dollars": 2.5}')
    flags = ["--out", str(tmp_path / "out"), "--dry-run", "--judges", "openai"]
    main(["annotate", inputs, *flags, "--max-usd", "2.5"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "Up to $2.50 more may have been billed " in printed
    assert "will exhaust the budget of $2.5" in printed
