"""Whether code has changed: a hash of a function, a class or an object, by source and state.

Seen are the source of functions and methods, default arguments, what closures and instances hold,
and what the code names in its own module: other functions, classes and plain values. Not seen are
other modules, files and servers, and what is reached by an attribute of something else. What cannot
be written down counts as changed every time, so that no old score is taken for it.
"""

import hashlib
import inspect
import pickle
import uuid
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

_DIGITS = 16
_NOT_WRITTEN = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__slotnames__"}
)
"""What Python adds to a class; the last when an object of it is first pickled."""


def source_hash(value: Any) -> str:
    """A hash of what a reranker does: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in _parts(value, _module_of(value), set()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:_DIGITS]


def _parts(value: Any, home: str, seen: set[int]) -> Iterator[bytes]:
    """All that tells a change; ``home`` is the module whose names are followed."""
    if isinstance(value, FunctionType | type) or _is_own(value, home):
        if id(value) in seen:
            return
        seen.add(id(value))
    if inspect.ismethod(value):
        yield from _parts(value.__func__, home, seen)
        yield from _parts(value.__self__, home, seen)
    elif isinstance(value, FunctionType):
        yield from _of_function(value, home, seen)
    elif isinstance(value, ModuleType):
        yield value.__name__.encode()
    elif inspect.isclass(value):
        yield from _of_class(value, home, seen)
    elif isinstance(value, property | staticmethod | classmethod):
        inner = (value.fget, value.fset) if isinstance(value, property) else (value.__func__,)
        for each in inner:
            yield from _parts(each, home, seen)
    elif _is_own(value, home):
        yield from _of_class(type(value), home, seen)
        for name, each in sorted(vars(value).items()):
            yield name.encode()
            yield from _parts(each, home, seen)
    else:
        yield _state(value)


def _is_own(value: Any, home: str) -> bool:
    """Whether it is an object of a class that is followed."""
    return type(value).__module__ == home and hasattr(value, "__dict__")


def _of_function(function: FunctionType, home: str, seen: set[int]) -> Iterator[bytes]:
    if function.__module__ != home:
        yield f"{function.__module__}.{function.__qualname__}".encode()
        return
    yield _source(function)
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # it is not filled yet
            continue
    held += [
        function.__globals__[n] for n in _names(function.__code__) if n in function.__globals__
    ]
    for each in held:
        yield from _parts(each, home, seen)


def _of_class(found: type, home: str, seen: set[int]) -> Iterator[bytes]:
    for each in found.__mro__:
        yield f"{each.__module__}.{each.__qualname__}".encode()
        if each.__module__ != home:
            continue
        for name, value in sorted(vars(each).items()):
            if name in _NOT_WRITTEN:
                continue
            yield name.encode()
            yield from _parts(value, home, seen)


def _names(code: CodeType) -> list[str]:
    """The names that code and the code in it look up, in a stable order."""
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _source(function: FunctionType) -> bytes:
    try:
        return inspect.getsource(function).encode()
    except (OSError, TypeError):  # it was typed where nobody keeps lines
        code = function.__code__
        plain = [each for each in code.co_consts if not isinstance(each, CodeType)]
        return code.co_code + repr((plain, code.co_names)).encode()


def _state(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=4)
    except Exception:  # noqa: BLE001 - whatever the caller's own objects raise
        return uuid.uuid4().bytes


def _module_of(value: Any) -> str:
    own = value if hasattr(value, "__qualname__") else type(value)
    return str(getattr(own, "__module__", ""))
