"""Messages that wait: at a delay level, for a time, for the end of their transaction. Left with one broker, and looked
for at another one that took over the store."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from interop.asking import connected
from interop.conversation import pull_header, send_header, topic_header
from pyromq.net import Connection, Handler
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.headers.producer import EndTransactionHeader, SendResponseHeader
from pyromq.wire.json.heartbeat import Heartbeat, ProducerData, encode_heartbeat
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.properties import decode_properties
from pyromq.wire.received import Received
from pyromq.wire.record import Record, split_records

TOPIC: Final = "Later"
GROUP: Final = "payers"
LADDER: Final = "1s 20s"
DELAY_MS: Final = 20_000  # long enough to stop a broker and start another
LEVEL: Final = 2
_EARLY_MS: Final = 1_000  # a timer of RocketMQ's is as exact as its wheel
_EACH: Final = 12
_COMMIT, _ROLLBACK = 8, 12
_ENDS_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
_TIMEOUT_MS: Final = 10_000
_NOTES_S: Final = 2.5  # how far timers are is noted every second; what was not, Apache takes up twice after a crash
_DUPLICATES_S: Final = 4  # two rounds of checks


@dataclass(slots=True)
class Pending:
    """What was left: when which message is due, and how transactions shall end when a broker asks."""

    due_ms: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)

    @property
    def visible(self) -> set[str]:
        """Keys of messages that are in their topic at the end."""
        return self.due_ms.keys() | {key for key, end in (self.ends | self.ended).items() if end == _COMMIT}


async def leave(address: str, delay_ms: int = DELAY_MS) -> Pending:
    """Sends messages that wait; some transactions are ended at once. Back when the broker has noted all of it."""
    pending = Pending()
    async with connected(address) as broker:
        await _ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header(TOPIC, 1))
        for n in range(_EACH):
            await _send(broker, f"level{n}", f"DELAY\x01{LEVEL}\x02")
            pending.due_ms[f"level{n}"] = _now_ms() + delay_ms
            due_ms = _now_ms() + delay_ms + 100 * n
            await _send(broker, f"timer{n}", f"TIMER_DELIVER_MS\x01{due_ms}\x02")
            pending.due_ms[f"timer{n}"] = due_ms
            half = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
            pending.ends[f"half{n}"] = _COMMIT if n % 2 else _ROLLBACK
            await _send(broker, f"half{n}", half)
            pending.ended[f"ended{n}"] = _COMMIT if n % 2 else _ROLLBACK
            sent = await _send(broker, f"ended{n}", half)
            await _ask(broker, RequestCode.END_TRANSACTION, _end(sent, pending.ended[f"ended{n}"]))
        await asyncio.sleep(_NOTES_S)
        for _ in range(30):
            if await _ends_noted(broker) == _EACH:
                break
            await asyncio.sleep(0.2)
    return pending


async def _ends_noted(broker: Connection) -> int:
    """Apache gathers for three seconds which transactions have ended: a broker that takes over earlier asks again."""
    return sum(record.body.count(b",") for record in await delivered(broker, _ENDS_TOPIC))


async def collect(address: str, pending: Pending, timeout_s: float = 90) -> list[str]:
    """Answers checks and waits; what is not as it should be, in words."""
    producer = _Producer(pending.ends)
    async with connected(address, handler=producer) as broker:
        beat = Heartbeat(client_id="127.0.0.1@payer", producer_data_set=(ProducerData(group_name=GROUP),))
        await _ask(broker, RequestCode.HEART_BEAT, None, encode_heartbeat(beat))
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = {_key(record) for record in await delivered(broker)}
            if found >= pending.visible and producer.asked.keys() >= pending.ends.keys():
                break
            await asyncio.sleep(0.5)
        await asyncio.sleep(_DUPLICATES_S)
        records = await delivered(broker)
    counts = Counter(map(_key, records))
    wrong = [f"{key} is missing" for key in sorted(pending.visible - counts.keys())]
    wrong += [f"{key} came {count} times" for key, count in counts.items() if count > 1]
    wrong += [f"{key} was rolled back" for key in sorted(counts.keys() - pending.visible)]
    wrong += [f"{key} was not asked about" for key in sorted(pending.ends.keys() - producer.asked.keys())]
    wrong += [f"{key} was asked about {count} times" for key, count in producer.asked.items() if count > 1]
    wrong += [f"{key} had ended and was asked about" for key in sorted(producer.asked.keys() - pending.ends.keys())]
    early = [r for r in records if r.stored_ms < pending.due_ms.get(_key(r), 0) - _EARLY_MS]
    return wrong + [f"{_key(record)} came too early" for record in early]


async def nothing_is_due(address: str, pending: Pending) -> bool:
    """Whether only transactions that were committed are in the topic so far."""
    committed = {key for key, end in pending.ended.items() if end == _COMMIT}
    async with connected(address) as broker:
        return {_key(record) for record in await delivered(broker)} == committed


async def delivered(broker: Connection, topic: str = TOPIC) -> list[Record]:
    found: list[Record] = []
    while True:
        header = pull_header(len(found), topic=topic, consumer_group="interop-reader")
        response = await broker.request(RequestCode.PULL_MESSAGE, header, timeout_ms=_TIMEOUT_MS)
        if response.code != 0:
            return found
        found += split_records(response.body)


class _Producer(Handler):
    """Ends every transaction that it is asked about."""

    def __init__(self, ends: dict[str, int]) -> None:
        self._ends, self.asked = ends, Counter[str]()

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            asked: CheckTransactionHeader = request.header
            key = asked.msg_id or ""
            self.asked[key] += 1
            header = EndTransactionHeader(
                producer_group=GROUP,
                tran_state_table_offset=asked.tran_state_table_offset,
                commit_log_offset=asked.commit_log_offset,
                commit_or_rollback=self._ends.get(key, 0),
                from_transaction_check=True,
                msg_id=key,
            )
            connection.request_oneway(RequestCode.END_TRANSACTION, header)


def _end(sent: SendResponseHeader, ending: int) -> EndTransactionHeader:
    return EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=sent.queue_offset,
        commit_log_offset=decode_offset_id(sent.msg_id)[1],
        commit_or_rollback=ending,
        msg_id=sent.transaction_id or "",
        transaction_id=sent.transaction_id,
    )


async def _send(broker: Connection, key: str, properties: str) -> SendResponseHeader:
    sys_flag = 4 if "TRAN_MSG" in properties else 0
    header = send_header(TOPIC, 0, f"UNIQ_KEY\x01{key}\x02{properties}", sys_flag=sys_flag, born_timestamp=_now_ms())
    response = await _ask(broker, RequestCode.SEND_MESSAGE_V2, header, key.encode())
    return response.header_as(SendResponseHeader)


async def _ask(broker: Connection, code: RequestCode, header: Any, body: bytes = b"") -> Received[Any]:
    response = await broker.request(code, header, body, timeout_ms=_TIMEOUT_MS)
    assert response.code == 0, (code, response.code, response.remark)
    return response


def _key(record: Record) -> str:
    return decode_properties(record.properties)["UNIQ_KEY"]


def _now_ms() -> int:
    return int(time.time() * 1000)
