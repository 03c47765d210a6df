"""Queue assignment for clients that leave it to the broker, and the mode in which a group fetches a topic.

A topic may have queues on other brokers: where name servers are configured they are asked for the route.

    PULL   every queue belongs to one member
    POP    by default one entry for each broker, with queue -1: every member pops all queues. With popShareQueueNum n
           below the number of members a member pops its own queues and those of the next n members
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pyromq.broker.base.long_responses import Steps, elsewhere
from pyromq.broker.base.refusals import RefusedError, refusal_of, too_large
from pyromq.broker.base.responses import BODY_BYTES_MAX, send_refusal, send_response
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.state.tables import Tables
from pyromq.errors import MQError
from pyromq.model.names import RETRY_PREFIX, validate_group, validate_topic
from pyromq.model.queue import QueueId
from pyromq.model.sharing import Share, share_evenly, share_in_circle, share_of, sorted_members
from pyromq.net.connection import Connection
from pyromq.store.tables.request_modes import RequestModeTable
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import AssignmentRequest, RequestMode
from pyromq.wire.received import Received

FindQueues = Callable[[str], Awaitable[list[QueueId] | None]]
"""The readable queues of a topic on all brokers; None when name servers do not know it."""

PULL, POP = "PULL", "POP"
MODES_MAX: Final = 10_000
_ANY_QUEUE: Final = -1

STRATEGIES: Final[dict[str, Share]] = {"AVG": share_evenly, "AVG_BY_CIRCLE": share_in_circle}


class AssignmentHandler:
    """Requests 400, 401 and 402."""

    def __init__(
        self, tables: Tables, modes: RequestModeTable, settings: BrokerSettings, find_queues: FindQueues | None
    ) -> None:
        self._topics = tables.topics
        self._members = tables.members
        self._modes = modes
        self._settings = settings
        self._find_queues = find_queues  # None: there are no name servers, and so no other brokers
        self._tasks: set[asyncio.Task[None]] = set()  # requests that wait for a route

    # --- assignments ---

    def assign(self, connection: Connection, request: Received[None]) -> None:
        """Handle request 400 (QUERY_ASSIGNMENT)."""
        if len(request.body) > BODY_BYTES_MAX:
            raise too_large(request)
        asked = bodies.decode(request.body, AssignmentRequest)
        if self._find_queues is None:
            send_response(connection, request, self._assigned(asked, self._own_queues(asked.topic)))
            return
        task = asyncio.get_running_loop().create_task(self._assign(connection, request, asked, self._find_queues))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _assign(
        self, connection: Connection, request: Received[None], asked: AssignmentRequest, find_queues: FindQueues
    ) -> None:
        try:
            queues = await find_queues(asked.topic)
            send_response(connection, request, self._assigned(asked, queues or []))
        except MQError as error:
            send_refusal(connection, request, *refusal_of(error))

    def _own_queues(self, topic: str) -> list[QueueId]:
        config = self._topics.get(topic)
        return [
            QueueId(topic, self._settings.name, number) for number in range(config.read_queue_nums if config else 0)
        ]

    def _assigned(self, asked: AssignmentRequest, queues: list[QueueId]) -> bytes:
        mode = self._modes.get(asked.topic, asked.consumer_group)
        if asked.message_model == "BROADCASTING":
            share, name = sorted(queues), PULL
        elif mode is not None and mode.mode == POP and not asked.topic.startswith(RETRY_PREFIX):
            share, name = self._popped(asked, queues, mode.pop_share_queue_num), POP
        else:
            share, name = self._share(asked, queues), PULL
        assignments = tuple(bodies.QueueAssignment(message_queue=queue, mode=name) for queue in share)
        return bodies.encode(bodies.AssignmentResponse(message_queue_assignments=assignments))

    def _popped(self, asked: AssignmentRequest, queues: list[QueueId], shared: int) -> list[QueueId]:
        """What a member pops, beside others."""
        live = self._members.consumer_group(asked.consumer_group)
        ids = sorted_members(live.client_ids if live else [])
        if shared <= 0 or shared >= len(ids) - 1:
            return [QueueId(asked.topic, broker, _ANY_QUEUE) for broker in sorted({queue.broker for queue in queues})]
        if asked.client_id not in ids or not queues:
            return []
        at = ids.index(asked.client_id)
        if len(ids) > len(queues):  # nobody goes without
            return [sorted(queues)[at % len(queues)]]
        near = [ids[(at + step) % len(ids)] for step in range(shared + 1)]
        return sorted({queue for each in near for queue in self._share_of(asked, each, queues)})

    def _share(self, asked: AssignmentRequest, queues: list[QueueId]) -> list[QueueId]:
        return self._share_of(asked, asked.client_id, queues)

    def _share_of(self, asked: AssignmentRequest, client_id: str, queues: list[QueueId]) -> list[QueueId]:
        strategy = STRATEGIES.get(asked.strategy_name)
        if strategy is None:
            text = f"strategy {asked.strategy_name[:80]!r} is not one of {', '.join(STRATEGIES)}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        live = self._members.consumer_group(asked.consumer_group)
        return share_of(client_id, live.client_ids if live else [], queues, strategy)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    # --- modes ---

    def set_mode(self, connection: Connection, request: Received[None]) -> None:
        """Handle request 401 (SET_MESSAGE_REQUEST_MODE)."""
        mode = bodies.decode(request.body, RequestMode)
        if mode.topic.startswith(RETRY_PREFIX):
            text = f"the mode of the retry topic {mode.topic} follows that of its group"
            raise RefusedError(ResponseCode.NO_PERMISSION, text)
        if mode.mode not in (PULL, POP):
            text = f"mode {mode.mode[:80]!r} is unknown; the modes are {PULL} and {POP}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        validate_topic(mode.topic)
        validate_group(mode.consumer_group)
        refuse_change(topic=mode.topic, group=mode.consumer_group)
        if len(self._modes) >= MODES_MAX:
            text = f"this broker keeps the modes of {MODES_MAX} groups and topics, no more"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        if self._modes.get(mode.topic, mode.consumer_group) != mode:
            self._modes.put(mode)
            self._modes.save()

    def modes(self, connection: Connection, request: Received[None]) -> Steps:
        """Handle request 402 (GET_ALL_MESSAGE_REQUEST_MODE)."""
        text = self._modes.text_job()
        yield from elsewhere(len(self._modes))
        return text
