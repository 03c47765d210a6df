"""Pops without sockets: 32 messages are received and acknowledged; CPU time of the broker a message.

    python -m benchmarks.bench_pop [ROUNDS]

A process with the compiled core and one without take turns; the least of all rounds counts. Requests are made, and
responses read, while the watch stands still. Beside it pulls of 32 of the same messages, on the same broker.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.bench_lanes import Client, NoServer, pull, request, send, turns
from benchmarks.measure import machine
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.compiled_core import SWITCH
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.json.batch_ack import BatchAck, bits_of, encode_batch_ack

MESSAGES, ROUNDS, TRIES = 8_192, 3, 5
GROUP, TOPIC, BROKER = "poppers", "load", "broker-a"
_CHILD = "--one"


class Poppers:
    """Several connections, whose requests arrive in one loop iteration; ``spent_s`` is what the broker took."""

    def __init__(self, broker: Broker, count: int) -> None:
        self.clients = [Client(broker, number) for number in range(count)]
        self.number = 0
        self.spent_s = 0.0

    async def arrive(self, reads: list[bytes]) -> None:
        began_s = time.thread_time()
        for client, data in zip(self.clients, reads, strict=True):
            client.arrive(data)
        await turns(4)
        self.spent_s += time.thread_time() - began_s

    async def pop(self, group: str) -> list[dict[str, str]]:
        """The fields of each response."""
        ext = {"consumerGroup": group, "topic": TOPIC, "queueId": "-1", "maxMsgNums": "32", "invisibleTime": "60000"}
        ext |= {"pollTime": "0", "bornTime": "0", "initMode": "0", "expType": "TAG", "exp": "*", "order": "false"}
        await self.arrive([request(200050, ext, self.next()) for _ in self.clients])
        return [self._fields(client) for client in self.clients]

    async def ack(self, group: str, popped: list[dict[str, str]], *, one_by_one: bool) -> None:
        if one_by_one:
            reads = [b"".join(request(200051, ext, self.next()) for ext in singles(group, each)) for each in popped]
        else:
            reads = [request(200151, {}, self.next(), batches(group, each)) for each in popped]
        await self.arrive(reads)
        for client in self.clients:
            self._fields(client)

    def next(self) -> int:
        self.number += 1
        return self.number

    @staticmethod
    def _fields(client: Client) -> dict[str, str]:
        data = bytes(client.transport.last)
        found = json.loads(data[8 : 8 + int.from_bytes(data[5:8], "big")])
        assert found["code"] == 0, found
        fields: dict[str, str] = found.get("extFields", {})
        return fields


def batches(group: str, fields: dict[str, str]) -> bytes:
    starts = {entry.split(" ")[1]: int(entry.split(" ")[2]) for entry in fields["startOffsetInfo"].split(";")}
    acks = []
    for entry in fields["msgOffsetInfo"].split(";"):
        _, queue, offsets = entry.split(" ")
        start = starts[queue]
        acks.append(
            BatchAck(
                group=group,
                topic=TOPIC,
                start=start,
                queue_id=int(queue),
                number=int(fields["reviveQid"]),
                popped_ms=int(fields["popTime"]),
                invisible_ms=60_000,
                bits=bits_of(start, list(map(int, offsets.split(",")))),
            )
        )
    return encode_batch_ack(acks, BROKER)


def singles(group: str, fields: dict[str, str]) -> list[dict[str, str]]:
    starts = {entry.split(" ")[1]: entry.split(" ")[2] for entry in fields["startOffsetInfo"].split(";")}
    found = []
    for entry in fields["msgOffsetInfo"].split(";"):
        _, queue, offsets = entry.split(" ")
        for offset in offsets.split(","):
            receipt = f"{starts[queue]} {fields['popTime']} 60000 {fields['reviveQid']} 0 {BROKER} {queue} {offset}"
            ext = {"consumerGroup": group, "topic": TOPIC, "queueId": queue, "offset": offset, "extraInfo": receipt}
            found.append(ext)
    return found


async def measure_all(broker: Broker) -> dict[str, float]:
    sender = Client(broker, 99)
    for number in range(0, MESSAGES, 8):
        sender.arrive(b"".join(send(each) for each in range(number, number + 8)))
        await turns(8)
    least: dict[str, float] = {}

    def note(name: str, spent_s: float, count: int) -> None:
        least[name] = min(spent_s / count * 1e6, least.get(name, 1e9))

    for connections in (1, 8, 32):
        poppers = Poppers(broker, connections)
        for round_number in range(TRIES):
            for one_by_one in (False, True):
                group, count = f"{GROUP}-{connections}-{round_number}-{one_by_one}", 0
                pop_s = ack_s = 0.0
                while count + 32 * connections <= MESSAGES // 2:
                    poppers.spent_s = 0.0
                    popped = await poppers.pop(group)
                    pop_s, poppers.spent_s = pop_s + poppers.spent_s, 0.0
                    await poppers.ack(group, popped, one_by_one=one_by_one)
                    ack_s += poppers.spent_s
                    count += 32 * connections
                how = f"{'32 acks' if one_by_one else 'one batch of acks'}, {connections} at once"
                note(f"pop of 32, {connections} at once", pop_s, count)
                note(f"pop of 32 and {how}", pop_s + ack_s, count)
    for _ in range(TRIES):
        data = [pull(number, number % 20 * 32) for number in range(80)]
        began_s = time.thread_time()
        for each in data:
            sender.arrive(each)
        await turns(1)
        note("pulls of 32", time.thread_time() - began_s, len(data) * 32)
    return least


async def one() -> None:
    """One round in this process, with the core or without."""
    folder = Path(tempfile.mkdtemp(prefix="pyromq-pop-"))
    settings = BrokerSettings(port=0, name=BROKER, store=StoreSettings(flush=Flush.ASYNC))
    broker = Broker(settings, folder, new_server=NoServer)  # type: ignore[arg-type]
    try:
        await broker.start()
        gc.collect()
        gc.freeze()
        gc.disable()
        print(json.dumps(await measure_all(broker)))
        await broker.stop()
    finally:
        shutil.rmtree(folder)


def _child(mode: str) -> dict[str, float]:
    environment = {**os.environ, SWITCH: "1" if mode == "pure" else ""}
    command = [sys.executable, "-m", "benchmarks.bench_pop", _CHILD]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=300)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    least: dict[str, dict[str, float]] = {"pure": {}, "core": {}}
    for _ in range(rounds):
        for mode, known in least.items():
            for name, took_us in _child(mode).items():
                known[name] = min(took_us, known.get(name, took_us))
    print(f"{machine()}, load average {os.getloadavg()[0]:.1f}; CPU µs a message, least of {rounds} × {TRIES}")
    print(f"{'':44} {'pure':>8} {'core':>8}")
    for name, pure in least["pure"].items():
        print(f"  {name:42} {pure:8.2f} {least['core'][name]:8.2f}")


if __name__ == "__main__":
    if _CHILD in sys.argv:
        import uvloop

        uvloop.run(one())
    else:
        main()
