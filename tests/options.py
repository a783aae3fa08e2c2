"""``zelo-ray`` with options that tests give in the environment, below flags and config files.

``TEST_OPTION_LIMITS`` holds limits as JSON, and so on. Servers of tests take more calls a minute
than any account, so that nearly every run has limits of its own.
"""

import json
import os

import yaml

from zelo_ray import cli, options, protocols
from zelo_ray.api import settings
from zelo_ray.cli import arguments

_PREFIX = "TEST_OPTION_"


def give_options() -> None:
    """Have all commands of this process take the options of the variables that they know."""
    load = options.load_options

    def load_with_given(kind, values, config="", **more):
        names = {name: f"{_PREFIX}{name.upper()}" for name in kind.model_fields}
        given = {name: json.loads(os.environ[v]) for name, v in names.items() if v in os.environ}
        told = (yaml.safe_load(config) or {}) if given else {}
        return load(kind, values, yaml.safe_dump(given | told) if given else config, **more)

    for module in (options, protocols, settings, arguments):
        module.load_options = load_with_given


def main() -> int:
    """Run ``zelo-ray`` so."""
    give_options()
    return cli.main()
