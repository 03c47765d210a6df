"""The gRPC front door: CPU time of the broker for a send, and its memory with parked receives.

    python -m benchmarks.bench_grpc [SOURCE]

SOURCE is another checkout's ``src``, measured in the same run. Brokers run as processes, with the compiled core and
without, all alive at once and in turns; the least of some rounds counts.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Protocol

from benchmarks.generator import resident_mb, threads_cpu_s
from benchmarks.grpc_consumers import LoadConsumer, consume
from benchmarks.grpc_load import GrpcLoad, keep_outstanding, send_request
from benchmarks.measure import machine
from pyromq import Admin
from pyromq.compiled_core import SWITCH, core
from pyromq.testing import ServerProcess
from pyromq.wire.grpc.codes import ClientType, StatusCode
from pyromq.wire.grpc.definitions import (
    FilterExpression,
    GroupSubscription,
    GrpcClientSettings,
    MessageQueue,
    ProtoTime,
    Resource,
    Status,
    SubscriptionEntry,
)
from pyromq.wire.grpc.protobuf import decode
from pyromq.wire.grpc.services import (
    AckMessageEntry,
    AckMessageRequest,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    SendMessageResponse,
    TelemetryCommand,
)

TOPIC, RECEIVED, BODY = "load", "received", bytes(range(256)) * 4
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SENDS = (("64 outstanding", 1, 64), ("4 × 16 outstanding", 4, 16), ("16 waiting", 16, 1), ("1 waiting", 1, 1))
CALLS = 6_000
PARKED = 10_000
MESSAGES = 3_200  # that are received and acknowledged by one that decodes them
CONSUMED = 6_400  # by those that do not
CONSUMERS = (1, 8, 32)
ROUNDS_OF_EACH = 10  # receives of each consumer at least
WARM = 2


class Served(Protocol):
    """A server as a process, ours or another's."""

    pid: int
    port: int
    nameserver: str


class Measured:
    """A broker as a process."""

    def __init__(self, mode: str, source: str, stack: ExitStack, flush: str = "async") -> None:
        environment = {SWITCH: "1" if mode == "pure" else "", **({"PYTHONPATH": source} if source else {})}
        server = stack.enter_context(ServerProcess("up", "--flush", flush, "--grpc-port", "0", env=environment))
        self.pid, self.nameserver = server.pid, server.nameserver
        self.port = int(server.addresses["grpc"].rpartition(":")[2])
        for topic, queues in ((TOPIC, "4"), (RECEIVED, "1")):
            command = [sys.executable, "-m", "pyromq", "topic", "create", topic, "--queues", queues]
            subprocess.run([*command, "--nameserver", server.nameserver], check=True, capture_output=True)


def check_sent(data: bytes) -> None:
    status = decode(SendMessageResponse, data[5:]).status or Status()
    assert status.code == StatusCode.OK, status


def send_us(broker: Served, connections: int, outstanding: int) -> float:
    """CPU µs of the broker a send."""
    loads = [GrpcLoad(broker.port, f"producer-{number}") for number in range(connections)]
    each = CALLS // connections
    request = [send_request(number, TOPIC, BODY) for number in range(each)]
    calls = [iter([load.call("SendMessage", data) for data in request]) for load in loads]
    keep_outstanding(loads, [iter([next(own) for _ in range(8)]) for own in calls], 1, check_sent)
    before = threads_cpu_s(broker.pid)
    done = keep_outstanding(loads, calls, outstanding)
    took = (threads_cpu_s(broker.pid) - before) / done * 1e6
    for load in loads:
        load.close()
    return took


def receive_request(group: str, batch: int, polling_s: int) -> bytes:
    return ReceiveMessageRequest(
        group=Resource(name=group),
        message_queue=MessageQueue(topic=Resource(name=RECEIVED)),
        filter_expression=FilterExpression(kind=1, expression="*"),
        batch_size=batch,
        invisible_duration=ProtoTime(seconds=60),
        long_polling_timeout=ProtoTime(seconds=polling_s),
    ).encode()


def consume_us(broker: Served, consumers: int, *, one_by_one: bool) -> float:
    """CPU µs of the broker for a message that is received, 32 at once, and acknowledged, by so many consumers at once.

    Each has a connection of its own, and something outstanding on it at any time; they do as little as they can.
    """
    group, producer = f"group-{os.urandom(4).hex()}", GrpcLoad(broker.port, "producer")
    with Admin(broker.nameserver) as admin:
        admin.groups.create(group)
    each = max(ROUNDS_OF_EACH, CONSUMED // 32 // consumers)
    loads = [GrpcLoad(broker.port, f"{group}-{number}") for number in range(consumers)]
    for load in loads:
        _tell_settings(load, group)
    first = loads[0]
    first.socket.sendall(first.call("ReceiveMessage", receive_request(group, 1, 20)))  # a new group begins at the end
    time.sleep(0.2)
    count = (each + WARM) * consumers * 32 + 1
    sends = [producer.call("SendMessage", send_request(number, RECEIVED, BODY)) for number in range(count)]
    keep_outstanding([producer], [iter(sends)], 64)
    _received(first)
    request, names = receive_request(group, 32, 5), _acks(group, [])
    members = [LoadConsumer(load, request, names, WARM + each, one_by_one=one_by_one) for load in loads]
    consume(members, WARM)
    before = threads_cpu_s(broker.pid)
    done = consume(members, each)
    took = (threads_cpu_s(broker.pid) - before) / done * 1e6
    for load in (*loads, producer):
        load.close()
    return took


def receive_us(broker: Served, *, one_by_one: bool) -> float:
    """CPU µs of the broker for a message that is received, 32 at once, and acknowledged; by one consumer that decodes
    everything, so that the broker waits for it between two calls, and wakes up for each."""
    group = f"group-{os.urandom(4).hex()}"
    with Admin(broker.nameserver) as admin:
        admin.groups.create(group)  # Apache's proxy knows no others
    load, producer = GrpcLoad(broker.port, group), GrpcLoad(broker.port, "producer")
    _tell_settings(load, group)
    load.socket.sendall(load.call("ReceiveMessage", receive_request(group, 1, 20)))  # a new group begins at the end
    time.sleep(0.2)
    sends = [producer.call("SendMessage", send_request(number, RECEIVED, BODY)) for number in range(MESSAGES + 64)]
    keep_outstanding([producer], [iter(sends)], 64)
    _received(load)
    before, count, empty = threads_cpu_s(broker.pid), 0, 0
    while count < MESSAGES - 32:
        load.socket.sendall(load.call("ReceiveMessage", receive_request(group, 32, 5)))
        entries = [_entry(each) for each in _received(load)]
        empty = 0 if entries else empty + 1
        assert empty < 3, "nothing was received"
        acks = [[entry] for entry in entries] if one_by_one else [entries]
        keep_outstanding([load], [iter([load.call("AckMessage", _acks(group, each)) for each in acks])], 32)
        count += len(entries)
    took = (threads_cpu_s(broker.pid) - before) / count * 1e6
    load.close()
    producer.close()
    return took


def _tell_settings(load: GrpcLoad, group: str) -> None:
    """As every official client does; Apache's proxy serves no receive before that."""
    entry = SubscriptionEntry(topic=Resource(name=RECEIVED), expression=FilterExpression(kind=1, expression="*"))
    subscription = GroupSubscription(group=Resource(name=group), subscriptions=[entry])
    settings = GrpcClientSettings(client_type=ClientType.SIMPLE_CONSUMER, subscription=subscription)
    load.socket.sendall(load.call("Telemetry", TelemetryCommand(settings=settings).encode(), ends=False))
    answer: list[bytes] = []
    while not answer:
        has_ended, answer = load.read()
        assert not has_ended, "the settings were refused"


def _received(load: GrpcLoad) -> list[ReceiveMessageResponse]:
    found, ended = [], 0
    while not ended:
        ended, data = load.read()
        found += data
    return messages_of(b"".join(found))


def messages_of(data: bytes) -> list[ReceiveMessageResponse]:
    found, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at + 1)
        found.append(decode(ReceiveMessageResponse, data[at + 5 : at + 5 + size]))
        at += 5 + size
    return [each for each in found if each.message is not None]


def _entry(response: ReceiveMessageResponse) -> AckMessageEntry:
    assert response.message is not None and response.message.system_properties is not None
    system = response.message.system_properties
    return AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle or "")


def _acks(group: str, entries: list[AckMessageEntry]) -> bytes:
    return AckMessageRequest(group=Resource(name=group), topic=Resource(name=RECEIVED), entries=entries).encode()


def idle_ms(broker: Served) -> float:
    """CPU ms a second of a broker that nobody asks anything: it spends that while a client decodes, too."""
    before, began_s = threads_cpu_s(broker.pid), time.monotonic()
    time.sleep(2)
    return (threads_cpu_s(broker.pid) - before) * 1e3 / (time.monotonic() - began_s)


def parked_mb(broker: Measured) -> float:
    """MB that receives take while they wait, each of a client of its own, 100 on a connection."""
    before = resident_mb(broker.pid)
    loads = [GrpcLoad(broker.port, f"parked-{number}") for number in range(PARKED // 100)]
    request = receive_request(f"parked-{os.urandom(4).hex()}", 32, 20)
    for load in loads:
        load.socket.sendall(b"".join(load.call("ReceiveMessage", request) for _ in range(100)))
    probe = GrpcLoad(broker.port, "probe")
    for number in range(20):  # behind them
        keep_outstanding([probe], [iter([probe.call("SendMessage", send_request(number, "absent", BODY))])], 1)
    after = resident_mb(broker.pid)
    for load in (*loads, probe):
        load.close()
    return after - before


def main() -> None:
    modes = ("core", "pure") if core is not None else ("pure",)
    sources = ["", *sys.argv[1:2]]
    with ExitStack() as stack:
        brokers = {(mode, source): Measured(mode, source, stack) for source in sources for mode in modes}
        least: dict[tuple[str, tuple[str, str]], float] = {}

        def note(line: str, which: tuple[str, str], value: float) -> None:
            least[line, which] = min(value, least.get((line, which), value))

        for which, broker in brokers.items():  # first: pages of files that were read count as memory, too
            note(f"MB of {PARKED} parked receives", which, parked_mb(broker))
        for _ in range(ROUNDS):
            for line, connections, outstanding in SENDS:
                for which, broker in brokers.items():
                    note(f"send, {line}", which, send_us(broker, connections, outstanding))
            for which, broker in brokers.items():
                for one_by_one in (False, True):
                    acks = "32 calls for acks" if one_by_one else "one call for 32 acks"
                    for consumers in CONSUMERS:
                        line = f"receive of 32, {acks}, {consumers} at once"
                        note(line, which, consume_us(broker, consumers, one_by_one=one_by_one))
                    note(f"receive of 32, {acks}, one that decodes", which, receive_us(broker, one_by_one=one_by_one))
        for which, broker in brokers.items():
            note("idle, CPU ms a second", which, idle_ms(broker))
    print(f"{machine()}, load average {os.getloadavg()[0]:.1f}; CPU µs of the broker a message, least of {ROUNDS}")
    print(f"{'':48}" + "".join(f"{mode + (' beside' if source else ''):>14}" for mode, source in brokers))
    for line in dict.fromkeys(line for line, _ in least):
        print(f"  {line:46}" + "".join(f"{least[line, which]:14.1f}" for which in brokers))


if __name__ == "__main__":
    main()
