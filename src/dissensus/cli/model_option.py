"""An architecture as a user writes it: `resnet20`, `resnet18(width=8)`, `sngp(trunk=resnet20)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.models import Architecture


def read_model(text: str) -> Architecture:
    """The architecture with these options, each checked; an unknown name lists those there are."""
    from dissensus.models import ARCHITECTURES
    from dissensus.store.encoding import decode
    from dissensus.store.spec import UnknownFormatError

    hint = f"Write a name, or a name with options such as resnet18(width=8). There are: {', '.join(ARCHITECTURES)}"
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        document = _document(tree)
        architecture: Architecture = decode(document, ARCHITECTURES)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        if isinstance(problem, InputError) and not isinstance(problem, UnknownFormatError):
            raise
        why = problem.what if isinstance(problem, InputError) else "it cannot be read"
        raise InputError(f"{text!r} is no model: {why}", where="--model", hint=hint, state="") from None
    return architecture


def _document(node: ast.expr) -> Any:
    """A name or a call as a spec writes it; anything else is a plain value."""
    if isinstance(node, ast.Name):
        return {"name": node.id}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        options = {keyword.arg: _value(keyword.value) for keyword in node.keywords}
        if None in options or "name" in options:
            raise ValueError
        return {"name": node.func.id, **options}
    raise ValueError


def _value(node: ast.expr) -> Any:
    if isinstance(node, (ast.Name, ast.Call)):
        return _document(node)
    value = ast.literal_eval(node)
    return list(value) if isinstance(value, tuple) else value
