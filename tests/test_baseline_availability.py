"""Which baselines are said to work: a broken one is named with its reason and stops no other."""

from __future__ import annotations

import importlib.abc
import os
import subprocess
import sys

import pytest
import torch

import baselines


class _Breaking(importlib.abc.MetaPathFinder):
    """Makes the import of one module fail."""

    def __init__(self, module: str, error: BaseException) -> None:
        self.module, self.error = module, error

    def find_spec(self, fullname, path, target=None):
        if fullname == self.module:
            raise self.error


def break_import(monkeypatch, module: str, error: BaseException) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Breaking(module, error), *sys.meta_path])
    monkeypatch.setattr(baselines, "_working", {})


@pytest.mark.parametrize(
    "error, reason",
    [
        (RuntimeError("built for another torch\nstack"), "RuntimeError: built for another torch"),
        (OSError("undefined symbol: _ZN3c10"), "OSError: undefined symbol: _ZN3c10"),
        (SystemExit("no licence"), "SystemExit: no licence"),
        (ValueError(), "ValueError: no message"),
    ],
)
def test_broken_baseline_is_absent_with_its_reason_and_stops_no_other(monkeypatch, error, reason):
    others = {name: found for name, found in baselines.availability().items() if name != "dgl"}
    break_import(monkeypatch, "baselines.dgl_system", error)
    found = baselines.availability()
    dgl = found.pop("dgl")
    assert (dgl.ok, dgl.version, dgl.reason) == (False, None, reason)
    assert "install dgl" in dgl.remedy
    assert found == others
    with pytest.raises(baselines.BaselineUnavailable, match="to use it, install dgl") as caught:
        baselines.get_system("dgl")
    assert caught.value.reason == reason


def test_keyboard_interrupt_is_not_taken_for_a_broken_baseline(monkeypatch):
    break_import(monkeypatch, "baselines.dgl_system", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        baselines.availability()


def test_system_that_samples_wrongly_is_absent(monkeypatch):
    from baselines.ours import Salient

    monkeypatch.setattr(baselines, "_working", {})
    monkeypatch.setattr(Salient, "sampler", lambda *args, **kwargs: lambda seeds: (1, 0))
    found = baselines.availability()["salient"]
    assert not found.ok and found.reason.startswith("RuntimeError: sampled (1, 0)")


def test_unknown_system_is_refused():
    with pytest.raises(ValueError, match=r"'PyG'.*pyg_classic"):
        baselines.get_system("PyG")


def test_availability_leaves_the_random_state_alone(monkeypatch):
    monkeypatch.setattr(baselines, "_working", {})
    torch.manual_seed(123)
    expected = torch.rand(1)
    torch.manual_seed(123)
    baselines.availability()
    assert torch.equal(torch.rand(1), expected)


def run_with_fake_dgl(tmp_path, init: str, code: str) -> str:
    """Run ``code`` in a new process where ``dgl`` is a package with this ``__init__``."""
    package = tmp_path / "dgl"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(init)
    (package / "part.py").write_text("")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.strip()


def test_failed_dgl_import_leaves_nothing_behind(tmp_path):
    code = """
import sys
from baselines.dgl_shim import import_dgl
try:
    import_dgl()
except OSError as error:
    print(error, [name for name in sys.modules if name.split(".")[0] == "dgl"])
"""
    init = "import dgl.part\nraise OSError('cannot open libdgl.so')"
    assert run_with_fake_dgl(tmp_path, init, code) == "cannot open libdgl.so []"


@pytest.mark.parametrize("built_for_this_torch", [False, True])
def test_graphbolt_is_replaced_only_where_it_does_not_fit(tmp_path, built_for_this_torch):
    version = torch.__version__.split("+")[0] if built_for_this_torch else "1.0.0"
    code = """
from baselines.dgl_shim import graphbolt_is_stub, import_dgl
import_dgl()
print(graphbolt_is_stub())
"""
    graphbolt = tmp_path / "dgl" / "graphbolt"
    init = "import dgl.graphbolt"
    graphbolt.mkdir(parents=True)
    (graphbolt / "__init__.py").write_text("")
    (graphbolt / f"libgraphbolt_pytorch_{version}.so").write_text("")
    assert run_with_fake_dgl(tmp_path, init, code) == str(not built_for_this_torch)
