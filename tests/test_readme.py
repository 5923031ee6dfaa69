"""What README shows works as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric", reason="the models need torch-geometric")

ROOT = Path(__file__).resolve().parent.parent


def test_the_example_runs_and_leaves_gradients() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    # A graph made on the spot stands for the one that would be fetched.
    code = code.replace('"pubmed", split="random"', '"synthetic:tiny"')
    scope: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), scope)
    assert all(p.grad is not None for p in scope["model"].parameters())  # type: ignore[attr-defined]


def test_the_commands_are_targets_of_the_makefile() -> None:
    text = (ROOT / "README.md").read_text() + (ROOT / "REPRODUCE.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"make ([a-z-]+)", text))
    assert {"test", "reproduce"} <= named <= targets


def test_the_modules_named_in_the_documents_exist() -> None:
    for path in [ROOT / "README.md", ROOT / "REPRODUCE.md", *(ROOT / "docs").glob("*.md")]:
        for module in re.findall(r"python -m ([\w.]+)", path.read_text()):
            place = ROOT / module.replace(".", "/")
            assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"
