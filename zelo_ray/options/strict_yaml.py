"""Parse YAML strictly: refuse duplicate keys."""

from typing import Any

import yaml

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
        ValueError: it is not YAML, or a mapping has a key twice; the message is one line, and gives
            the line of the text.
    """
    documents = list[Any]()
    try:
        documents += yaml.load_all(text, _Loader)
    except _RefusedError as error:
        raise ValueError(f"{what}, {error}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError for invalid dates and numbers
        raise ValueError(f"{what} {verb} not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"{what} {verb} not valid YAML: it is nested too deeply") from None
    return [document for document in documents if document is not None]
