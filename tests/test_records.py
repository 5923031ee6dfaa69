"""Result records: schema, refusals, and files that stay whole whatever happens."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pydantic import ValidationError

from record_factory import make_epochs, make_record, make_stage
from salient import provenance
from salient.records import (
    Accuracy,
    Device,
    Record,
    Sample,
    System,
    new_record_id,
    read_records,
    write_record,
)

ROOT = Path(__file__).resolve().parent.parent

# Writes records of about 2 MB until it is killed.
WRITER = """
import sys
sys.path[:0] = sys.argv[2:4]
from record_factory import make_record
from salient.records import Sample, write_record
samples = [Sample(name="t", unit="s", values=[i / 7 for i in range(100_000)])]
print("ready", flush=True)
for repeat in range(int(sys.argv[4])):
    write_record(sys.argv[1], make_record(samples=samples, repeat=repeat))
"""


def start_writer(folder: Path, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(folder), str(ROOT), str(ROOT / "tests")]
    return subprocess.Popen([*arguments, str(count)], stdout=subprocess.PIPE, text=True)


def write_line(folder: Path, text: str, name: str = "made.jsonl") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def as_dict(record: Record) -> dict[str, object]:
    return json.loads(record.model_dump_json())


def test_record_survives_the_round_trip(tmp_path: Path) -> None:
    record = make_record(
        test=0.1 + 0.2,
        samples=[Sample(name="draw", unit="ns", values=[1 / 3, 1e-300, 2.0, -1.5])],
        config={"text": "line\nbreak | ü \u2028", "nested": {"a": [None, True, 1.5]}},
        item="Table 1",
        stages=make_epochs([0.7], transfer=(None, None), reason="no device"),
    )
    path = write_record(tmp_path / "new" / "folder", record)
    assert path.name == f"epoch_breakdown-{record.record_id}.jsonl"
    assert path.read_bytes().count(b"\n") == 1
    assert read_records(tmp_path) == [record]
    assert json.loads(path.read_text())["started_at"] == "2025-01-01T00:00:00Z"
    assert json.loads(path.read_text())["stages"][1]["transfer"]["work_seconds"] is None


def test_records_are_found_in_subfolders_in_order_of_path(tmp_path: Path) -> None:
    names = [("b", "1"), ("a", "2"), ("a", "1")]
    for folder, record_id in names:
        write_record(tmp_path / folder, make_record(record_id=folder + record_id))
    assert [record.record_id for record in read_records(tmp_path)] == ["a1", "a2", "b1"]


def test_record_ids_do_not_repeat_and_are_file_names() -> None:
    ids = {new_record_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(set(one) <= set("0123456789abcdefTZ-") for one in ids)


def test_a_record_of_the_same_name_is_not_replaced(tmp_path: Path) -> None:
    path = write_record(tmp_path, make_record(record_id="one", seed=1))
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="new_record_id"):
        write_record(tmp_path, make_record(record_id="one", seed=2))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    for fields in (
        {"seconds": bad},
        {"config": {"lr": bad}},
        {"config": {"deep": [{"lr": [bad]}]}},
        {"samples": [{"name": "t", "unit": "s", "values": [1.0, bad]}]},
        {"environment": {"load_average": [bad]}},
        {"settings": {"x": bad}},
    ):
        with pytest.raises(ValidationError, match="finite"):
            make_record(**fields)
    with pytest.raises(ValidationError, match="finite"):
        make_epochs([bad])
    with pytest.raises(ValidationError):
        Accuracy(test=bad)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "failed"}, "needs a reason"),
        ({"status": "not_available", "reason": "  "}, "needs a reason"),
        ({"status": "skipped", "reason": "x"}, "status"),
        ({"stages": [], "accuracy": None}, "stages, samples or an accuracy"),
        ({"stages": make_epochs([1.0]) * 2}, "twice"),
        ({"started_at": datetime(2025, 1, 1)}, "timezone"),
        ({"started_at": datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=1)))}, "UTC"),
        ({"record_id": "../escape"}, "record_id"),
        ({"experiment": "a/b"}, "experiment"),
        ({"schema_version": 2}, "schema_version"),
        ({"seed": "3"}, "seed"),
        ({"seconds": -1.0}, "seconds"),
        ({"surprise": 1}, "surprise"),
        ({"accuracy": {"test": 64.5}}, "less than or equal to 1"),
    ],
)
def test_a_wrong_field_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        make_record(**fields)


def test_a_value_not_measured_needs_a_reason() -> None:
    with pytest.raises(ValidationError, match="needs a reason"):
        make_stage(None, 1.0)
    assert make_stage(None, 1.0, "hidden in the loader").work_seconds is None


def test_records_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        make_record().seconds = 2.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a JSON line"),
        ("{}\n", "no whole-number schema_version"),
        ("[1]\n", "no whole-number schema_version"),
        ('{"schema_version": true}\n', "no whole-number schema_version"),
        ('{"schema_version": 2, "new": 1}\n', "update this checkout"),
        ('{"schema_version": 0}\n', "older than 1 .* run its experiment again"),
        ('{"schema_version": 1}\n', "not a valid record"),
    ],
)
def test_a_bad_line_is_refused_with_place_and_remedy(tmp_path: Path, text: str, words: str) -> None:
    good = make_record().model_dump_json()
    path = write_line(tmp_path, f"{good}\n{text}" if text else text)
    line = 2 if text else 1
    with pytest.raises(ValueError, match=words) as caught:
        read_records(tmp_path)
    assert f"{path}, line {line}: " in str(caught.value)


@pytest.mark.parametrize("kept", [1, 100, -2])
def test_a_cut_line_is_refused(tmp_path: Path, kept: int) -> None:
    path = write_record(tmp_path, make_record())
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="line 1: not a JSON line"):
        read_records(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'{"a": "\xff\xfe"}\n')
    with pytest.raises(ValueError, match="line 1: not a JSON line"):
        read_records(tmp_path)


@pytest.mark.parametrize("where", ["config", "seconds"])
def test_nan_in_a_file_is_refused(tmp_path: Path, where: str) -> None:
    content = as_dict(make_record())
    content[where] = {"lr": math.nan} if where == "config" else math.nan
    write_line(tmp_path, json.dumps(content) + "\n")
    with pytest.raises(ValueError, match="line 1: not a valid record"):
        read_records(tmp_path)


def test_a_copied_record_is_refused(tmp_path: Path) -> None:
    path = write_record(tmp_path, make_record())
    (tmp_path / "z-copy.jsonl").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"z-copy\.jsonl, line 1.*counted twice"):
        read_records(tmp_path)


def test_a_missing_folder_is_named_and_an_empty_one_has_no_records(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_records(tmp_path / "nowhere")
    assert read_records(tmp_path) == []


def test_kill_in_mid_write_leaves_no_half_record(tmp_path: Path) -> None:
    cut_short = 0
    for trial in range(8):
        folder = tmp_path / str(trial)
        writer = start_writer(folder, 1000)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        # Kill while the first file, whatever its name, is being filled; each time a bit later.
        deadline = time.monotonic() + 30
        while not list(folder.glob("*")):
            assert time.monotonic() < deadline, "the writer never began a file"
        time.sleep(0.003 * trial)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        cut_short += len(list(folder.glob(".*.tmp")))
        for record in read_records(folder):
            assert len(record.samples[0].values) == 100_000
    assert cut_short > 0, "no kill came in mid-write: the test proved nothing"


def test_writers_in_one_folder_do_not_harm_each_other(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, 5) for _ in range(3)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        seen = max(seen, len(read_records(tmp_path)))  # never a half record
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    assert len(read_records(tmp_path)) == 15
    assert seen > 0
    assert len(list(tmp_path.iterdir())) == 15


def test_threads_of_one_process_write_one_file_each(tmp_path: Path) -> None:
    records = [make_record(seed=seed) for seed in range(40)]
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda record: write_record(tmp_path, record), records))
    assert len(set(paths)) == 40
    assert sorted(record.seed for record in read_records(tmp_path)) == list(range(40))


def test_environment_goes_into_a_record(tmp_path: Path) -> None:
    environment = provenance.environment()
    record = make_record(environment=environment)
    write_record(tmp_path, record)
    assert read_records(tmp_path)[0].environment == environment
    assert environment["machine"]["cores"] == os.cpu_count()
    assert environment["libraries"]["numpy"].count(".") == 2
    assert len(environment["load_average"]) == 3
    if os.uname().nodename:
        assert f'"{os.uname().nodename}"' not in json.dumps(environment)


def test_environment_imports_no_heavy_library() -> None:
    code = (
        "import sys, types, importlib.util as u\n"
        "spec = u.spec_from_file_location('provenance', sys.argv[1])\n"
        "module = u.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "module._core_build = lambda: {}\n"  # importing salient may import torch itself
        "e = module.environment()\n"
        "assert e['torch_threads']['reason'], e\n"
        "assert not {'torch', 'numpy', 'dgl', 'torch_geometric'} & set(sys.modules)\n"
    )
    script = ROOT / "salient" / "provenance.py"
    subprocess.run([sys.executable, "-c", code, str(script)], check=True)


def run_git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_source_state_follows_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ours"
    folder.mkdir()
    assert provenance.source_state(folder)["commit"] is None
    run_git(folder, "init", "-q")
    assert "git: fatal" in provenance.source_state(folder)["reason"]
    (folder / "a.py").write_text("1\n")
    run_git(folder, "add", "a.py")
    run_git(folder, "commit", "-qm", "first")
    commit = run_git(folder, "rev-parse", "HEAD")
    # Neither the working directory nor a hook's variables may answer for another repository.
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    clean = {"commit": commit, "dirty": False, "reason": ""}
    assert provenance.source_state(folder) == clean
    (folder / "new.py").write_text("2\n")
    assert provenance.source_state(folder) == clean | {"dirty": True}
    (folder / "new.py").unlink()
    (folder / "a.py").write_text("3\n")
    assert provenance.source_state(folder) == clean | {"dirty": True}
    inner = folder / "site-packages"
    inner.mkdir()
    state = provenance.source_state(inner)
    assert state["commit"] is None
    assert "not a checkout" in state["reason"]


def test_source_state_without_git_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.source_state(ROOT)["reason"] == "git is not installed"


def test_a_system_needs_a_name_and_a_device_says_what_it_was() -> None:
    with pytest.raises(ValidationError):
        System(name="", label="x", version="", form="")
    assert not Device(requested="cuda", actual="cpu").emulated
