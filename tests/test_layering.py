"""Data flows one way: no package imports from a later stage, and the core knows no Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What each package may import of the others.
ALLOWED = {
    "salient": {"salient"},
    "baselines": {"salient", "baselines"},
    "benchmarks": {"salient", "baselines", "benchmarks"},
    "analysis": {"salient", "analysis"},
}


def imports_of(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_no_later_stage(package: str) -> None:
    paths = list((ROOT / package).rglob("*.py"))
    assert paths
    for path in paths:
        for name in imports_of(path):
            first = name.split(".")[0]
            assert first not in ALLOWED or first in ALLOWED[package], f"{path}: {name}"


def test_analysis_reads_records_and_nothing_else_of_salient() -> None:
    for path in (ROOT / "analysis").rglob("*.py"):
        for name in imports_of(path):
            if name.split(".")[0] == "salient":
                assert name.split(".")[:2] == ["salient", "records"], f"{path}: {name}"


def test_the_core_includes_the_standard_library_only() -> None:
    paths = [*(ROOT / "csrc" / "core").iterdir()]
    assert paths
    for path in paths:
        for include in re.findall(r'#include [<"]([^>"]+)[>"]', path.read_text(encoding="utf-8")):
            assert not re.search(r"python|pybind|torch|ATen|cuda", include, re.I), f"{path}"
