"""Small files under a check: configuration and the seal (each with its backup copy), checkpoint, lock, what was cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from pyromq.errors import ProtocolError
from pyromq.store.check.report import Findings, StoreSeverity
from pyromq.store.files.disk import Disk
from pyromq.store.files.layout import Layout
from pyromq.store.files.whole_file import checked
from pyromq.store.sealing.checkpoint import CHECKPOINT_BYTES, Checkpoint, load_checkpoint
from pyromq.store.sealing.seal import SEAL_NAME, Seal
from pyromq.wire.json.java_json import parse

T = TypeVar("T")

_JSON_WITHOUT_SUFFIX = ("timermetrics", "transactionMetrics")


@dataclass(frozen=True, slots=True)
class FileCopy(Generic[T]):
    """One copy of a small file: absent, empty, damaged (``reason``), or whole (``value``)."""

    value: T | None = None
    reason: str = ""

    @property
    def whole(self) -> bool:
        return self.value is not None

    @property
    def damaged(self) -> bool:
        return bool(self.reason)


def read_copy(disk: Disk, path: Path, parse_text: Callable[[bytes], T]) -> FileCopy[T]:
    if not disk.exists(path):
        return FileCopy()
    try:
        text = disk.read(path)
        return FileCopy(parse_text(checked(text))) if text.strip() else FileCopy(reason="it is empty")
    except OSError as error:
        return FileCopy(reason=f"the disk cannot read it: {error.strerror or error}")
    except (ProtocolError, ValueError) as error:
        return FileCopy(reason=str(error))


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _parse_object(text: bytes) -> dict[Any, Any]:
    value = parse(text)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def check_config(disk: Disk, layout: Layout, findings: Findings) -> dict[str, dict[Any, Any]]:
    """Read every configuration file; returns those that could be read, by name."""
    names = {name.removesuffix(".bak") for name in disk.names(layout.config)}
    tables: dict[str, dict[Any, Any]] = {}
    for name in sorted(names):
        path = layout.config / name
        if disk.is_folder(path) or not (name.endswith(".json") or name in _JSON_WITHOUT_SUFFIX):
            continue
        newest, backup = read_copy(disk, path, _parse_object), read_copy(disk, _backup(path), _parse_object)
        found = newest.value if newest.whole else backup.value
        if found is not None:
            tables[name] = found
        _report_copies(f"config/{name}", newest, backup, findings)
    return tables


def _report_copies(where: str, newest: FileCopy[Any], backup: FileCopy[Any], findings: Findings) -> None:
    reason = newest.reason or "it is missing"
    if newest.whole and backup.damaged:
        findings.add(
            StoreSeverity.NOTE, "config-backup", f"{where}.bak", f"the backup copy is damaged: {backup.reason}"
        )
    elif not newest.whole and backup.whole:
        text = f"{reason}; the backup copy is whole and will be used, changes after it are lost"
        findings.add(StoreSeverity.WARNING, "config-damaged", where, text)
    elif not newest.whole:
        rest = f", the backup copy too: {backup.reason}" if backup.damaged else ", and there is no backup copy"
        findings.add(StoreSeverity.ERROR, "config-damaged", where, f"damaged: {reason}{rest}")


def check_seal(disk: Disk, root: Path, findings: Findings) -> Seal | None:
    """The seal that recovery would use."""
    decode = msgspec.json.Decoder(Seal).decode
    newest, backup = (read_copy(disk, path, decode) for path in (root / SEAL_NAME, _backup(root / SEAL_NAME)))
    damaged_alone = newest.damaged and not backup.whole
    if newest.damaged and backup.whole:
        text = f"{newest.reason}; the one before it is whole and will be used"
        findings.add(StoreSeverity.WARNING, "seal-damaged", SEAL_NAME, text)
    elif damaged_alone or (backup.damaged and not newest.whole):
        text = f"{newest.reason or backup.reason}; recovery will go by RocketMQ's checkpoint"
        findings.add(StoreSeverity.WARNING, "seal-damaged", SEAL_NAME, text)
    elif not newest.whole and not backup.whole:
        text = "there is none: PyroMQ has not written this store yet, RocketMQ's rules of recovery apply"
        findings.add(StoreSeverity.NOTE, "seal-absent", SEAL_NAME, text)
    return newest.value if newest.whole else backup.value


def check_checkpoint(disk: Disk, layout: Layout, findings: Findings, *, sealed: bool) -> Checkpoint:
    """RocketMQ's checkpoint; what is wrong with it matters little where there is a seal."""
    severity = StoreSeverity.NOTE if sealed else StoreSeverity.WARNING
    if not disk.exists(layout.checkpoint):
        findings.add(severity, "checkpoint", "checkpoint", "it is missing: RocketMQ would look at the whole log")
        return Checkpoint()
    size, checkpoint = disk.size_of(layout.checkpoint), load_checkpoint(disk, layout.checkpoint)
    if size != CHECKPOINT_BYTES:
        findings.add(severity, "checkpoint", "checkpoint", f"it has {size} bytes instead of {CHECKPOINT_BYTES}")
    elif min(checkpoint) < 0:
        findings.add(severity, "checkpoint", "checkpoint", "it holds negative times or positions")
    return checkpoint


def check_times(checkpoint: Checkpoint, stored_ms_max: int, records: int, findings: Findings, *, sealed: bool) -> None:
    """A checkpoint must not be ahead of the newest record: RocketMQ would trust what was never written."""
    ahead_ms = max(checkpoint.log_ms, checkpoint.queues_ms) - stored_ms_max
    if records and ahead_ms > 0:
        severity = StoreSeverity.NOTE if sealed else StoreSeverity.WARNING
        text = f"it says that records are durable up to {ahead_ms} ms after the newest record of the log"
        findings.add(severity, "checkpoint", "checkpoint", text)


def check_in_use(disk: Disk, layout: Layout, findings: Findings) -> bool:
    """True when a process has the store open."""
    try:
        in_use = disk.exists(layout.lock) and disk.is_locked(layout.lock)
    except OSError as error:
        text = f"cannot tell whether the store is open elsewhere: {error.strerror or error}"
        findings.add(StoreSeverity.NOTE, "lock", "lock", text)
        return False
    if in_use:
        text = "a process has the store open, so it may change during the check: check again what is found below"
        findings.add(StoreSeverity.NOTE, "in-use", "lock", text)
    return in_use


def check_leftovers(disk: Disk, layout: Layout, findings: Findings) -> None:
    """What earlier recoveries took out of the log."""
    copies = disk.names(layout.cut)
    if copies:
        size = sum(disk.size_of(layout.cut / name) for name in copies)
        text = f"{len(copies)} copies ({size} bytes) of what earlier recoveries cut out of the log"
        findings.add(StoreSeverity.NOTE, "cut-copies", "cut", text)
