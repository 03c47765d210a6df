"""Queues and keys of a closed store, against the same derived anew from its log.

What a broker entered while it ran, what a check of the store expects and what a rebuild makes of the log must agree, or
consumers get other messages after a rebuild than before it.
"""

from __future__ import annotations

from pathlib import Path

from pyromq.store.check import StoreVerdict, check_store
from pyromq.store.files.disk import Disk
from pyromq.store.files.layout import Layout
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import ManualClock

Queues = dict[tuple[str, int], dict[int, tuple[int, int, int]]]
Keys = list[tuple[int, int]]


def assert_derived_again(root: Path, settings: StoreSettings, disk: Disk, *, had_faults: bool = False) -> int:
    """Check a store that was closed, then take its queues and its index from it; says how many entries are the same.

    What a rebuild finds beyond that is of topics that were deleted, and of messages that retention has passed over.
    With ``had_faults``, of its disk, keys may be missing in the index, of which the check warns.
    """
    report = check_store(root, disk=disk, index_slots=settings.index_slots)
    allowed = {StoreVerdict.SOUND, StoreVerdict.RECOVERABLE} if had_faults else {StoreVerdict.SOUND}
    assert report.verdict in allowed, (report.summary, report.findings)
    queues, keys = _derived(root, settings, disk)
    layout = Layout(root)
    for folder in (layout.queues, layout.index):
        _remove_all(disk, folder)
    queues_again, keys_again = _derived(root, settings, disk)
    for queue, entries in queues.items():
        again = queues_again.get(queue, {})
        other = {offset: (entry, again.get(offset)) for offset, entry in entries.items() if again.get(offset) != entry}
        assert not other, (queue, other)
    assert had_faults or set(keys) <= set(keys_again), set(keys) - set(keys_again)
    return sum(map(len, queues.values()))


def _derived(root: Path, settings: StoreSettings, disk: Disk) -> tuple[Queues, Keys]:
    store = MessageStore.open(root, settings, disk=disk, clock=ManualClock())
    store.indexer.index_all()
    queues: Queues = {}
    for (topic, queue_id), queue in store.queues.items():
        entries = queues[topic, queue_id] = {}
        offset = queue.first
        while offset < queue.end:  # one file at a time
            some = list(store.reader.entries(topic, queue_id, offset, queue.end - offset))
            entries.update(enumerate(some, offset))
            offset += len(some)
    found = ((key_hash, position) for file in store.index.files for key_hash, position, _, _ in file.entries())
    keys = [each for each in found if each[1] >= store.first_position]  # retention takes whole files of the index
    store.close()
    return queues, keys


def _remove_all(disk: Disk, folder: Path) -> None:
    """Files, and files in folders of folders."""
    if not disk.exists(folder):
        return
    for name in disk.names(folder):
        path = folder / name
        if disk.is_folder(path):
            _remove_all(disk, path)
        else:
            disk.remove(path)
