"""Store check: what is in a store folder, what is damaged, and what opening it would do. Strictly read-only.

    seal, checkpoint ─▶ what recovery would trust ─▶ one pass over the log ─┬▶ queues, entry by entry
                                                                           └▶ key index, key by key

Works on any folder in RocketMQ's format, written by PyroMQ or RocketMQ: file sizes are taken from the files. Takes no
lock; a store that a process has open may change meanwhile, and the report says so. Memory is bounded by the number of
queues and one slot table, not by the number of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyromq.errors import StoreError, StoreNotFoundError
from pyromq.store.check.config import (
    check_checkpoint,
    check_config,
    check_in_use,
    check_leftovers,
    check_seal,
    check_times,
)
from pyromq.store.check.derived import DerivedCheck, QueueKey, QueueWorld
from pyromq.store.check.files import FileRun, FoundFile, find_files, infer_file_bytes
from pyromq.store.check.index import IndexComparison, IndexShape, IndexTrust
from pyromq.store.check.log import LogScan, Progress
from pyromq.store.check.queues import LogView, Trust, newest_position, trust_sealed, trust_unsealed
from pyromq.store.check.report import CheckReport, Findings, IndexCheck, LogCheck, QueuesCheck, StoreSeverity, count_of
from pyromq.store.derived.queue_entry import ENTRY_BYTES
from pyromq.store.files.disk import Disk, RealDisk
from pyromq.store.files.layout import Layout
from pyromq.store.recovery import queue_folders
from pyromq.store.sealing.checkpoint import load_flushed
from pyromq.store.sealing.seal import SEAL_NAME, Seal
from pyromq.store.settings import StoreSettings
from pyromq.wire.record import RecordFound, scan_record

_DEFAULTS = StoreSettings()
_FIRST_RECORD_BYTES = 8 << 20  # no record is longer


def check_store(
    root: Path,
    *,
    disk: Disk | None = None,
    index_slots: int = _DEFAULTS.index_slots,
    progress: Progress | None = None,
) -> CheckReport:
    """Look at every file of a store; raises StoreNotFoundError, and StoreError when the folder cannot be read."""
    disk = disk or RealDisk()
    try:
        _must_be_store(disk, root)
        return _Check(disk, Layout(root), index_slots).run(progress or (lambda _done, _total: None))
    except OSError as error:
        raise StoreError(f"{root} cannot be checked: {error}") from error


def _must_be_store(disk: Disk, root: Path) -> None:
    if _is_store(disk, root):
        return
    for near in (root / "store", root / "pyromq-data", root.parent):
        if _is_store(disk, near):
            raise StoreNotFoundError(f"there is no message store in {root}; there is one in {near}")
    raise StoreNotFoundError(f"there is no message store in {root}")


def _is_store(disk: Disk, root: Path) -> bool:
    names = ("commitlog", "consumequeue", "checkpoint", SEAL_NAME, f"{SEAL_NAME}.bak")
    return any(disk.exists(root / name) for name in names)


def _queue_of(name: str) -> QueueKey:
    """The queue that a seal calls so."""
    topic, _, number = name.rpartition("/")
    return topic, int(number)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What recovery would start from."""

    durable: int  # damage before is a loss, damage behind ends the log
    rescan_from: int  # records from here on are entered into their queues again
    queues: dict[QueueKey, Trust]
    index: IndexTrust
    index_from: int  # keys of records from here on are added again


class _Check:
    """One check of one store."""

    def __init__(self, disk: Disk, layout: Layout, index_slots: int) -> None:
        self._disk = disk
        self._layout = layout
        self._findings = Findings()
        self._in_use = check_in_use(disk, layout, self._findings)
        self._clean = not disk.exists(layout.abort)
        self._seal = check_seal(disk, layout.root, self._findings)
        log_files = find_files(disk, layout.commit_log)
        self._log_run = FileRun(disk, layout.commit_log, infer_file_bytes([log_files]), log_files)
        self._queue_runs = self._find_queues()
        self._index_shape = IndexShape(disk, layout.index, index_slots)

    def run(self, progress: Progress) -> CheckReport:
        self._report_stop()
        sealed = self._seal is not None
        checkpoint = check_checkpoint(self._disk, self._layout, self._findings, sealed=sealed)
        config = check_config(self._disk, self._layout, self._findings)
        opens = self._report_files()
        index_trust = IndexTrust(self._index_shape, self._findings)
        if self._seal is not None:
            plan = self._plan_by_seal(self._seal, index_trust)
        else:
            plan = self._plan_by_checkpoint(checkpoint.safe_ms, index_trust)
        scan = LogScan(
            self._disk,
            self._log_run,
            durable=plan.durable,
            rescan_from=plan.rescan_from,
            clean=self._clean,
            findings=self._findings,
        )
        view = LogView(self._log_run.first, plan.durable, plan.rescan_from, scan.damaged)
        index = IndexComparison(
            self._index_shape, plan.index, plan.index_from, view.first, scan.damaged, self._findings
        )
        topics = config.get("topics.json", {}).get("topicConfigTable")
        derived = DerivedCheck(self._queue_world(plan, topics), view, index, self._findings)
        log = scan.run(derived.add, progress)
        queues, keys = derived.finish(log)
        check_times(checkpoint, log.stored_ms_max, log.records, self._findings, sealed=sealed)
        self._report_ends(log)
        self._report_added(queues, keys)
        check_leftovers(self._disk, self._layout, self._findings)
        return CheckReport(
            root=str(self._layout.root),
            clean=self._clean,
            in_use=self._in_use,
            sealed_position=self._seal.position if self._seal else None,
            opens=opens,
            log=log,
            queues=queues,
            index=keys,
            findings=self._findings.listed(),
            not_listed=self._findings.not_listed,
        )

    # --- what there is ---

    def _find_queues(self) -> dict[QueueKey, FileRun]:
        """Every queue that has a folder or that the seal knows."""
        folders = queue_folders(self._disk, self._layout)
        found = {key: find_files(self._disk, self._layout.queue(*key)) for key in folders}
        for name in self._seal.queues if self._seal else ():
            found.setdefault(_queue_of(name), [])
        self._queue_file_bytes = infer_file_bytes(found.values()) or _DEFAULTS.queue_file_entries * ENTRY_BYTES
        return {key: self._queue_run(key, files) for key, files in found.items()}

    def _queue_run(self, key: QueueKey, files: Sequence[FoundFile] = ()) -> FileRun:
        return FileRun(self._disk, self._layout.queue(*key), self._queue_file_bytes, files)

    def _queue_world(self, plan: _Plan, topics: object) -> QueueWorld:
        root, names = self._layout.root, self._disk.names
        return QueueWorld(
            runs=self._queue_runs,
            trusts=plan.queues,
            empty_run=self._queue_run,
            sealed=self._seal is not None,
            promised=frozenset(map(_queue_of, self._seal.queues if self._seal else ())),
            has_extensions=bool(names(root / "consumequeue_ext")),
            batch_topics=frozenset(names(root / "batchconsumequeue")),
            topics=topics if isinstance(topics, dict) else None,
        )

    # --- what recovery would do ---

    def _plan_by_seal(self, seal: Seal, index: IndexTrust) -> _Plan:
        trusts, rescan = {}, [seal.position]
        for (topic, queue_id), run in self._queue_runs.items():
            name = f"{topic}/{queue_id}"
            trust = trusts[topic, queue_id] = trust_sealed(run, seal.queues.get(name, []), self._log_run.first)
            if not trust.intact:
                rescan.append(max(0, trust.covered - 1))
                text = f"not what the seal promises from offset {trust.end} on; opening the store rebuilds it"
                self._findings.add(StoreSeverity.WARNING, "queue-damaged", f"consumequeue/{name}", text)
        index.by_seal(seal.index, self._log_run.first, clean=self._clean and seal.clean)
        newest = index.files[-1].path.name if index.files else ""
        index_from = seal.index_position if not seal.index or newest == seal.index[-1].name else index.covered
        durable = max(seal.durable_end, load_flushed(self._disk, self._layout.checkpoint))
        return _Plan(durable, max(min(rescan), self._log_run.first), trusts, index, index_from)

    def _plan_by_checkpoint(self, safe_ms: int, index: IndexTrust) -> _Plan:
        queues_end = max(map(self._queued_end, self._queue_runs.values()), default=0)
        start = self._safe_start(safe_ms, queues_end)
        trusts = {key: trust_unsealed(run, start) for key, run in self._queue_runs.items()}
        rescan = [start, *(max(0, trust.covered - 1) for trust in trusts.values() if not trust.intact)]
        index.by_order(self._log_run.end, None if self._clean else start)
        durable = min(queues_end, self._log_run.end) if self._clean else start
        return _Plan(durable, max(min(rescan), self._log_run.first), trusts, index, index.covered)

    def _queued_end(self, run: FileRun) -> int:
        """End of the newest record that a queue lists; 0 when it is not there."""
        position = newest_position(run)
        file = self._log_run.holding(position) if position is not None else None
        if position is None or file is None:
            return 0
        data = self._log_run.read(position, file.base + self._log_run.file_bytes - position)
        found = scan_record(memoryview(data), 0, position)
        return position + found.size if isinstance(found, RecordFound) else 0

    def _safe_start(self, safe_ms: int, queues_end: int) -> int:
        """The last file whose first record was durable for certain, by RocketMQ's rules."""
        start = self._log_run.first
        for file in self._log_run.files:
            data = self._log_run.read(file.base, min(self._log_run.file_bytes, _FIRST_RECORD_BYTES))
            first = scan_record(memoryview(data), 0, file.base)
            if not isinstance(first, RecordFound):
                break
            if file.base <= queues_end if self._clean else 0 < first.stored_ms <= safe_ms:
                start = file.base
        return start

    # --- findings about the whole ---

    def _report_stop(self) -> None:
        if not self._clean:
            severity = StoreSeverity.NOTE if self._in_use else StoreSeverity.WARNING
            text = "the store is open" if self._in_use else "the store was not closed: opening it recovers it"
            self._findings.add(severity, "unclean-stop", "abort", text)
        elif self._seal is not None and not self._seal.clean:
            text = "it is not the seal of a clean stop, yet the store counts as closed: another program closed it"
            self._findings.add(StoreSeverity.NOTE, "seal-unclean", SEAL_NAME, text)

    def _report_files(self) -> bool:
        """Missing and wrong-sized files; False when recovery would refuse to open the store."""
        log = self._log_run
        faults = log.faults()
        for file, text in faults:
            text = f"{text}; the store does not open until it is restored"
            self._findings.add(StoreSeverity.ERROR, "log-file", f"commitlog/{file.path.name}", text, position=file.base)
        if log.files and log.files[-1].size < log.file_bytes and not faults:
            text = f"it has {log.files[-1].size} bytes; opening the store makes it {log.file_bytes}, filled with zeros"
            self._findings.add(StoreSeverity.WARNING, "log-file", f"commitlog/{log.files[-1].path.name}", text)
        for name in log.empty:
            self._findings.add(StoreSeverity.NOTE, "log-file", f"commitlog/{name}", "it is empty; opening removes it")
        if log.first:
            text = f"the log begins at position {log.first}: older files were deleted"
            self._findings.add(StoreSeverity.NOTE, "log-begins", "commitlog", text, position=log.first)
        for (topic, queue_id), run in self._queue_runs.items():
            for file, text in run.faults():
                where = f"consumequeue/{topic}/{queue_id}/{file.path.name}"
                self._findings.add(StoreSeverity.WARNING, "queue-file", where, text)
        return not faults

    def _report_ends(self, log: LogCheck) -> None:
        if self._seal is not None and self._clean and self._seal.clean and log.end > self._seal.position:
            text = f"{log.end - self._seal.position} bytes of the log are newer than it: another program wrote them"
            self._findings.add(StoreSeverity.NOTE, "behind-seal", SEAL_NAME, text, position=self._seal.position)

    def _report_added(self, queues: QueuesCheck, index: IndexCheck) -> None:
        entries = partial(count_of, one="entry", many="entries")
        if queues.rebuilt:
            text = f"opening the store rebuilds {entries(queues.rebuilt)}, missing or wrong now"
            self._findings.add(StoreSeverity.WARNING, "queues-rebuilt", "consumequeue", text)
        if queues.to_add:
            text = f"opening the store adds {entries(queues.to_add)} not written yet"
            self._findings.add(StoreSeverity.NOTE, "queues-behind", "consumequeue", text)
        if queues.to_drop:
            severity = StoreSeverity.WARNING if self._clean else StoreSeverity.NOTE
            text = f"opening the store drops {entries(queues.to_drop)} without a record"
            self._findings.add(severity, "queues-ahead", "consumequeue", text)
        if index.to_add:
            text = f"opening the store adds {count_of(index.to_add, 'key')} not written yet"
            self._findings.add(StoreSeverity.NOTE, "index-behind", "index", text)
