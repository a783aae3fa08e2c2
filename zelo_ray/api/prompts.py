"""Provide `prompt`, and the `Prompts` that it returns."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from zelo_ray.api.settings import Place, prompt_options
from zelo_ray.api.store_inputs import with_pools
from zelo_ray.api.tables import PlainText
from zelo_ray.commands.prompt import FoundRequests, ShownRequest, find_requests
from zelo_ray.commands.prompt.screen import describe_requests

_ABSENT = "-"


class Prompts(PlainText):
    """Requests to judges, as the text that the terminal shows, and as objects.

    Attributes:
        requests: one `zelo_ray.commands.prompt.ShownRequest` each, with ``system``, ``user``,
            ``schema``, ``options``, ``body``, tokens and dollars.
    """

    requests: tuple[ShownRequest, ...]

    def __new__(cls, result: FoundRequests) -> "Prompts":
        """Build the text from the requests."""
        text = super().__new__(cls, "\n".join(describe_requests(result)))
        text.requests = result.requests
        return text


def prompt(
    inputs: Any,
    *,
    query: str = "",
    doc: str | tuple[str, ...] | list[str] = (),
    out: Place | None = None,
    config: Place | None = None,
    **options: Any,
) -> Prompts:
    """Show the exact requests that judges get about one query, without a call or a key.

    Args:
        inputs: as for `annotate`.
        query: id of the query, its beginning or a part of its text; empty: the first one.
        doc: ids of documents: the requests that show all of these, and of one all that show it.
            Without it, one request of each judge and round.
        out: directory or URL of a run, whose replies tell what later rounds ask.
        config: a YAML file of options, which keywords override.
        **options: those of ``zelo-ray annotate``.

    Returns:
        A text that also has the ``requests``.

    Raises:
        OptionError, PanelError, InputError: as `annotate` would.
        NothingToExplain: the input has no such query or document.
    """
    sought = {"query": str(query), "doc": [doc] if isinstance(doc, str) else list(doc)}
    settings = prompt_options({"inputs": _ABSENT, "out": out, **sought, **options}, config)
    with TemporaryDirectory() as folder:
        settings = with_pools(settings, "inputs", inputs, folder, lambda _: None)
        return Prompts(find_requests(settings, os.environ))
