"""Check whether Ray can be used: a given cluster, or one on this machine."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from zelo_ray.commands.doctor.finding import Finding
from zelo_ray.errors import ZeloError
from zelo_ray.options import AskingOptions
from zelo_ray.ray.placement import nodes_alive
from zelo_ray.ray.session import ray_session

_TOKEN = "~/.ray/auth_token"  # noqa: S105 - where Ray keeps it


def check_ray(out: str | None) -> Iterator[Finding]:
    """Connect to Ray, or start it, as a run does, and disconnect.

    Args:
        out: the output of a run; all nodes of a cluster must see it.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    what = f"Ray at {address}" if address else "Ray on this machine"
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        try:
            with ray_session(AskingOptions.model_validate({"out": out or folder})):
                nodes = len(nodes_alive())
        except (ZeloError, OSError) as error:
            do = "correct RAY_ADDRESS, or unset it" if address else "fix what it reports; free /tmp"
            yield Finding(what, "wrong", str(error), do)
        else:
            took = time.monotonic() - began
            yield Finding(what, "ok", f"{nodes:,} node(s), after {took:.0f} s")
    if os.environ.get("RAY_AUTH_MODE") == "token" and not _has_token():
        do = "ray get-auth-token --generate"
        yield Finding("Ray's token", "warn", "RAY_AUTH_MODE is token, and there is none", do)


def _has_token() -> bool:
    has_file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", _TOKEN)).expanduser().exists()
    return has_file or bool(os.environ.get("RAY_AUTH_TOKEN"))
