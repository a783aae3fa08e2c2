"""Results of a run that has not ended, from what is recorded so far."""

import json

from tests.helpers import crash
from tests.helpers.builders import rows_of
from tests.helpers.jobs import annotate

OPENAI = crash.DEFAULT_JUDGES[0]


def test_what_is_recorded_is_built_and_nobody_is_asked(tmp_path):
    """The servers are gone, and there is no key."""
    pools, out, whole = (tmp_path / name for name in ("pools.jsonl", "out", "whole"))
    crash.write_pools(pools, 8, 6)
    judged, few = ("--judges", OPENAI), crash.limits([OPENAI], concurrency=8)
    with crash.fakes(tmp_path) as environ, crash.held(environ, after=60):
        run = crash.annotate(pools, out, environ | few, *judged)
        crash.await_requests(tmp_path, 60, run)
        crash.kill_tree(run)
    asked = len(crash.journal(tmp_path))
    status, printed = annotate(pools, out, crash.bare_environment(), *judged, "--collect")
    assert status == 3, printed
    assert "--collect" not in printed.splitlines()[-1], "the next step is the run itself"
    votes, failures = rows_of(out, "votes"), rows_of(out, "failures")
    assert 0 < len(votes) < 120 == len(votes) + len(failures)
    assert 0 < len({row["query_id"] for row in rows_of(out, "scores")}) < 8
    assert json.loads((out / "run.json").read_text())["finished"]
    assert len(crash.journal(tmp_path)) == asked
    with crash.fakes(tmp_path) as environ:
        for more in ((), ("--collect",)):
            status, printed = annotate(pools, out, environ | few, *judged, *more)
            assert status == 0, printed
        assert annotate(pools, whole, environ | few, *judged)[0] == 0
    assert crash.outputs(out) == crash.outputs(whole)
    keys = {vote["key"] for vote in votes}
    assert votes == [row for row in rows_of(out, "votes") if row["key"] in keys]
