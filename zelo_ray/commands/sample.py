"""Write the sample data into a directory: ``zelo-ray sample DIR``."""

from pathlib import Path

from zelo_ray.errors import OptionError

_PACKAGE = Path(__file__).parents[1]
_SOURCES = (_PACKAGE / "data", _PACKAGE.parent / "data")
"""Where the sample is: in an installed package, and beside the package in a clone."""


def write_sample(directory: str) -> list[str]:
    """Copy the sample into a directory, where parts of it may be; return its files there.

    Raises:
        OptionError: a file of such a name is there, with other content.
        OSError: a file cannot be written.
    """
    source = next(place for place in _SOURCES if (place / "sample").is_dir())
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    target = Path(directory).expanduser()
    contents = {target / name: (source / name).read_bytes() for name in files}
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise OptionError(f"sample: {path} is another file; name another directory")
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(content)
    return [str(name) for name in files]
