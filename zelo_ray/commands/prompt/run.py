"""Run `prompt`: find the requests that judges would get."""

import os

from zelo_ray.command_options import PromptOptions
from zelo_ray.commands.prompt.find import find_requests, requests_of_run
from zelo_ray.commands.prompt.screen import bodies_of, describe_requests
from zelo_ray.engine.job import Watch
from zelo_ray.report.results import Results


def run(options: PromptOptions, _watch: Watch) -> Results:
    """Find the requests about a query, of an input or of a run."""
    if options.inputs:
        found = find_requests(options, os.environ)
    else:
        found = requests_of_run(options.out, os.environ, options.query, options.doc)
    shown = bodies_of(found) if options.body else describe_requests(found)
    record = {
        "query_id": found.query_id,
        "query": found.query,
        "requests": found.requests,
        "known_requests": found.known_count,
        "has_later_rounds": found.has_later_rounds,
    }
    return Results(record, lines=[*shown], notes=found.notes)
