"""A process to be killed: appends numbered messages to a store and tells on stdout which are durable.

python -m tests.integration.writer FOLDER SEED
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

from pyromq.clock import SystemClock
from pyromq.store.files.disk import RealDisk
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.wire.record import Draft, decode_record

SETTINGS = StoreSettings(
    segment_bytes=64 * 1024,
    queue_file_entries=50,
    index_slots=2_000,
    index_entries=4_000,
    index_backlog_max=64,
    seal_bytes=100_000,
)


def message(number: int, rng: Random) -> Draft:
    return Draft(
        topic=f"topic-{number % 3}",
        queue_id=number % 2,
        body=b"%d;" % number + rng.randbytes(rng.randrange(2_000)),
        properties=b"UNIQ_KEY\x01%032X\x02TAGS\x01Tag%d\x02" % (number, number % 4),
        born_ms=number,
    )


def last_number(store: MessageStore) -> int:
    """The number of the newest message of the store, -1 when it is empty."""
    newest = -1
    for queue in store.queues.values():
        if queue.end > queue.first:
            record = decode_record(store.reader.bytes_of(queue.entry(queue.end - 1).position))
            newest = max(newest, int(record.body.split(b";")[0]))
    return newest


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    rng = Random(seed)
    os.write(1, b"0\n")  # imports are done: on a busy machine they take longer than a life here
    store = MessageStore.open(folder, SETTINGS)
    maintenance = Maintenance(store, RealDisk(), SystemClock())
    number = last_number(store) + 1
    while True:
        count = rng.choice((1, 1, 2, 7, 30))
        store.append([message(number + n, rng) for n in range(count)])
        store.flush()
        number += count
        os.write(1, b"%d\n" % number)
        maintenance.tick()


if __name__ == "__main__":
    main()
