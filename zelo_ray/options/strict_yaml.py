"""Parse YAML strictly: refuse duplicate keys, and references that would fill the memory."""

from typing import Any

import yaml

_MOST = 100_000  # values, with all references expanded
_MERGE = "tag:yaml.org,2002:merge"


class _RefusedError(Exception):
    """An error for valid YAML that is refused here, with its line and the reason."""

    def __init__(self, node: yaml.Node, why: str) -> None:
        super().__init__(f"line {node.start_mark.line + 1}: {why}")


class _Loader(yaml.SafeLoader):
    """A loader for plain types that refuses duplicate keys, of which PyYAML takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = list[Any]()  # keys need not be hashable yet
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue  # keys that come from ``<<`` may be overridden
            if (key := self.construct_object(key_node, deep=True)) in keys:
                raise _RefusedError(key_node, f"{key!r:.60} is given twice")
            keys.append(key)
        return super().construct_mapping(node, deep)


def read_yaml(text: str, what: str, verb: str = "is") -> list[Any]:
    """Parse the documents of a text, without empty ones.

    Args:
        text: the YAML.
        what: its name in messages.
        verb: "are" if the name is a plural.

    Raises:
        ValueError: it is not YAML, a mapping has a key twice, or it is too large with references
            expanded; the message is one line, and gives the line of the text.
    """
    documents = list[Any]()
    try:
        for node in yaml.compose_all(text, _Loader):
            _refuse_huge(node, {}, frozenset())
        documents += yaml.load_all(text, _Loader)
    except _RefusedError as error:
        raise ValueError(f"{what}, {error}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError for invalid dates and numbers
        raise ValueError(f"{what} {verb} not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"{what} {verb} not valid YAML: it is nested too deeply") from None
    return [document for document in documents if document is not None]


def _refuse_huge(node: yaml.Node, sizes: dict[int, int], above: frozenset[int]) -> int:
    """Count the values of a node with references expanded; refuse too many."""
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
        raise _RefusedError(node, f"more than {_MOST:,} values with references expanded")
    return sizes[id(node)]
