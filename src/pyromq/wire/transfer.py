"""Transfer of a log (RocketMQ: HAConnection, HAClient): what a master and a replica say to each other, on a port apart.

    replica ─▶ master   byte 0          8
                             position        up to where its log goes; the first: from where the master shall send
    master ─▶ replica   byte 0          8      12
                             position   size   that many bytes of the log; size 0: a sign of life

Big-endian, one after the other, nothing around them. A slice may begin and end anywhere in a record.

A master of ours says in its run-time information that it understands names. To such a master, and to no other, a
replica of ours says two numbers before its first position: ``NAMED`` or ``SILENT``, and its broker id. Where the master
has access control, ``PROVEN`` and 32 bytes of proof come before these. RocketMQ has nothing of the kind: to its masters
a replica is an address.
"""

from __future__ import annotations

import struct
from typing import Final

from pyromq.errors import RemoteProtocolError

_HEAD: Final = struct.Struct(">qi")
_REPORT: Final = struct.Struct(">q")
HEAD_BYTES: Final = _HEAD.size
REPORT_BYTES: Final = _REPORT.size
NAMED: Final = -0x5079_726F_4D51_0001  # no position; what follows is the id of the replica that speaks
SILENT: Final = -0x5079_726F_4D51_0002  # likewise, of a copy that is never to be counted
PROVEN: Final = -0x5079_726F_4D51_0003  # no position either; what follows is a proof, as long as four positions
PROOF_BYTES: Final = 32
SLICE_BYTES_MAX: Final = 4 << 20  # a replica of RocketMQ's has no room for more


def encode_head(position: int, size: int) -> bytes:
    return _HEAD.pack(position, size)


def encode_report(position: int) -> bytes:
    return _REPORT.pack(position)


def encode_name(broker_id: int, *, silent: bool = False) -> bytes:
    return encode_report(SILENT if silent else NAMED) + encode_report(broker_id)


def encode_proof(proof: bytes) -> bytes:
    assert len(proof) == PROOF_BYTES
    return encode_report(PROVEN) + proof


class ReportDecoder:
    """What a replica says, cut anywhere; bytes in, positions out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        data = self._rest + data
        whole = len(data) - len(data) % REPORT_BYTES
        self._rest = data[whole:]
        return [position for (position,) in _REPORT.iter_unpack(data[:whole])]


class SliceDecoder:
    """What a master says, cut anywhere; bytes in, parts of slices out, each with the position of its first byte.

    Nothing is kept but an incomplete head: a part is given out as it comes. A part without bytes is a sign of life.
    """

    def __init__(self) -> None:
        self._head = b""  # of the next slice, incomplete
        self._position = 0  # of the next byte of the slice under way
        self._left = 0  # bytes of it that are to come

    @property
    def is_inside(self) -> bool:
        """More of the slice under way is to come."""
        return self._left > 0

    def feed(self, data: bytes) -> list[tuple[int, memoryview]]:
        """Parts are views of the data. Raises RemoteProtocolError when the peer speaks something else."""
        found: list[tuple[int, memoryview]] = []
        at, end, view = 0, len(data), memoryview(data)
        while at < end:
            if not self._left:
                needed = HEAD_BYTES - len(self._head)
                self._head += data[at : at + needed]
                at += needed
                if len(self._head) < HEAD_BYTES:
                    break
                self._begin()
                if not self._left:
                    found.append((self._position, view[:0]))
                continue
            part = view[at : at + self._left]
            found.append((self._position, part))
            self._position += len(part)
            self._left -= len(part)
            at += len(part)
        return found

    def _begin(self) -> None:
        self._position, self._left = _HEAD.unpack(self._head)
        self._head = b""
        if self._position < 0 or not 0 <= self._left <= SLICE_BYTES_MAX:
            raise RemoteProtocolError(
                f"a slice of {self._left} bytes at position {self._position}: this is no master's replication port"
            )
