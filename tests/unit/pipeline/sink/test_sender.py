"""The sink's sender without brokers: what it waits for, what it tries again, and where."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.producer.topic_queues import TopicQueues
from pyromq.client.sync.loop_thread import LoopThread
from pyromq.errors import BrokerError, ConnectFailedError, ConnectionLostError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core import retry_window
from pyromq.pipeline.sink.keys import RowKeys
from pyromq.pipeline.sink.requests import SinkRequest
from pyromq.pipeline.sink.sender import RequestSender
from pyromq.testing import ManualClock
from tests.unit.pipeline.sink.packing import QUEUES, parse

PATIENCE_S = 60
LOST, REFUSED = ConnectionLostError("gone", peer="a"), ConnectFailedError("refused", peer="a")

Answer = int | Exception
Script = Callable[[bytes, int], Answer]
"""What a broker answers to a body the first, second, … time."""


class Brokers:
    """Of the topic ``out``; ``asked`` has broker and body of every request in the order they came."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.asked: list[tuple[str, bytes]] = []
        self.properties: list[str] = []
        self.gate: asyncio.Future[None] | None = None  # requests wait for this future, if there is one
        self.was_asked = threading.Semaphore(0)

    def link(self, broker: str) -> Any:
        async def request(code: int, fields: dict[str, str], body: bytes, *, timeout_ms: int) -> Any:
            self.asked.append((broker, body))
            self.properties.append(fields["i"])
            self.was_asked.release()
            if self.gate is not None:
                await self.gate
            answer = self._script(body, sum(each == body for _, each in self.asked))
            if isinstance(answer, Exception):
                raise answer
            header = SimpleNamespace(msg_id="7F00000100002A9F0000000000000010", queue_offset=5)
            return SimpleNamespace(code=answer, remark="", header_as=lambda _: header)

        return SimpleNamespace(request=request)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.asked]


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopThread]:
    monkeypatch.setattr(retry_window, "_WAIT_MS_FIRST", 1)
    loop = LoopThread()
    loop.acquire()
    yield loop
    loop.release()


def sender(thread: LoopThread, brokers: Brokers, *, in_flight: int = 2, **more: Any) -> RequestSender:
    known = TopicQueues("out", QUEUES, {name: brokers.link(name) for name in ("a", "b")})
    client = SimpleNamespace(
        wire_name=lambda name: name,
        clock=ManualClock(),
        signer=SimpleNamespace(signed=lambda fields, body=b"": fields),
        routes=SimpleNamespace(refresh_soon=lambda topic: None),
    )
    connected = SimpleNamespace(client=client, thread=thread, call=thread.call)
    made = RequestSender(cast(Any, connected), parse(topic="out", inFlight=str(in_flight), settleTime="1ms"), **more)

    async def find(topic: str) -> TopicQueues:
        return known

    made._find = find  # type: ignore[method-assign]
    return made


def request(body: bytes, queue: QueueId | None = None, key: str = "k") -> SinkRequest:
    return SinkRequest("out", queue, body, [key])


def fine(body: bytes, time: int) -> Answer:
    return 0


def first_time(answer: Answer) -> Script:
    return lambda body, time: answer if time == 1 and body == b"1" else 0


def test_a_task_is_done_when_brokers_have_confirmed_everything(thread: LoopThread) -> None:
    brokers = Brokers(fine)

    async def gate() -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    brokers.gate = thread.call(gate())
    tasks = sender(thread, brokers)
    with ThreadPoolExecutor() as pool:
        for body in (b"1", b"2"):
            tasks.put(request(body))
            assert brokers.was_asked.acquire(timeout=PATIENCE_S)
        finishing = pool.submit(tasks.finish)
        with pytest.raises(TimeoutError):
            finishing.result(0.1)
        thread.soon(brokers.gate.set_result, None)
        assert finishing.result(PATIENCE_S).rows == 2


@pytest.mark.parametrize("answer", [13, 26])
def test_what_is_refused_for_good_ends_the_task(thread: LoopThread, answer: int) -> None:
    tasks = sender(thread, Brokers(lambda body, time: answer))
    tasks.put(request(b"1"))
    with pytest.raises(BrokerError):
        tasks.finish()


def test_a_failure_is_told_to_the_next_who_puts(thread: LoopThread) -> None:
    tasks = sender(thread, Brokers(lambda body, time: 13), in_flight=1)
    tasks.put(request(b"1"))
    with pytest.raises(BrokerError):
        tasks.put(request(b"2"))


@pytest.mark.parametrize("answer", [2, 14, 10, 12, LOST, REFUSED])
def test_what_may_pass_is_sent_again_and_counted_once(thread: LoopThread, answer: Answer) -> None:
    brokers = Brokers(first_time(answer))
    tasks = sender(thread, brokers)
    tasks.put(request(b"1"))
    assert tasks.finish().rows == 1 and brokers.bodies == [b"1", b"1"]
    assert len({broker for broker, _ in brokers.asked}) == 2, "elsewhere, since any queue will do"


def test_requests_for_one_queue_keep_their_order_whatever_is_tried_again(thread: LoopThread) -> None:
    brokers = Brokers(first_time(2))
    tasks = sender(thread, brokers, in_flight=3)
    for body in (b"1", b"2", b"3"):
        tasks.put(request(body, QUEUES[0]))
    assert tasks.finish().rows == 3
    assert brokers.asked == [("a", b"1"), ("a", b"1"), ("a", b"2"), ("a", b"3")]


@pytest.mark.parametrize(
    ("answer", "is_there", "times"),
    [(LOST, True, 1), (LOST, False, 2), (1, True, 1), (12, True, 1), (12, False, 2), (REFUSED, True, 2), (2, True, 2)],
)
def test_what_may_have_arrived_is_looked_for_first(
    thread: LoopThread, answer: Answer, is_there: bool, times: int
) -> None:
    brokers = Brokers(first_time(answer))
    tasks = sender(thread, brokers, is_stored=lambda request, queue: is_there)
    tasks.put(request(b"1"))
    assert tasks.finish().rows == 1 and len(brokers.asked) == times


@pytest.mark.parametrize(("answer", "is_renamed"), [(LOST, True), (12, True), (REFUSED, False), (14, False)])
def test_a_prepared_message_that_may_have_arrived_takes_another_key(
    thread: LoopThread, answer: Answer, is_renamed: bool
) -> None:
    """The first one is rolled back; were its key the same, so would be the second."""
    brokers, key = Brokers(first_time(answer)), RowKeys("query", 1, 2).of_row(0)
    tasks = sender(thread, brokers, keeps_prepared=True)
    tasks.put(SinkRequest("out", None, b"1", [key], f"UNIQ_KEY\x01{key}\x02"))
    sent = tasks.finish()
    (row,) = sent.prepared
    assert (row.key != key) is is_renamed and sent.doubtful == ([key] if is_renamed else [])
    assert brokers.properties[-1] == f"UNIQ_KEY\x01{row.key}\x02"
