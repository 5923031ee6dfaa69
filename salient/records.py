"""Result records: what one run measured, and how it is kept on disk.

A record is one JSON line in a file of its own. The experiments write records, ``analysis``
reads them, and nothing else carries a number from one to the other. May import: pydantic,
standard library.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

SCHEMA_VERSION: Final = 1

FileNamePart = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class System(_Part):
    """What was compared: a system, its version, and how it was set up.

    ``form`` is "mfg" or "subgraph", or "" where it does not apply; ``fanout_rule`` says in
    words how the fanouts act.
    """

    name: Name
    label: Name
    version: str
    form: str
    fanout_rule: str = ""
    settings: dict[str, JsonValue] = {}


class DatasetInfo(_Part):
    """The data set as it was used, with the checksum of its prepared files."""

    name: Name
    num_nodes: Count
    num_edges: Count
    num_features: Count
    num_classes: Count
    checksum: str
    description: str = ""


class Device(_Part):
    """The device asked for and the one that did the work.

    Attributes
    ----------
    emulated : bool
        Transfers and steps took the time a stated bandwidth and step time give.
    simulated : bool
        The times were computed from a model instead of being waited for.
    """

    requested: str
    actual: str
    emulated: bool = False
    simulated: bool = False


class Work(_Part):
    """Batches in one epoch and their mean size; null where it was not counted."""

    batches: Count | None = None
    nodes_per_batch: NonNegative | None = None
    edges_per_batch: NonNegative | None = None
    bytes_per_batch: NonNegative | None = None


class StageSeconds(_Part):
    """Seconds of one stage in one epoch.

    Attributes
    ----------
    work_seconds : float or None
        What the stage itself took, wherever it ran.
    exposed_seconds : float or None
        How long the computation stood still for it.
    reason : str
        Why a value is null; required when one is.
    """

    work_seconds: NonNegative | None = None
    exposed_seconds: NonNegative | None = None
    reason: str = ""

    @model_validator(mode="after")
    def _null_has_reason(self) -> StageSeconds:
        if None in (self.work_seconds, self.exposed_seconds) and not self.reason.strip():
            raise ValueError("a value that was not measured (null) needs a reason")
        return self


class EpochStages(_Part):
    """One epoch: its wall-clock seconds and those of its stages."""

    epoch: Count
    warm_up: bool
    total_seconds: NonNegative
    batch_preparation: StageSeconds
    transfer: StageSeconds
    training: StageSeconds


class Sample(_Part):
    """Raw values of one quantity of a micro-benchmark."""

    name: Name
    unit: Name
    values: list[float]


class Accuracy(_Part):
    """Accuracies as fractions at the best validation epoch; null where not evaluated."""

    train: Fraction | None = None
    valid: Fraction | None = None
    test: Fraction | None = None
    best_epoch: Count | None = None


class Record(_Part):
    """One run of one system: what was run, where, and what came out.

    ``seed`` separates runs whose accuracy may differ, ``repeat`` counts runs made to see the
    spread of the time. Numbers are finite. A status other than "ok" says why in ``reason``;
    "ok" comes with stages, samples or an accuracy. Wrong values raise
    ``pydantic.ValidationError``, a ``ValueError``.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    record_id: FileNamePart
    experiment: FileNamePart
    item: str = ""
    system: System
    dataset: DatasetInfo
    config: dict[str, JsonValue]
    seed: int
    repeat: Count
    device: Device
    work: Work | None = None
    stages: list[EpochStages] = []
    samples: list[Sample] = []
    accuracy: Accuracy | None = None
    environment: dict[str, JsonValue]
    status: Literal["ok", "not_available", "failed"]
    reason: str = ""
    started_at: AwareDatetime
    seconds: NonNegative

    @field_validator("started_at")
    @classmethod
    def _is_utc(cls, value: datetime) -> datetime:
        if value.utcoffset() != timedelta(0):
            raise ValueError(f"expected UTC, got {value.isoformat()}; use datetime.now(UTC)")
        return value

    @model_validator(mode="after")
    def _is_consistent(self) -> Record:
        _refuse_non_finite(self.config, "config")
        _refuse_non_finite(self.system.settings, "system.settings")
        _refuse_non_finite(self.environment, "environment")
        if self.status != "ok" and not self.reason.strip():
            raise ValueError(f"status {self.status!r} needs a reason")
        if self.status == "ok" and not (self.stages or self.samples or self.accuracy):
            raise ValueError("status 'ok' needs stages, samples or an accuracy")
        epochs = [stage.epoch for stage in self.stages]
        if len(set(epochs)) != len(epochs):
            raise ValueError(f"stages: an epoch occurs twice in {epochs}")
        return self


def _refuse_non_finite(value: JsonValue, place: str) -> None:
    """Raise ValueError for a NaN or an infinity anywhere in free-form JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place}: {value} is not a finite number; use null and say why")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_non_finite(item, f"{place}.{key}")
    if isinstance(value, list):
        for position, item in enumerate(value):
            _refuse_non_finite(item, f"{place}[{position}]")


def new_record_id() -> str:
    """Return an id that no other record has: the time in UTC and 48 random bits."""
    now = datetime.now(timezone.utc)
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(6)}"


def write_record(folder: str | os.PathLike[str], record: Record) -> Path:
    """Write ``record`` to ``<folder>/<experiment>-<record_id>.jsonl`` and return that path.

    The line is written under another name, flushed to the disk and renamed, so a file that
    ``read_records`` sees is whole whenever the process died, and writers in one folder do
    not disturb each other. The folder is made if it is missing.

    Raises
    ------
    FileExistsError
        The folder has a record of this name; it is left as it is.
    OSError
        The file cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.experiment}-{record.record_id}.jsonl"
    if path.exists():
        raise FileExistsError(f"{path} is there already; make the record with new_record_id()")
    temporary = folder / f".{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(record.model_dump_json() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105 - the one call that replaces atomically
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(folder)
    return path


def _sync_folder(folder: Path) -> None:
    """Flush the folder's entries, so that the new name outlives a power cut."""
    if os.name != "posix":  # other systems cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_records(folder: str | os.PathLike[str]) -> list[Record]:
    """Read the records of every ``*.jsonl`` file in ``folder`` and below, in order of path.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        A line is no record, is of another schema version, or repeats the id of another
        record. The message names file, line and remedy.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; give the folder that holds records")
    records: list[Record] = []
    places: dict[str, str] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
        for number, line in enumerate(lines, start=1):
            place = f"{path}, line {number}"
            record = _parse(line, place)
            if record.record_id in places:
                raise ValueError(
                    f"{place}: record {record.record_id} is also in {places[record.record_id]} "
                    "and would be counted twice; delete one of the two"
                )
            places[record.record_id] = place
            records.append(record)
    return records


def _parse(line: bytes, place: str) -> Record:
    """Return the record in ``line``, or raise ValueError that names ``place`` and a remedy."""
    try:
        content: Any = json.loads(line)
    except ValueError as error:  # also bytes that are not UTF-8
        raise ValueError(
            f"{place}: not a JSON line ({error}); delete the file and run its experiment again"
        ) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if type(version) is not int:
        raise ValueError(
            f"{place}: no result record, it has no whole-number schema_version; "
            "move the file out of the results folder"
        )
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"{place}: schema version {version} is newer than {SCHEMA_VERSION}, the newest known "
            "here; update this checkout to the one that wrote the record"
        )
    if version < SCHEMA_VERSION:
        raise ValueError(
            f"{place}: schema version {version} is older than {SCHEMA_VERSION} and cannot be "
            "converted; run its experiment again, or read it with the commit that wrote it"
        )
    try:
        return Record.model_validate_json(line)
    except ValidationError as error:
        raise ValueError(
            f"{place}: not a valid record of schema version {version}; correct the code that "
            f"wrote it and run the experiment again.\n{error}"
        ) from error
