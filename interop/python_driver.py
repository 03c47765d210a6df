"""Our own client behind the lines of JSON that ``driver`` tells about: ``python -m interop.python_driver``."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import uvloop

from pyromq.aio import (
    ConsumeStatus,
    Message,
    OrderlyStatus,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueId,
    ReceivedMessage,
    SendReceipt,
    Transaction,
    TransactionOutcome,
    TransactionProducer,
)
from pyromq.errors import BrokerError, SendFailedError
from pyromq.offsets import SeekTo
from pyromq.results import BatchResult
from pyromq.settings import ClientSettings, Credentials, PushConsumerSettings, Start, TransactionProducerSettings

Arguments = dict[str, Any]
_SEND_TIMEOUT_MS = 5_000
_STARTS: dict[str, Start] = {"CONSUME_FROM_FIRST_OFFSET": "earliest", "CONSUME_FROM_LAST_OFFSET": "latest"}
_OUTCOMES = {
    "COMMIT_MESSAGE": TransactionOutcome.COMMIT,
    "ROLLBACK_MESSAGE": TransactionOutcome.ROLLBACK,
    "UNKNOW": TransactionOutcome.UNKNOWN,
}


class Closes(Protocol):
    async def close(self) -> None: ...


def _client_settings(a: Arguments) -> ClientSettings:
    credentials = Credentials(a["accessKey"], a["secretKey"]) if "accessKey" in a else None
    return ClientSettings(nameservers=a["nameserver"], instance_name=a["name"], credentials=credentials)


def _message(fields: Arguments) -> Message:
    return Message(
        fields["topic"],
        fields["body"].encode(),
        tags=fields.get("tags", ""),
        keys=fields.get("keys", ()),
        properties=fields.get("properties", {}),
        delay_level=fields.get("delayLevel", 0),
        delay_ms=fields.get("delayMs", 0),
        deliver_at_ms=fields.get("deliverAtMs", 0),
    )


def _described(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "broker": message.broker,
        "queueId": message.queue_id,
        "offset": message.offset,
        "position": message.position,
        "msgId": message.message_id,
        "offsetMsgId": message.offset_message_id,
        "keys": " ".join(message.keys) or None,
        "tags": message.tags or None,
        "body": message.body.decode(),
        "reconsumeTimes": message.delivery_attempt,
        "bornTimestamp": message.born_ms,
        "storeTimestamp": message.stored_ms,
        "properties": message.properties,
    }


def _result(receipt: SendReceipt) -> dict[str, Any]:
    return {
        "status": receipt.status.name,
        "msgId": receipt.message_id,
        "offsetMsgId": receipt.offset_message_id,
        "broker": receipt.queue.broker,
        "queueId": receipt.queue.number,
        "offset": receipt.offset,
        "transactionId": receipt.transaction_id,
    }


class Producers:
    """Producers by name."""

    def __init__(self) -> None:
        self.running: dict[str, Any] = {}  # Producer or TransactionProducer
        self.checked: dict[str, list[str]] = {}

    async def start(self, a: Arguments) -> str:
        settings = TransactionProducerSettings(
            timeout_ms=a.get("timeoutMs", _SEND_TIMEOUT_MS),
            retries=a.get("retries", 0),
            compress_from_bytes=a.get("compressOver", 4_096),
        )
        client_settings, trace = _client_settings(a), a.get("trace", False)
        if a.get("transactional"):
            self.running[a["name"]] = producer = self._transactional(a, settings, client_settings)
            await producer.open()
            return producer.client.id
        plain = self.running[a["name"]] = Producer(
            group=a["group"], settings=settings, client_settings=client_settings, trace=trace
        )
        await plain.open()
        return plain.client.id

    def _transactional(
        self, a: Arguments, settings: TransactionProducerSettings, client_settings: ClientSettings
    ) -> TransactionProducer:
        """Outcomes stand in the user properties of messages: "outcome" is the first answer, "checked" a later one."""
        checked = self.checked[a["name"]] = []

        async def check(message: ReceivedMessage) -> TransactionOutcome:
            checked.append(message.body.decode())
            return _OUTCOMES[message.get("checked") or ""]

        return TransactionProducer(
            group=a["group"], topics=a["topic"], check=check, settings=settings, client_settings=client_settings
        )

    async def transaction(self, a: Arguments) -> dict[str, Any]:
        async def execute(transaction: Transaction) -> TransactionOutcome:
            return _OUTCOMES[transaction.message.properties["outcome"]]

        producer: TransactionProducer = self.running[a["name"]]
        receipt = await producer.send(_message(a["message"]), execute)
        return _result(receipt.prepared)

    async def checks(self, a: Arguments) -> list[str]:
        return list(self.checked[a["name"]])

    async def send(self, a: Arguments) -> list[dict[str, Any]]:
        producer = self.running[a["name"]]
        messages = [_message(fields) for fields in a["messages"]]
        match a["mode"]:
            case "sync":
                receipts = [await producer.send(message) for message in messages]
            case "async":
                receipts = await asyncio.gather(*map(producer.send_nowait, messages))
            case "oneway":
                for message in messages:
                    await producer.send_oneway(message)
                receipts = []
            case "batch":
                return _one_result(await producer.send_batch(messages))
            case "ordered":
                shards = [fields["shard"] for fields in a["messages"]]
                pairs = zip(messages, shards, strict=True)
                receipts = [await producer.send(message, selector=_by_shard(shard)) for message, shard in pairs]
            case "queue":
                queues = [QueueId(message.topic, a["broker"], a["queueId"]) for message in messages]
                receipts = [await producer.send(m, queue=queue) for m, queue in zip(messages, queues, strict=True)]
            case mode:
                raise ValueError(f"no such mode: {mode}")
        return [_result(receipt) for receipt in receipts]

    async def request(self, a: Arguments) -> str:
        producer: Producer = self.running[a["name"]]
        reply = await producer.request(_message(a["message"]), timeout_ms=a["timeoutMs"])
        return reply.body.decode()


def _by_shard(shard: int) -> Callable[[Message, Sequence[QueueId]], QueueId]:
    return lambda message, queues: queues[shard % len(queues)]


def _one_result(receipts: list[SendReceipt]) -> list[dict[str, Any]]:
    """A batch is one request; Java's client tells of it in one result with all ids."""
    ids = {
        "msgId": ",".join(each.message_id for each in receipts),
        "offsetMsgId": ",".join(each.offset_message_id for each in receipts),
    }
    return [_result(receipts[0]) | ids]


@dataclass
class Listening:
    """A push consumer and what its listener saw."""

    arguments: Arguments
    replier: Producer | None
    seen: list[dict[str, Any]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    consumer: PushConsumer | None = None
    times: dict[str, int] = field(default_factory=dict)

    async def hear(self, message: ReceivedMessage) -> BatchResult | OrderlyStatus:
        a = self.arguments
        fields = _described(message) | {"at": int(time.time() * 1000)}
        attempt = message.delivery_attempt
        if a.get("orderly"):  # an orderly message stays in its buffer, where only its consumer counts
            attempt = fields["reconsumeTimes"] = self.times.get(message.message_id, 0)
            self.times[message.message_id] = attempt + 1
        self.seen.append(fields)
        self.news.set()
        if a.get("workMs"):
            await asyncio.sleep(a["workMs"] / 1000)
        if self.replier is not None:
            await self.replier.reply(message, b"reply to " + message.body)
        taken = attempt >= a.get("failTimes", 0)
        if a.get("orderly"):
            return OrderlyStatus.SUCCESS if taken else OrderlyStatus.SUSPEND
        status = ConsumeStatus.SUCCESS if taken else ConsumeStatus.RETRY
        return BatchResult(status, delay_level=a.get("delayLevel", 0))

    async def wait(self, count: int, timeout_ms: int) -> list[dict[str, Any]]:
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        while len(self.seen) < count and (left := deadline - asyncio.get_running_loop().time()) > 0:
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), left)
            except TimeoutError:
                break
        return list(self.seen)

    async def close(self) -> None:
        if self.consumer is not None:
            await self.consumer.close()
        if self.replier is not None:
            await self.replier.close()


class PushConsumers:
    """Push consumers by name."""

    def __init__(self) -> None:
        self.running: dict[str, Listening] = {}

    async def start(self, a: Arguments) -> str:
        listening = Listening(a, await self._replier(a) if a.get("reply") else None)
        consumer = PushConsumer(
            group=a["group"],
            listener=listening.hear,
            start=_STARTS[a.get("from", "CONSUME_FROM_FIRST_OFFSET")],
            broadcast=a.get("broadcasting", False),
            orderly=a.get("orderly", False),
            attempts_max=a.get("maxAttempts", -1),
            trace=a.get("trace", False),
            client_settings=_client_settings(a),
            settings=PushConsumerSettings(persist_ms=1_000),
        )
        if "sql" in a:
            consumer.subscribe(a["topic"], a["sql"], sql=True)
        else:
            consumer.subscribe(a["topic"], a.get("tags", "*"))
        listening.consumer = consumer
        await consumer.open()
        self.running[a["name"]] = listening
        return consumer.client.id

    @staticmethod
    async def _replier(a: Arguments) -> Producer:
        arguments = a | {"name": f"{a['name']}-replier"}
        producer = Producer(group=f"{a['group']}-replier", client_settings=_client_settings(arguments))
        await producer.open()
        return producer

    async def wait(self, a: Arguments) -> list[dict[str, Any]]:
        return await self.running[a["name"]].wait(a["count"], a["timeoutMs"])


class LitePullConsumers:
    """Pull consumers by name: subscribed, or with all queues of a topic assigned."""

    def __init__(self) -> None:
        self.running: dict[str, PullConsumer] = {}

    async def start(self, a: Arguments) -> str:
        consumer = PullConsumer(
            group=a["group"],
            start="earliest",
            auto_commit=a.get("autoCommit", False),
            client_settings=_client_settings(a),
        )
        if not a.get("assign"):
            consumer.subscribe(a["topic"], a.get("tags", "*"))
        await consumer.open()
        self.running[a["name"]] = consumer
        if a.get("assign"):
            await consumer.assign(await consumer.queues(a["topic"]))
        return consumer.client.id

    async def poll(self, a: Arguments) -> list[dict[str, Any]]:
        consumer, seen = self.running[a["name"]], list[dict[str, Any]]()
        deadline = time.monotonic() + a["timeoutMs"] / 1000
        while len(seen) < a["count"] and time.monotonic() < deadline:
            seen += [_described(message) for message in await consumer.poll(200)]
        return seen

    async def seek(self, a: Arguments) -> int:
        consumer = self.running[a["name"]]
        queues = await consumer.queues(a["topic"])
        if "queueId" in a:
            queues = [queue for queue in queues if queue.number == a["queueId"]]
        for queue in queues:
            await consumer.seek(queue, a.get("offset", SeekTo.BEGIN))
        return len(queues)

    async def commit(self, a: Arguments) -> bool:
        await self.running[a["name"]].commit()
        return True


class Driver:
    """All that can be asked."""

    def __init__(self) -> None:
        producers, pushes, lites = Producers(), PushConsumers(), LitePullConsumers()
        self._ops: dict[str, Callable[[Arguments], Awaitable[Any]]] = {
            "producer.start": producers.start,
            "producer.send": producers.send,
            "producer.request": producers.request,
            "producer.transaction": producers.transaction,
            "producer.checks": producers.checks,
            "producer.stop": _stops(producers.running),
            "push.start": pushes.start,
            "push.wait": pushes.wait,
            "push.stop": _stops(pushes.running),
            "lite.start": lites.start,
            "lite.poll": lites.poll,
            "lite.seek": lites.seek,
            "lite.commit": lites.commit,
            "lite.stop": _stops(lites.running),
        }

    async def answer(self, line: str) -> dict[str, Any]:
        arguments = json.loads(line)
        try:
            op = self._ops.get(arguments["op"])
            if op is None:
                raise LookupError(f"no such op: {arguments['op']}")
            return {"ok": await op(arguments)}
        except Exception as error:
            return {"error": _facts(error)}

    async def serve(self) -> None:
        """Until stdin ends."""
        while line := await asyncio.to_thread(sys.stdin.readline):
            sys.stdout.write(json.dumps(await self.answer(line)) + "\n")
            sys.stdout.flush()


def _stops(running: dict[str, Any]) -> Callable[[Arguments], Awaitable[bool]]:
    async def stop(a: Arguments) -> bool:
        client: Closes = running.pop(a["name"])
        await client.close()
        return True

    return stop


def _facts(error: Exception) -> dict[str, Any]:
    causes = [attempt.error for attempt in error.attempts] if isinstance(error, SendFailedError) else [error]
    codes = [int(cause.code) for cause in causes if isinstance(cause, BrokerError)]
    text = "".join(traceback.format_exception(error, limit=-6))
    return {"type": type(error).__name__, "message": str(error), "code": codes[-1] if codes else None, "trace": text}


if __name__ == "__main__":
    uvloop.run(Driver().serve())
