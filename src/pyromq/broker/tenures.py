"""Tenures of one broker, one after the other: a change of role closes one and opens the next, or the former one again.

Nothing of a tenure is used in between: ``current`` is None then, and requests wait in the dispatcher.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from pyromq.broker.tenure import Ground, Tenure
from pyromq.net import Server
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery_report import RecoveryProgress

logger = logging.getLogger(__name__)


class Tenures:
    """Owner of the tenure that there is; made when the port is taken."""

    def __init__(self, ground: Ground, server: Server, recovery: RecoveryProgress) -> None:
        self._ground = ground
        self._settings = ground.environment.settings
        self._server = server
        self._recovery = recovery
        self.current: Tenure | None = None

    def open_first(self) -> Tenure:
        """Open the tenure of the configured role. Raises StoreError, ConfigError, OSError."""
        return self._open(self._ground.open_store(self._recovery))

    def _open(self, store: MessageStore) -> Tenure:
        self.current = Tenure(self._ground, store)
        return self.current

    async def change(self, role: Role, broker_id: int, while_closed: Callable[[], None] | None) -> None:
        """Close this tenure and open that of another role. Raises ConfigError, StoreError, OSError; then it is as it
        was, or there is no tenure any more.
        """
        replication = replace(self._settings.replication, role=role)
        replace(self._settings, replication=replication, broker_id=broker_id)  # checks it
        before = self._settings.replication, self._settings.broker_id
        await self._close_current()
        try:
            if while_closed is not None:
                await asyncio.to_thread(while_closed)
            await self._open_as(replication, broker_id)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            logger.error("role not changed: name=%s role=%s reason=%s", self._settings.name, role.value, reason)
            await self._go_back(*before)
            raise
        logger.warning("role changed: name=%s role=%s id=%d", self._settings.name, role.value, broker_id)

    async def _close_current(self) -> None:
        """Close everything but the port; the loop does not wait for disks."""
        tenure = self.current
        if tenure is None:
            return
        await tenure.finish()
        await self._server.part("the broker changes its role")
        self._ground.dispatcher.suspend()
        self.current = None
        await asyncio.to_thread(tenure.close)

    async def _open_as(self, replication: ReplicationSettings, broker_id: int) -> None:
        """Open a tenure in this role. Raises whatever a start does; then nothing is open, as before."""
        self._settings.replication, self._settings.broker_id = replication, broker_id
        try:
            tenure = self._open(await asyncio.to_thread(self._ground.open_store, self._recovery))
            if replication.role.is_master:
                tenure.set_back_offsets()
            await tenure.start(self._server.addresses[0].port)
        except BaseException:  # a broker without its ticks must not go on serving; raised again
            await self._close_current()
            raise
        self._ground.dispatcher.welcome()

    async def _go_back(self, replication: ReplicationSettings, broker_id: int) -> None:
        try:
            await self._open_as(replication, broker_id)
        except Exception:
            await self._server.stop()
            logger.exception("broker stopped, it could not go back to its former role: name=%s", self._settings.name)
