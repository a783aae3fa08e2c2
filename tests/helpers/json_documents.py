"""Documents that ``--json`` prints, held against their schema."""

import json
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

from zelo_ray import cli
from zelo_ray.errors import ExitStatus

SCHEMA = json.loads((files("zelo_ray.report") / "report.schema.json").read_text())


def parsed_strictly(text: str) -> Any:
    """The value of one JSON document, without NaN and Infinity, which are no JSON."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def valid(text: str, status: int) -> dict[str, Any]:
    """The document that a command printed, if it is one, and of the schema's form."""
    document = parsed_strictly(text)
    errors = [f"{error.json_path}: {error.message}"[:300] for error in _errors(document)]
    assert not errors, errors
    assert document["status"] == status
    ended_by_error = status in (ExitStatus.FAILED, ExitStatus.INVALID)
    assert bool(document["error"]) == ended_by_error or document["command"] == "doctor"
    return document


def _errors(document: Any) -> Any:
    for error in Draft202012Validator(SCHEMA).iter_errors(document):
        yield from error.context or [error]


def printed(capsys: Any, *words: str) -> dict[str, Any]:
    """Run a command with ``--json``; return what it printed, and the rest as ``stderr``."""
    capsys.readouterr()
    status = cli.main([*map(str, words), "--json"])
    out, err = capsys.readouterr()
    return valid(out, status) | {"stderr": err}
