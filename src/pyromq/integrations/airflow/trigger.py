"""The trigger: an event for each message, committed when Airflow has it.

Where Airflow has acknowledging streams (``airflow.triggers.shared_stream``), a message is committed after its events
are in Airflow's database, and DAGs with the same subscription share one consumer. Older versions take an event into
memory and ask for the next one; there the message is committed then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from pyromq.integrations.airflow.stream import Handed, MessageStream
from pyromq.integrations.airflow.subscription import AirflowSubscription, ClusterConnection, place_of_connection

try:
    from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

    HAS_ACKNOWLEDGING_STREAMS = True
except ImportError:  # an older Airflow
    HAS_ACKNOWLEDGING_STREAMS = False
    SharedStreamProducer = object


class PyroMQTrigger(BaseEventTrigger):  # type: ignore[misc]
    """Fires with a dict for each message: topic, tags, keys, message_id, body, properties, queue, offset.

    ``topics`` is a topic, several topics, or topics with their tags; ``sql`` filters one topic by its properties.
    ``group`` remembers how far Airflow is. ``nameservers`` is an address, ``conn_id`` an Airflow connection that has it
    (host, port), with login and password for credentials and ``tls`` and ``namespace`` in its extra; without both the
    environment decides. ``start`` is where a group begins that has no offset yet. Raises ConfigError.
    """

    def __init__(
        self,
        *,
        topics: str | Sequence[str] | Mapping[str, str],
        group: str,
        nameservers: str = "",
        conn_id: str = "",
        sql: str = "",
        start: str = "",
    ) -> None:
        super().__init__()
        self.subscription = AirflowSubscription(
            topics=topics, group=group, nameservers=nameservers, conn_id=conn_id, sql=sql, start=start
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow needs to make it again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.subscription.values()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Alone: asking for the next event says that the last one was taken."""
        stream = _stream(self.subscription)
        try:
            async for event, handed in stream.events():
                yield TriggerEvent(event)
                await stream.done([(handed, True)])
        finally:
            await stream.close()

    # --- shared, with acknowledgements ---

    def shared_stream_key(self) -> Hashable | None:
        """Triggers with the same subscription share one consumer."""
        return (type(self).__qualname__, self.subscription.key()) if HAS_ACKNOWLEDGING_STREAMS else None

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Any:
        """The consumer of them all."""
        return _Acknowledging(AirflowSubscription(**kwargs))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Every message is an event; a subclass may leave some out."""
        async for event in shared_stream:
            yield TriggerEvent(event)


class _Acknowledging(SharedStreamProducer):  # type: ignore[misc]
    """Airflow's side of a MessageStream."""

    def __init__(self, subscription: AirflowSubscription) -> None:
        self._stream = _stream(subscription)

    def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        return self._stream.events()

    def get_advance_lane(self, broker_payload: Handed) -> Hashable:
        return broker_payload.queue

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """A message that a trigger refused is done with; one that it failed with is not."""
        await self._stream.done([(item.broker_payload, _is_taken(item.outcome)) for item in batch])

    async def aclose(self) -> None:
        await self._stream.close()


def _is_taken(outcome: Any) -> bool:
    """Somebody was there, and nobody failed."""
    return bool(outcome.failed == 0 and outcome.acked + outcome.rejected)


def _stream(subscription: AirflowSubscription) -> MessageStream:
    async def find_place() -> ClusterConnection:
        if not subscription.conn_id:
            return ClusterConnection(nameservers=subscription.nameservers)
        return await _connection(subscription.conn_id)

    return MessageStream(subscription, find_place)


async def _connection(conn_id: str) -> ClusterConnection:
    try:
        from airflow.sdk.bases.hook import BaseHook
    except ImportError:
        from airflow.hooks.base import BaseHook

    found = (
        await BaseHook.aget_connection(conn_id)
        if hasattr(BaseHook, "aget_connection")
        else await asyncio.to_thread(BaseHook.get_connection, conn_id)
    )
    return place_of_connection(found.host, found.port, found.login, found.password, found.extra_dejson)
