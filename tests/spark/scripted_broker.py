"""A broker that sends the bytes it is told to: name server and broker of one topic with one queue, on one port.

Brokers of ours store no record that is odd or damaged; this one has any. Responses hold a few records each, and their
headers are written in both forms in turn.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Self

from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Command, decode_command, encode_response
from pyromq.wire.frame import FrameDecoder, SerializeType
from pyromq.wire.json import bodies

TOPIC, BROKER = "scripted", "broker-s"
FORMS = (SerializeType.JSON, SerializeType.ROCKETMQ)


class ScriptedBroker:
    """``records`` are those from offset 0 on; ``first`` is where the queue begins as pulls hear it, not the planner.

    With ``cuts`` it closes connections instead of answering, at every so manieth pull.
    """

    def __init__(self, records: Sequence[bytes], rng: Random, *, first: int = 0, cuts: int = 0) -> None:
        self._records, self._rng, self._first, self._cuts = records, rng, first, cuts
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.pulls = self.responses = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        decoder = FrameDecoder()
        with peer, suppress(ConnectionError):  # of workers that have read enough
            while data := peer.recv(1 << 16):
                for frame in decoder.feed(data):
                    response = self._response(decode_command(frame))
                    if self._cuts and self.pulls % self._cuts == self._cuts - 1:
                        self.pulls += 1
                        return
                    peer.sendall(response)

    def _response(self, request: Command) -> bytes:
        code, more = self._outcome(request)
        form = FORMS[self.responses % len(FORMS)]
        self.responses += 1
        return encode_response(code, request.correlation_id, serialize_type=form, **more)

    def _outcome(self, request: Command) -> tuple[int, dict[str, Any]]:
        match request.code:
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                return ResponseCode.SUCCESS, {"body": self._route()}
            case RequestCode.GET_TOPIC_STATS_INFO:
                there = bodies.TopicOffset(min_offset=0, max_offset=len(self._records))
                table = bodies.TopicStats(offset_table={QueueId(TOPIC, BROKER, 0): there})
                return ResponseCode.SUCCESS, {"body": bodies.encode(table)}
            case RequestCode.PULL_MESSAGE:
                return self._pulled(int(request.ext["queueOffset"]), int(request.ext["maxMsgNums"]))
            case _:
                return ResponseCode.REQUEST_CODE_NOT_SUPPORTED, {}

    def _route(self) -> bytes:
        queues = {"brokerName": BROKER, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}
        broker = {"brokerName": BROKER, "cluster": "c", "brokerAddrs": {"0": self.address}}
        return json.dumps({"brokerDatas": [broker], "queueDatas": [queues]}).encode()

    def _pulled(self, offset: int, count: int) -> tuple[int, dict[str, Any]]:
        self.pulls += 1
        end = min(offset + count, offset + self._rng.randint(1, 17), len(self._records))
        facts = {"suggestWhichBrokerId": 0, "minOffset": self._first, "maxOffset": len(self._records)}
        if offset < self._first:
            header = {**facts, "nextBeginOffset": self._first}
            return ResponseCode.PULL_OFFSET_MOVED, {"header": {name: str(value) for name, value in header.items()}}
        header = {name: str(value) for name, value in {**facts, "nextBeginOffset": end}.items()}
        return ResponseCode.SUCCESS, {"header": header, "body": b"".join(self._records[offset:end])}
