"""Write the sample data into a directory: ``zelo-ray sample DIR``."""

from pathlib import Path

from zelo_ray.command_options import SampleOptions
from zelo_ray.engine.job import Watch
from zelo_ray.errors import OptionError
from zelo_ray.report.command_lines import command_of
from zelo_ray.report.results import Results

_PACKAGE = Path(__file__).parents[1]
_SOURCES = (_PACKAGE / "data", _PACKAGE.parent / "data")
"""Where the sample is: in an installed package, and beside the package in a clone."""


def run(options: SampleOptions, _watch: Watch) -> Results:
    """Write the sample, and name a first run of it by its recorded judges."""
    out = options.out
    source = next(place for place in _SOURCES if (place / "sample").is_dir())
    names = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    target = Path(out).expanduser()
    contents = {target / name: (source / name).read_bytes() for name in names}
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise OptionError(f"sample: {path} is another file; name another directory")
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(content)
    lines = [f"{out} holds the sample: {', '.join(map(str, names))}"]
    judges = ("--judges", f"recorded:{Path(out, 'recordings')}")
    return Results(
        {"counts": {"files": len(names)}},
        out=out,
        lines=lines,
        lead=lines,
        files=[f"{out}/{name}" for name in names],
        next_command=command_of("annotate", str(Path(out, "sample")), *judges, "--out", "out"),
    )
