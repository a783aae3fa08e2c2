"""How runs of 25 documents and three free judges grow with their queries, and what large ones take.

Measures whole runs of the command line at some sizes, draws a line through each figure, says how
far one more size that was not used lies from it, and foretells 100,000 queries and a million under
the limits that are given. Run: python -m benchmarks.scale 100 300 1000 --check 3000
"""

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.scale.measured import Run, measure
from benchmarks.scale.plan import Account, beyond, figures, fitted, forecast
from zelo_ray.records import Usage

PANEL = ("openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "gemini:gemini-3.8-flash")


def told(name: str, value: float) -> str:
    if name.startswith(("seconds", "lap")):
        return f"{value:,.1f} s"
    return f"{value / 1e6:,.1f} MB"


def measured(queries: int, executor: str, keep: Path | None) -> Run:
    """A run's figures, from the file if it was measured before."""
    known = json.loads(keep.read_text()) if keep and keep.exists() else {}
    name = f"{queries} {executor}"
    if name not in known:
        with tempfile.TemporaryDirectory() as folder:
            known[name] = asdict(measure(queries, executor, Path(folder)))
        if keep:
            keep.write_text(json.dumps(known, indent=1))
    run = Run(**known[name])
    print(f"\n{queries:,} queries, {run.calls:,} answers, {executor}")
    for name, value in figures(run).items():
        print(f"  {name:24} {told(name, value):>14}")
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", type=int, nargs="+", help="sizes that lines are drawn through")
    parser.add_argument("--check", type=int, help="one more, to see how far it lies from them")
    parser.add_argument("--executor", default="auto", help="auto, local or ray")
    parser.add_argument("--keep", type=Path, help="file for what was measured, so that it is once")
    parser.add_argument("--rpm", type=float, default=10_000, help="requests a minute, each judge")
    parser.add_argument("--tpm", type=float, default=10e6, help="tokens a minute, each judge")
    parser.add_argument("--actors", type=int, default=1, help="actors of each provider")
    parser.add_argument("--per-actor", type=float, default=400.0, help="calls a second of one")
    parser.add_argument("--tokens", type=int, nargs=2, default=(1000, 120), help="in, out a call")
    flags = parser.parse_args()
    lines = fitted([measured(queries, flags.executor, flags.keep) for queries in flags.queries])
    if flags.check:
        print(f"\nmeasured at {flags.check:,}, by what the line says there")
        for name, ratio in beyond(lines, measured(flags.check, flags.executor, flags.keep)).items():
            print(f"  {name:24} {ratio:6.2f}")
    given = (flags.rpm, flags.tpm, flags.actors, flags.per_actor, Usage(*flags.tokens))
    accounts = [Account(judge, *given) for judge in PANEL]
    for queries in (100_000, 1_000_000):
        print(f"\nforetold for {queries:,} queries")
        for name, value in forecast(queries, lines, accounts).items():
            print(f"  {name:30} {value}")


if __name__ == "__main__":
    main()
