"""The private names of others that a piece of code uses."""

import ast
import re
from collections.abc import Iterator

PRIVATE = re.compile(r"_[a-z]\w*")
# What an object says of itself, or of its own class, is no other's.
OWN = {"self", "cls"}


def private_names(tree: ast.AST) -> Iterator[str]:
    """Yield the private names of others: attributes, imports, and texts by which to look one up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in OWN):
                yield node.attr
        elif isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from filter(PRIVATE.fullmatch, parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from filter(PRIVATE.fullmatch, [node.value])
