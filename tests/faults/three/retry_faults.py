"""Retries while a sync master has no replica: each attempt is one delivery, whatever a send-back is answered."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from pyromq.aio import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.settings import ClientSettings, PushConsumerSettings
from tests.faults.agent_faults import cluster_of
from tests.faults.rounds import Round
from tests.integration.waiting import until

_MESSAGES: Final = 20
_ATTEMPTS: Final = 9  # the first delivery, and retries until a message is dead
_MORE: Final = 2  # of every delivery at most: a member that joins may make a second one
_PATIENCE_S: Final = 120


async def retries_without_replicas(this: Round) -> None:
    """Both replicas are killed; a listener fails with every message until it is dead."""
    cluster = cluster_of(this)
    for each in cluster.followers:
        await each.kill()
    await this.goes_on(promised=False)
    deliveries = await _failed_deliveries(this, f"failing-{this.rng.getrandbits(32)}")
    worst, times = deliveries.most_common(1)[0]
    if times > _MORE:
        this.problems.append(f"attempt {worst[1]} of one message was delivered {times} times")
    if deliveries.total() > _MESSAGES * _ATTEMPTS * _MORE:
        this.problems.append(f"{deliveries.total()} deliveries of {_MESSAGES} messages in {_ATTEMPTS} attempts each")
    await cluster.come_back()
    await this.goes_on()


async def _failed_deliveries(this: Round, name: str) -> Counter[tuple[str, int]]:
    """How often each attempt of each message was delivered, once all are dead."""
    found: Counter[tuple[str, int]] = Counter()

    async def fail(message: ReceivedMessage) -> None:
        found[message.message_id, message.delivery_attempt] += 1
        raise ValueError("this one fails")

    nameserver = this.cluster.nameserver
    async with Admin(nameserver) as admin, Producer(nameserver, group="makers") as producer:
        await admin.topics.create(name, queues=1)
        for number in range(_MESSAGES):
            await producer.send(Message(name, b"%d" % number))
    consumer = PushConsumer(
        listener=fail,
        settings=replace(PushConsumerSettings(start="earliest"), attempts_max=_ATTEMPTS - 1),
        client_settings=ClientSettings(nameservers=nameserver),
        group=name,
    )
    consumer.subscribe(name)
    async with consumer:
        await until(
            lambda: len({each for each, attempt in found if attempt == _ATTEMPTS - 1}) == _MESSAGES,
            "the last attempt of each",
            _PATIENCE_S,
        )
    return found
