"""Read YAML in which nothing is lost without a word, and which cannot fill the memory."""

from typing import Any

import yaml

_MOST = 100_000  # values, once what is referred to is written out
_MERGE = "tag:yaml.org,2002:merge"


class _RefusedError(Exception):
    """An error for valid YAML that is refused here: where, and why."""

    def __init__(self, node: yaml.Node, why: str) -> None:
        super().__init__(f"line {node.start_mark.line + 1}: {why}")


class _Loader(yaml.SafeLoader):
    """YAML's plain types, and of a key that is given twice not silently the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = list[Any]()  # keys need not be hashable yet
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue  # of ``<<``, whose keys others may replace
            if (key := self.construct_object(key_node, deep=True)) in keys:
                raise _RefusedError(key_node, f"{key!r:.60} is given twice")
            keys.append(key)
        return super().construct_mapping(node, deep)


def read_yaml(text: str, what: str, verb: str = "is") -> list[Any]:
    """Read the documents of a text; those that hold nothing are left out.

    Args:
        text: the YAML.
        what: what it is called in messages.
        verb: "are", where that is several.

    Raises:
        ValueError: it is no YAML, a mapping holds a key twice, at any depth, or references make
            too much of it; the message is one line, and says in which line of the text.
    """
    documents = list[Any]()
    try:
        for node in yaml.compose_all(text, _Loader):
            _refuse_huge(node, {}, frozenset())
        documents += yaml.load_all(text, _Loader)
    except _RefusedError as error:
        raise ValueError(f"{what}, {error}") from None
    except (yaml.YAMLError, ValueError) as error:  # the latter of a date or a number that none is
        raise ValueError(f"{what} {verb} not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"{what} {verb} not valid YAML: it is nested too deeply") from None
    return [document for document in documents if document is not None]


def _refuse_huge(node: yaml.Node, sizes: dict[int, int], above: frozenset[int]) -> int:
    """Count the values of a node, with all that it refers to; refuse too many."""
    if id(node) in above:
        raise _RefusedError(node, "it refers to itself")
    if id(node) not in sizes:
        parts = list[yaml.Node]()
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            parts = node.value
        sizes[id(node)] = 1 + sum(_refuse_huge(part, sizes, above | {id(node)}) for part in parts)
    if sizes[id(node)] > _MOST:
        raise _RefusedError(node, f"more than {_MOST:,} values, with what it refers to")
    return sizes[id(node)]
