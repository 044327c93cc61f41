"""The documentation says what the code does: generated parts are fresh, examples run, every public thing is named."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dissensus.cli import cli
from dissensus.labels.delivery import DELIVERIES
from dissensus.labels.mixing import MIXINGS
from dissensus.labels.targets import TARGETS
from dissensus.metrics import METRICS
from dissensus.models import ARCHITECTURES
from dissensus.recipes import RECIPES

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_parts_are_up_to_date(generator):
    for page, text in generator.pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: run `make docs`"


def test_a_stale_page_is_noticed(generator, monkeypatch):
    monkeypatch.setattr(generator, "PARTS", {**generator.PARTS, "layers": lambda: "other layers"})
    stale = [page.name for page, text in generator.pages().items() if page.read_text(encoding="utf-8") != text]
    assert stale == ["architecture.md"]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("metrics.md", METRICS),
        ("recipes.md", RECIPES),
        ("commands.md", cli.commands),
        ("models.md", ARCHITECTURES),
        ("architecture.md", [*TARGETS, *DELIVERIES, *MIXINGS]),
    ],
)
def test_every_public_thing_is_in_its_page(page, names):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("https://") or (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize(
    "page", ["README.md", "docs/recipes.md", "docs/extending.md", "docs/models.md", "docs/own-loop.md"]
)
def test_python_in_the_docs_runs_as_written(page, tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL))
    cli(["example", str(tmp_path / "try")], standalone_mode=False)
    ended = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


def test_the_test_command_of_ci_is_the_one_in_the_readme():
    commands = re.findall(r"## Tests\n\n```sh\n(.*?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").strip().endswith(commands[0])
