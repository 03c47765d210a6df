"""The configuration of a broker: asked for, and changed while it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyromq.broker.base.config import adopt, changed, describe, parse_changes
from pyromq.broker.base.environment import Environment
from pyromq.broker.state.topics import Topics
from pyromq.model.topic import DataVersion
from pyromq.net.address import Address
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.wire.headers.admin import GetBrokerConfigResponseHeader
from pyromq.wire.json import java_json
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)


class ConfigHandler:
    """Requests 25 and 26. Owner of the version that tools compare."""

    def __init__(
        self,
        environment: Environment,
        store: MessageStore,
        topics: Topics,
        address: Address,
        on_update: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_update`` runs when the settings have new values."""
        self._settings = environment.settings
        self._store = store
        self._topics = topics
        self._clock = environment.clock
        self._address = address
        self.version = DataVersion(timestamp=environment.clock.now_ms())  # changes with every update
        self._on_update = on_update
        self._reported: tuple[GetBrokerConfigResponseHeader, bytes] | None = None  # until the next update

    def get(self, connection: Connection, request: Received[None]) -> tuple[GetBrokerConfigResponseHeader, bytes]:
        if self._reported is None:
            values = describe(self._settings, self._address.host, self._address.port)
            text = "".join(f"{key}={value}\n" for key, value in values.items())
            version = java_json.dumps(self.version).decode()
            self._reported = GetBrokerConfigResponseHeader(version=version), text.encode()
        return self._reported

    def update(self, connection: Connection, request: Received[None]) -> None:
        """All changes, or none of them when one is refused."""
        changes = parse_changes(request.body)
        new = changed(self._settings, changes)
        permission = self._settings.permission
        adopt(self._settings, new)
        self._store.settings = new.store  # parts that keep their own copy use only what cannot change
        self.version, self._reported = self.version.next(self._clock.now_ms()), None
        self._topics.create_system_topics()  # automatic creation needs its template
        if new.permission != permission:
            self._topics.announce()
        self._on_update()
        logger.info("settings changed: keys=%s peer=%s", ",".join(sorted(changes)), connection.remote_text)
