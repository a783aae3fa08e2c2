"""Take keys from a file ``.env`` in the working directory, but nothing that could misuse them.

Someone who can put a file beside the data must not learn the keys of the shell or run code. So only
keys are taken. A base URL is used only with the key from the same file; see
`zelo_ray.providers.addresses`.
"""

import contextlib
import io
import os
import stat
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path

from dotenv import dotenv_values

from zelo_ray.errors import OptionError, PanelError
from zelo_ray.options import CommandOptions
from zelo_ray.providers.addresses import foreign_address, store_url_for_key
from zelo_ray.providers.panel import key_names
from zelo_ray.providers.registry import (
    PROMPTLESS_PROVIDERS,
    PROVIDERS,
    RERANKERS,
    is_own_provider,
    load_provider,
    parse_judge,
)
from zelo_ray.records import Judge

_MOST = 2**20  # bytes
_YES = {"1", "true", "t", "yes", "y"}
_WITHOUT_KEY = {*PROMPTLESS_PROVIDERS, "custom"}


def take_keys(options: CommandOptions, environ: MutableMapping[str, str]) -> list[str]:
    """Take the keys of ``.env`` that a command may need; return lines on what was not taken."""
    return DotenvFile(environ).take(options)


class DotenvFile:
    """The file ``.env`` of the working directory, from which ``environ`` takes what it lacks."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self.path, self._refused, self._taken = "", "", set[str]()
        self._values: Mapping[str, str] = {}
        self._environ = environ
        if environ.get("PYTHON_DOTENV_DISABLED", "").casefold() not in _YES:
            path = Path.cwd() / ".env"
            text, self._refused = _read(path)
            values = dotenv_values(stream=io.StringIO(text), interpolate=False)
            self._values = {name: value for name, value in values.items() if value}
            self.path = str(path) if text else ""

    def take(self, options: CommandOptions) -> list[str]:
        """Take keys, and the base URLs beside them; return lines on what was not taken, by name."""
        self.take_names(getattr(options, "api_key_env", {}).values())
        names = (*PROVIDERS, *RERANKERS) if self._values else ()
        for provider in (load_provider(name) for name in names if name not in _WITHOUT_KEY):
            variable, keys = provider.url_variable, provider.key_variables
            url = self._values.get(variable, "")
            if url and self._values.keys().isdisjoint(keys):
                raise OptionError(
                    f"{variable} stands in .env without its key: write the key there, too, or "
                    "export the URL"
                )
            self.take_names(keys)
            used = next((name for name in keys if self._environ.get(name)), "")
            # only where the key that will be used is from this file
            if url and used in self._taken and not self._environ.get(variable):
                stored_as, value = store_url_for_key(variable, url, self._values[used])
                self._environ[stored_as] = value
                self._taken.add(variable)
        for name in getattr(options, "judges", ()) if self._values else ():
            with contextlib.suppress(PanelError):
                if is_own_provider(own := parse_judge(name).provider):
                    self.take_names(load_provider(own).key_variables)
        skipped = [name for name in self._values if name not in self._taken]
        what = "only keys of providers and of api_key_env are, and a base URL beside its own key"
        lines = [f"not read: {self._refused}"] if self._refused else []
        return [*lines, *([f"not taken: {', '.join(skipped)}; {what}"] if skipped else [])]

    def take_names(self, names: Iterable[str]) -> None:
        """Take the named variables that are in the file and not set yet."""
        for name in names:
            value = self._values.get(name, "")
            if value and self._environ.setdefault(name, value) == value:
                self._taken.add(name)

    def has_value(self, name: str, value: str) -> bool:
        """Return whether a variable has this value in the file."""
        return self._values.get(name) == value


def describe_keys(
    judges: Mapping[str, Judge], variables: Mapping[str, str], environ: MutableMapping[str, str]
) -> list[str]:
    """List the keys from ``.env``, and those sent to another address than their provider's."""
    try:
        file = DotenvFile(environ)
    except OptionError:
        return []
    from_file, lines = dict[str, None](), dict[str, None]()
    for name, judge in judges.items():
        by_judge = {judge.name: variables[name]} if name in variables else {}
        variable = next((v for v in key_names(judge, by_judge) if environ.get(v)), "")
        key = environ.get(variable, "")
        if key and file.has_value(variable, key):
            from_file[variable] = None
        if key and (url := foreign_address(judge, load_provider(judge.provider), key, environ)):
            lines[f"{variable} goes to {url}"] = None
    read = [f"{file.path}: {', '.join(from_file)} read from it"] if from_file else []
    return [*read, *lines]


def _read(path: Path) -> tuple[str, str]:
    """Return the text of the file, and why it is not read: others may have written it."""
    try:
        # A link may point anywhere, and opening a pipe would block.
        at = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return "", ""
    except OSError as error:
        if path.is_symlink():
            return "", "it is a link; put the file itself here"
        raise OptionError(f".env: cannot be read ({error.strerror})") from None
    status, refused = os.fstat(at), ""
    if not stat.S_ISREG(status.st_mode):
        refused = "it is not a regular file"
    elif status.st_uid != os.getuid():
        refused = f"it belongs to another user ({status.st_uid}): set its keys in the shell"
    elif status.st_mode & stat.S_IWOTH:
        refused = "it is writable by everyone; chmod 600 .env"
    if refused:
        os.close(at)
        return "", refused
    with os.fdopen(at, "rb") as file:
        try:
            text = file.read(_MOST).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f".env: cannot be read ({error})") from None
    if "\0" in text:
        raise OptionError(".env: cannot be read (it holds a NUL character)")
    return text, ""
