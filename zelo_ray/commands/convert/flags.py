"""The flags of ``convert``, as `argparse` takes them; each command has some."""

from collections.abc import Mapping
from typing import Any

FROM = "the --out of annotate, annotated.jsonl, or BEIR or MTEB data"
FLAGS: Mapping[str, Mapping[str, Any]] = {
    "source": {"metavar": "FROM", "help": FROM},
    "--corpus": {"help": "documents: JSON lines, lines id<TAB>text, or a BEIR directory"},
    "--queries": {"help": "queries, in the same formats"},
    "--runs": {"nargs": "+", "metavar": "RUN", "help": "TREC runs, or runs.parquet of a bake-off"},
    "--depth": {"type": int, "help": "how deep to look into runs (default %(default)s)"},
    "--qrels": {"help": "judgments: every document judged there is wanted, too"},
    "--truth": {"required": True, "help": f"judgments: {FROM}, or TREC qrels"},
    "--pools": {"nargs": "+", "help": "JSON lines with the texts, if they are elsewhere"},
    "--all": {"action": "store_true", "help": "the pools without holes, too, as they are"},
    "--decimals": {"type": int, "help": "round relevance; 0 for tools that know whole grades only"},
    "--grades": {
        "action": "store_true",
        "help": "the whole grade that a panel gave, rather than its mean",
    },
    "--without-ambiguous": {
        "action": "store_true",
        "help": "leave out documents over which the panel is split",
    },
    "--name": {"help": "of the run, where a file holds several; else what to call it"},
    "--positive": {
        "type": float,
        "default": 1.0,
        "help": "relevance from which on a document is positive (default %(default)s)",
    },
    "answers": {"nargs": "+", "metavar": "ANSWERS", "help": "its models' answers, or directories"},
    "--votes": {"help": "people's votes: a pool for each two answers that they compared"},
    "--pairs": {"type": int, "default": 0, "help": "how many of these to draw (default: all)"},
    "--seed": {"type": int, "default": 0, "help": "of the draw (default %(default)s)"},
    "--labels-out": {"metavar": "FILE", "help": "where to write the votes on these pools"},
    "--out": {"required": True, "help": "where to, a path or URL; .gz and .zst are packed"},
}
