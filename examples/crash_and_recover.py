"""Write a log, kill the writer with SIGKILL, recover, and prove that nothing acknowledged was lost.

python examples/crash_and_recover.py
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.wire.record import Draft, split_records

SETTINGS = StoreSettings(segment_bytes=1 << 20)
ROUNDS = 3
SECONDS_PER_ROUND = 0.7


def write_forever(folder: Path) -> None:
    """The victim: append orders in groups, flush, and report on stdout how many are durable."""
    with MessageStore.open(folder, SETTINGS) as store:
        number = sum(queue.end for queue in store.queues.values())
        while True:
            orders = [
                Draft(
                    topic="orders",
                    queue_id=n % 4,
                    body=b"order %d" % n,
                    properties=b"KEYS\x01order-%d\x02TAGS\x01%s\x02" % (n, (b"paid", b"new")[n % 2]),
                )
                for n in range(number, number + 16)
            ]
            store.append(orders)
            store.flush()  # from here on these orders are acknowledged
            number += len(orders)
            os.write(1, b"%d\n" % number)


def kill_a_writer(folder: Path) -> int:
    """Let a writer run for a while, then SIGKILL; returns the number of orders it had acknowledged."""
    writer = subprocess.Popen([sys.executable, __file__, "write", str(folder)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()  # it is at work
    time.sleep(SECONDS_PER_ROUND)
    writer.send_signal(signal.SIGKILL)
    lines = writer.stdout.read().split(b"\n")
    writer.wait()
    return int(lines[-2])


def read_orders(store: MessageStore) -> set[int]:
    """Every order through the ordinary read path, queue by queue."""
    numbers: set[int] = set()
    for topic, queue_id in store.queues:
        offset = 0
        while (result := store.reader.read(topic, queue_id, offset)).count:
            numbers.update(int(record.body.split()[1]) for record in split_records(result.to_bytes()))
            offset = result.next_offset
    return numbers


def main() -> int:
    console = Console()
    table = Table(title="Write, kill -9, recover, read")
    for column in ("round", "acknowledged", "found again", "lost", "torn bytes cut", "recovered in"):
        table.add_column(column, justify="right")
    lost_in_all = 0
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as name:
        folder = Path(name) / "store"
        for number in range(1, ROUNDS + 1):
            console.print(f"round {number}: a process appends orders for {SECONDS_PER_ROUND} s, then dies")
            acknowledged = kill_a_writer(folder)
            begin = time.perf_counter()
            with MessageStore.open(folder, SETTINGS) as store:
                took_ms = (time.perf_counter() - begin) * 1000
                found = read_orders(store)
                lost = len(set(range(acknowledged)) - found)
                lost_in_all += lost
                cut = sum(each.size for each in store.recovered.cuts)
                position = store.find("orders", f"order-{acknowledged - 1}")[0]
                last = store.reader.record_at(position).body.decode()
            table.add_row(*(f"{n:,}" for n in (number, acknowledged, len(found), lost, cut)), f"{took_ms:.0f} ms")
        console.print(table)
        console.print(f"The last acknowledged message, found by its key: {last!r} at log position {position:,}.")
    verdict = "Nothing acknowledged was lost." if not lost_in_all else f"{lost_in_all} ACKNOWLEDGED ORDERS WERE LOST."
    console.print(verdict)
    return 1 if lost_in_all else 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    if sys.argv[1:2] == ["write"]:
        write_forever(Path(sys.argv[2]))
    sys.exit(main())
