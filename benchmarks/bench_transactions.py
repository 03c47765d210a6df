"""Transactions against plain sends: 1 KiB bodies, four connections, 64 outstanding each, the broker in its own process.

CPU is that of the broker. A transaction is a prepared message and its commit: two requests, two messages and a share of
an op record. The generator here is light: whole windows of prepared frames, answers found with one regular expression.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Row
from pyromq.testing import ServerProcess
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request
from pyromq.wire.headers.producer import EndTransactionHeader, SendV2Header

BODY = b"x" * 1024
CONNECTIONS, WINDOW, SECONDS, REPEAT = 4, 64, 1.0, 3
KEY = "7F000001251A3A122C29493E92150000"
_stored = re.compile(rb'"msgId":"[0-9A-F]{16}([0-9A-F]{16})","queueId":"\d+","queueOffset":"(\d+)"').findall
_POSITION, _OFFSET = 1 << 61, (1 << 61) + 1  # what is replaced in a prepared frame
_pack_prefix = struct.Struct(">II").pack


class Broker(NamedTuple):
    pid: int
    port: int

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def broker(flush: str) -> Iterator[Broker]:
    with ServerProcess("up", "--flush", flush) as server:
        yield Broker(server.pid, int(server.broker.rpartition(":")[2]))


class Peer:
    """One connection that sends a window of frames and reads as many answers."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.prepared: list[tuple[bytes, bytes]] = []

    def send(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def read(self, count: int) -> bytes:
        data, start, wanted = bytearray(), 0, count
        while count:
            data += self._socket.recv(1 << 18)
            while count and len(data) - start >= 4:
                end = start + 4 + int.from_bytes(data[start : start + 4], "big")
                if end > len(data):
                    break
                start, count = end, count - 1
        assert data.count(b'"code":0,') == wanted, "something was refused"
        return bytes(data)


def _send_frame(properties: str) -> bytes:
    header = SendV2Header(
        producer_group="payers",
        topic="bench",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=0,
        properties=f"UNIQ_KEY\x01{KEY}\x02WAIT\x01true\x02{properties}",
    )
    return encode_request(RequestCode.SEND_MESSAGE_V2, 1, header, body=BODY)


def _end_text(*, oneway: bool) -> bytes:
    """The header of a commit, with places for offset and position."""
    header = EndTransactionHeader(
        producer_group="payers",
        tran_state_table_offset=_OFFSET,
        commit_log_offset=_POSITION,
        commit_or_rollback=8,
        msg_id=KEY,
        transaction_id=KEY,
    )
    text = encode_request(RequestCode.END_TRANSACTION, 1, header, oneway=oneway)[8:]
    offset, position = str(_OFFSET).encode(), str(_POSITION).encode()
    assert text.index(offset) < text.index(position), "the order of the fields of this header"
    return text.replace(offset, b"%d").replace(position, b"%d")


def _run(to: Broker, step: Callable[[Peer], None], begin: Callable[[Peer], None]) -> tuple[float, float]:
    """Windows on all connections until the time is over: CPU µs and operations per second."""
    peers = [Peer(to.port) for _ in range(CONNECTIONS)]
    for peer in peers:
        begin(peer)
    operations, wall, cpu = 0, time.perf_counter(), to.cpu_s()
    while time.perf_counter() - wall < SECONDS:
        for peer in peers:
            step(peer)
            operations += WINDOW
    taken = time.perf_counter() - wall
    return (to.cpu_s() - cpu) / operations * 1e6, operations / taken


def _plain(to: Broker) -> tuple[float, float]:
    window = _send_frame("") * WINDOW

    def step(peer: Peer) -> None:
        peer.read(WINDOW)
        peer.send(window)

    return _run(to, step, lambda peer: peer.send(window))


def _transactions(to: Broker, *, oneway: bool) -> tuple[float, float]:
    window, text = _send_frame("TRAN_MSG\x01true\x02PGROUP\x01payers\x02") * WINDOW, _end_text(oneway=oneway)

    def step(peer: Peer) -> None:
        """Reads the responses to this window and to the ends of the last one, sends the next of both."""
        prepared = _stored(peer.read(WINDOW + (0 if oneway else len(peer.prepared))))
        peer.prepared = prepared
        ends = [text % (int(offset), int(position, 16)) for position, offset in prepared]
        peer.send(b"".join([_pack_prefix(len(end) + 4, len(end)) + end for end in ends]) + window)

    return _run(to, step, lambda peer: peer.send(window))


def rows() -> list[Row]:
    found = []
    for flush in ("async", "sync"):
        runs: dict[str, list[tuple[float, float]]] = defaultdict(list)
        with broker(flush) as to:
            _plain(to)  # warm up, and the topic exists
            for _ in range(REPEAT):  # in turns, so that what else the machine does hits all of them
                runs["plain send"].append(_plain(to))
                runs["transaction, end answered"].append(_transactions(to, oneway=False))
                runs["transaction, end one-way"].append(_transactions(to, oneway=True))
        for name, outcomes in runs.items():
            cpu_us, rate = min(outcomes)
            found.append(Row(f"{flush} flush, {name}", cpu_us, rate, rate * len(BODY) / 1e6))
    return found
