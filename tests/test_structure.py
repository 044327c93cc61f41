"""The shape of the source tree: a first floor that a stranger can read, and names that stand for one thing."""

import ast
from collections import Counter
from pathlib import Path

import dissensus

SOURCE = Path(dissensus.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))


def test_at_most_seventeen_names_stand_on_the_first_floor():
    names = {path.name for path in SOURCE.iterdir()} - {"__init__.py", "__main__.py", "__pycache__", "py.typed"}
    assert len(names) <= 17, sorted(names)


def test_no_file_name_occurs_twice():
    names = Counter(path.name for path in MODULES if not path.name.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_public_class_name_occurs_twice():
    names = Counter(
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
