"""Responses to sends that the compiled core reads: requests end as they do without it, whatever comes, cut anywhere."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from pyromq.client.core import callbacks
from pyromq.client.core.callbacks import Callbacks
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.client.producer.retrying_sender import RetryingSender
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.net import Connection, ConnectionSettings, FastPath
from pyromq.testing import ManualClock
from pyromq.wire.command import encode_response
from pyromq.wire.frame import FRAME_BYTES_MAX, PREFIX_BYTES, SerializeType
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.received import HEADER_BYTES_DECODED_MAX
from tests.running.seeds import seeds
from tests.unit.net.fakes import NEVER_IDLE, Notebook, Rig, turn

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
OUTGOING = OutgoingMessage(SEND, "t", b"", "", "ID", 0, 0)
QUEUE = QueueId("t", "broker-a", 3)
ROUNDS = 400
CALLBACKS = Callbacks(lambda: (), None, ManualClock(), "")  # type: ignore[arg-type]


class ClientNotebook(Notebook):
    def fast_path(self, connection: Connection) -> FastPath | None:
        return CALLBACKS.fast_path(connection)


def rig(with_core: bool, settings: ConnectionSettings = NEVER_IDLE) -> Rig:
    return Rig(handler=ClientNotebook() if with_core else Notebook(), is_server=False, settings=settings)


def random_response(rng: Random, number: int, oddness: float) -> bytes:
    if rng.random() >= oddness:
        found = SendResponseHeader(msg_id="7F01" * 8, queue_id=3, queue_offset=number, region="R", on_disk="true")
        return encode_response(0, number, found)
    header = SendResponseHeader(
        msg_id=rng.choice(("7F01" * 8, "A,B,C", "", 'odd "id"', "ä")),
        queue_id=rng.choice((3, 0, -1, (1 << 31) - 1)),
        queue_offset=rng.choice((0, 7, 10**17, (1 << 63) - 1, -1)),
        transaction_id=rng.choice((None, "AB12", "")),
        recall_handle=rng.choice((None, None, "handle")),
        region=rng.choice((None, "DefaultRegion", "DefaultRegion", "Süd", "")),
        trace_on=rng.choice((None, "true")),
        on_disk=rng.choice((None, "true", "false", "", "TRUE")),
    )
    odd = rng.random()
    if odd < 0.7:
        return encode_response(0, number, header)
    if odd < 0.75:
        return encode_response(0, number, header, serialize_type=SerializeType.ROCKETMQ)
    if odd < 0.8:
        return encode_response(rng.choice((1, 10, 14)), number, header, remark="no")
    if odd < 0.85:
        return encode_response(0, number, header, body=b"a body", remark=rng.choice((None, "FOUND")))
    if odd < 0.9:
        return encode_response(
            0, number, {"msgId": "A", "queueId": rng.choice(("x", "1.0", "007")), "queueOffset": "2"}
        )
    if odd < 0.95:
        return encode_response(0, number, rng.choice((None, {"other": "x"}, {"msgId": "A"})))
    frame = encode_response(0, number, header)
    return frame.replace(rng.choice((b'"flag":1', b"{", b"queueId")), rng.choice((b'"flag":0', b"[", b"x")), 1).ljust(
        len(frame)
    )[: len(frame)]


def receipt(response: Any) -> Any:
    sender = RetryingSender.__new__(RetryingSender)  # both functions read nothing of it
    try:
        if isinstance(response, tuple):
            return sender.receipt_of_facts(OUTGOING, QUEUE, response)
        return response.code, sender.receipt(OUTGOING, QUEUE, response) if response.code == 0 else response.remark
    except MQError as error:
        return str(error)


def is_answered(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def ending(future: asyncio.Future[Any]) -> Any:
    if not is_answered(future):
        return "cancelled" if future.cancelled() else str(future.exception()) if future.done() else "waits"
    found = receipt(future.result())
    return (0, found) if isinstance(future.result(), tuple) else found


async def endings(seed: int, *, with_core: bool) -> tuple[list[Any], int, list[str], int]:
    rng = Random(seed)
    around, oddness = rig(with_core), rng.choice((0.02, 0.3, 1))
    connection = around.connection
    futures: list[asyncio.Future[Any]] = []
    for _ in range(rng.choice((1, 5, 40))):
        number = connection.begin_request()
        takes_facts = rng.random() < 0.8  # others wait for a whole response
        futures.append(connection.send_request(number, b"frame", SEND, 3_000, takes_facts=takes_facts))
    if rng.random() < 0.2:
        futures[0].cancel()
    numbers = rng.sample(range(1, len(futures) + 3), len(futures))  # some are nobody's
    stream = b"".join(random_response(rng, number, oddness) for number in numbers)
    while stream:
        cut = rng.choice((len(stream), rng.randrange(1, len(stream) + 1)))
        if connection.is_open:
            around.arrive(stream[:cut])
        stream = stream[cut:]
    await turn()  # connections that broke are over now
    found = [ending(future) for future in futures]
    facts = sum(isinstance(future.result(), tuple) for future in futures if is_answered(future))
    handler = connection._handler
    assert isinstance(handler, Notebook)
    return found, connection.frames_in, handler.events, facts


@needs_core
@pytest.mark.seeded
async def test_requests_end_as_they_do_without_the_core() -> None:
    taken = 0
    for seed in seeds(ROUNDS):
        *with_core, facts = await endings(seed, with_core=True)
        *without, none = await endings(seed, with_core=False)
        assert with_core == without, f"seed {seed}"
        assert none == 0
        taken += facts
    assert taken > ROUNDS  # the core had its part in it


@needs_core
async def test_a_response_that_is_longer_than_allowed_ends_the_connection() -> None:
    settings = ConnectionSettings(idle_ms=0, frame_bytes_max=100)
    reasons = []
    for with_core in (True, False):
        around = rig(with_core, settings)
        around.arrive(encode_response(0, 1, SendResponseHeader(msg_id="A", queue_id=0, queue_offset=0)))
        assert not around.connection.is_open
        reasons.append(around.connection.close_reason)
    assert reasons[0] == reasons[1] and "at most 100" in reasons[0]


@needs_core
async def test_a_defect_of_the_core_ends_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:

    class Broken:
        def sent_responses(self, data: object, bytes_max: int) -> object:
            raise RuntimeError("the compiled core panicked; what it said is on stderr")

    monkeypatch.setattr(callbacks, "core", Broken())
    around = rig(with_core=True)
    future = around.connection.send_request(around.connection.begin_request(), b"frame", SEND, 3_000, takes_facts=True)
    around.arrive(encode_response(0, 1))
    await turn()
    assert around.transport.is_aborted
    assert "the handler failed" in str(future.exception())


async def test_without_the_core_there_is_no_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "core", None)
    assert CALLBACKS.fast_path(rig(with_core=False).connection) is None


@needs_core
@pytest.mark.parametrize("more", [0, 1])
async def test_a_header_that_is_too_long_to_decode_ends_the_connection_either_way(more: int) -> None:
    assert core is not None
    empty = encode_response(0, 1, SendResponseHeader(msg_id="", queue_id=3, queue_offset=7))
    ids = "7" * (HEADER_BYTES_DECODED_MAX - (len(empty) - PREFIX_BYTES) + more)
    data = encode_response(0, 1, SendResponseHeader(msg_id=ids, queue_id=3, queue_offset=7))
    assert core.sent_responses(data, FRAME_BYTES_MAX)[0] == (0 if more else len(data))
    found = []
    for with_core in (True, False):
        around = rig(with_core)
        number = around.connection.begin_request()
        future = around.connection.send_request(number, b"frame", SEND, 3_000, takes_facts=True)
        for start in range(0, len(data), 1 << 16):
            around.arrive(data[start : start + (1 << 16)])
        await turn()
        found.append((ending(future), around.connection.is_open))
    assert found[0] == found[1]
    assert found[0][1] is (more == 0)
