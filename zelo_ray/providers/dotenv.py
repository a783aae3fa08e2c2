"""Take keys from a file ``.env`` in the working directory, but nothing that could misuse them.

Someone who can put a file beside the data must not learn the keys of the shell or run code. So only
keys are taken. A base URL is used only with the key from the same file; see
`zelo_ray.providers.addresses`.
"""

import contextlib
import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
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
    is_reranker,
    load_provider,
    parse_judge,
)
from zelo_ray.records import Judge

_MOST = 2**20  # bytes
_YES = {"1", "true", "t", "yes", "y"}
_WITHOUT_KEY = {*PROMPTLESS_PROVIDERS, "custom"}
_RANKERS = ("listwise", "pointwise", "rerank")
"""Ways of ordering by a judge, which is named behind them."""


def take_keys(options: CommandOptions, environ: MutableMapping[str, str]) -> list[str]:
    """Take the keys of ``.env`` that a command may need; return lines on what was not taken.

    Raises:
        OptionError: the file cannot be read, or holds a base URL without its key.
    """
    return DotenvFile(environ).take(options)


class DotenvFile:
    """The file ``.env`` of the working directory, from which ``environ`` takes what it lacks.

    ``path`` is empty if there is none, or it must not be read, and ``refused`` says why; ``taken``
    are the names of the variables taken from it.

    Raises:
        OptionError: it cannot be read, or is not text.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self.path, self.refused, self.taken = "", "", set[str]()
        self._values: Mapping[str, str] = {}
        self._environ = environ
        if environ.get("PYTHON_DOTENV_DISABLED", "").casefold() in _YES:
            return
        path = Path.cwd() / ".env"
        text, self.refused = _read(path)
        if text is not None:
            values = dotenv_values(stream=io.StringIO(text), interpolate=False)
            self.path = str(path)
            self._values = {name: value for name, value in values.items() if value}

    def take(self, options: CommandOptions) -> list[str]:
        """Take the keys of all providers, the base URLs beside them, and keys that options name.

        Returns:
            Lines on the variables that were not taken, by name and without values.

        Raises:
            OptionError: a base URL stands there without its key.
        """
        names = (*PROVIDERS, *RERANKERS) if self._values else ()
        providers = [load_provider(name) for name in names if name not in _WITHOUT_KEY]
        for variable in {provider.url_variable for provider in providers} & self._values.keys():
            keys = {
                name
                for provider in providers
                for name in provider.key_variables
                if provider.url_variable == variable
            }
            if not keys & self._values.keys():
                raise OptionError(
                    f"{variable} stands in .env without its key: write the key there, too, or "
                    "export the URL"
                )
        for provider in providers:
            self.take_names(provider.key_variables)
        for provider in providers:
            variable, url = provider.url_variable, self._values.get(provider.url_variable, "")
            used = next((name for name in provider.key_variables if self._environ.get(name)), "")
            # only where the key that will be used is from this file
            if url and used in self.taken and not self._environ.get(variable):
                stored_as, value = store_url_for_key(variable, url, self._values[used])
                self._environ[stored_as] = value
                self.taken.add(variable)

        variables: Mapping[str, str] = getattr(options, "api_key_env", {})
        self.take_names(variables.values())
        for name in _judges_named_in(options) if self._values else ():
            with contextlib.suppress(PanelError):
                own = parse_judge(name).provider
                if is_own_provider(own):
                    self.take_names(load_provider(own).key_variables)
        skipped = [name for name in self._values if name not in self.taken]
        what = "only keys are, and a base URL beside its own key: set others in the shell"
        lines = [f"not taken: {', '.join(skipped)}; {what}"] if skipped else []
        return [*filter(None, [self.refused]), *lines]

    def take_names(self, names: Iterable[str]) -> None:
        """Take the named variables that are in the file and not set yet."""
        for name in names:
            value = self._values.get(name, "")
            if value and self._environ.setdefault(name, value) == value:
                self.taken.add(name)

    def has_value(self, name: str, value: str) -> bool:
        """Return whether a variable has this value in the file."""
        return self._values.get(name) == value


def _judges_named_in(options: CommandOptions) -> Iterator[str]:
    """Yield the judges of a panel, of ways to try, and of rerankers, as ``listwise:JUDGE``."""
    yield from getattr(options, "judges", ())
    tried = (word.partition("=") for word in getattr(options, "try_", ()))
    yield from (value for name, _, value in tried if name == "judges")
    for changes in getattr(options, "candidates", {}).values():
        judges = changes.get("judges", ())
        yield from [judges] if isinstance(judges, str) else judges
    for name in getattr(options, "rerankers", ()):
        reranker = name.rpartition("=")[2]
        ranker, _, judge = reranker.partition(":")
        if ranker in _RANKERS:
            yield judge
        elif is_reranker(ranker):
            yield reranker


def describe_keys(
    judges: Mapping[str, Judge], variables: Mapping[str, str], environ: MutableMapping[str, str]
) -> list[str]:
    """List the keys from ``.env``, and those sent to another address than their provider's.

    Judges, and the variables of their keys (see `find_key`), are by the names that users give them.
    """
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


def _read(path: Path) -> tuple[str | None, str]:
    """Return the text of the file if only this user could write it, else one line on why not."""
    try:
        # A link may point anywhere, and opening a pipe would block.
        at = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        if path.is_symlink():
            return None, "not read: it is a link; put the file itself here"
        raise OptionError(f".env: cannot be read ({error.strerror})") from None
    status = os.fstat(at)
    if not stat.S_ISREG(status.st_mode):
        os.close(at)
        return None, "not read: it is not a regular file"
    with os.fdopen(at, "rb") as file:
        if status.st_uid != os.getuid():
            what = f"it belongs to another user ({status.st_uid}, and this is {os.getuid()})"
            return None, f"not read: {what}; make it yours, or set its keys in the shell"
        if status.st_mode & stat.S_IWOTH:
            return None, "not read: it is writable by everyone; chmod 600 .env"
        try:
            text = file.read(_MOST).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f".env: cannot be read ({error})") from None
    if "\0" in text:
        raise OptionError(".env: cannot be read (it holds a NUL character)")
    return text, ""
