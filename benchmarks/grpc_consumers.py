"""Consumers by gRPC that cost little: calls are begun in advance, receipts are cut out of responses undecoded."""

from __future__ import annotations

import re
import selectors
from collections import deque
from typing import Final

from benchmarks.grpc_load import GrpcLoad
from pyromq.wire.grpc.framing import PREFIX_BYTES
from pyromq.wire.grpc.hot import STATUS_OK

BATCH: Final = 32
_WAIT_S: Final = 30
_SAFE: Final = b"\x0a%c%b" % (len(STATUS_OK), STATUS_OK)  # how the response to acknowledgements begins
_ID: Final = re.compile(rb"\x1a\x22(01[0-9A-F]{32})")  # as ``grpc_load.send_request`` makes them
_RECEIPT: Final = re.compile(rb"\x62(.)(?=\d+ \d{13} \d+ \d+ \d [^ ]+ \d+ \d+)", re.DOTALL)  # Apache's go on


class LoadConsumer:
    """One connection: a receive, its acknowledgements, the next receive, and so on."""

    def __init__(self, load: GrpcLoad, request: bytes, names: bytes, rounds: int, *, one_by_one: bool) -> None:
        self.load = load
        self.left = 0  # receives that are still to be made
        self._names = names  # an AckMessageRequest without entries
        self._calls = 1 if not one_by_one else BATCH
        self._receives: deque[bytes] = deque()
        self._acks: deque[list[tuple[int, bytes]]] = deque()
        for _ in range(rounds):
            self._receives.append(load.call("ReceiveMessage", request))
            self._acks.append([load.begin("AckMessage") for _ in range(self._calls)])
        self._data: list[bytes] = []
        self._waits_for = 0  # calls that acknowledge

    def receive(self) -> None:
        self.left -= 1
        self.load.socket.sendall(self._receives.popleft())

    def read(self) -> bool:
        """Go on with what came; False when there is nothing left to do."""
        ended, data = self.load.read()
        if self._waits_for:
            assert all(each.startswith(_SAFE, PREFIX_BYTES) for each in data), data
            self._waits_for -= ended
            if not self._waits_for and not self.left:
                return False
            if not self._waits_for:
                self.receive()
            return True
        self._data += data
        if ended:
            self._acknowledge(b"".join(self._data))
            self._data.clear()
        return True

    def _acknowledge(self, data: bytes) -> None:
        ids = _ID.findall(data)
        receipts = [data[found.end() : found.end() + ord(found[1])] for found in _RECEIPT.finditer(data)]
        assert len(ids) == len(receipts) == BATCH, f"{len(ids)} messages and {len(receipts)} receipts were received"
        entries = [_entry(*each) for each in zip(ids, receipts, strict=True)]
        calls, names, with_request = self._acks.popleft(), self._names, self.load.with_request
        if len(calls) == 1:
            written = with_request(calls[0], names + b"".join(entries))
        else:
            written = b"".join([with_request(each, names + own) for each, own in zip(calls, entries, strict=True)])
        self._waits_for = len(calls)
        self.load.socket.sendall(written)


def _entry(message_id: bytes, receipt: bytes) -> bytes:
    """An entry of AckMessageRequest, all of whose sizes have one byte."""
    inner = b"\x0a%c%b\x12%c%b" % (len(message_id), message_id, len(receipt), receipt)
    return b"\x1a%c%b" % (len(inner), inner)


def consume(consumers: list[LoadConsumer], rounds: int) -> int:
    """Let each of them receive so many times and acknowledge, all at once; how many messages these are."""
    selector = selectors.DefaultSelector()
    for each in consumers:
        each.left = rounds
        selector.register(each.load.socket, selectors.EVENT_READ, each)
    for each in consumers:
        each.receive()
    working = len(consumers)
    while working:
        ready = selector.select(_WAIT_S)
        assert ready, "the server does not answer"
        for key, _ in ready:
            if not key.data.read():
                selector.unregister(key.fileobj)
                working -= 1
    return rounds * BATCH * len(consumers)
