"""Queue assignment for clients that leave it to the broker, and the mode in which a group fetches a topic.

A topic may have queues on other brokers: where name servers are configured they are asked for the route. Popping is
not served yet, so every assignment says PULL, whatever a store of Apache RocketMQ has on file.
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
from pyromq.model.sharing import Share, share_evenly, share_in_circle, share_of
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
        """400."""
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
        share = sorted(queues) if asked.message_model == "BROADCASTING" else self._share(asked, queues)
        assignments = tuple(bodies.QueueAssignment(message_queue=queue, mode=PULL) for queue in share)
        return bodies.encode(bodies.AssignmentResponse(message_queue_assignments=assignments))

    def _share(self, asked: AssignmentRequest, queues: list[QueueId]) -> list[QueueId]:
        strategy = STRATEGIES.get(asked.strategy_name)
        if strategy is None:
            text = f"strategy {asked.strategy_name[:80]!r} is not one of {', '.join(STRATEGIES)}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        live = self._members.consumer_group(asked.consumer_group)
        return share_of(asked.client_id, live.client_ids if live else [], queues, strategy)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    # --- modes ---

    def set_mode(self, connection: Connection, request: Received[None]) -> None:
        """401."""
        mode = bodies.decode(request.body, RequestMode)
        if mode.topic.startswith(RETRY_PREFIX):
            text = f"the mode of the retry topic {mode.topic} follows that of its group"
            raise RefusedError(ResponseCode.NO_PERMISSION, text)
        if mode.mode != PULL:
            problem = "is not supported yet" if mode.mode == POP else "is unknown"
            text = f"mode {mode.mode[:80]!r} {problem}; {PULL} is supported"
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
        """402."""
        text = self._modes.text_job()
        yield from elsewhere(len(self._modes))
        return text
