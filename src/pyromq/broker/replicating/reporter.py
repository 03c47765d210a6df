"""Under a failover agent: a replica finds its master by the lease, agrees with it on a common log, and reports itself.

lease names a master ─▶ is it master, under the same lease? ─▶ where did our logs part? ─▶ follow, report
     ▲                        └ not yet: wait                    └ we have more: cut first
     └──────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from pyromq.broker.base.lease import Lease
from pyromq.broker.replicating.master_calls import MasterCalls
from pyromq.broker.replicating.members import REPORT_INTERVAL_S
from pyromq.broker.replicating.metadata import MetadataSync
from pyromq.errors import MQError, RemoteProtocolError
from pyromq.net.address import Address
from pyromq.replication.errors import DivergedError, TooFarBehindError
from pyromq.replication.follower import Follower, Master
from pyromq.store.message_store import MessageStore
from pyromq.wire.json.membership import BrokerStatus, MemberReport, MemberRole

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ASK_S: Final = 3.0
_HOLD_MS: Final = 2_000  # a master keeps the response for so long, unless its tables change


class LeaseFollowing:
    """Owned by a replica: ``find_master`` is its follower's, ``run`` a task of its own."""

    def __init__(self, lease: Lease, store: MessageStore, calls: MasterCalls, address: str) -> None:
        self._lease = lease
        self._store = store
        self._calls = calls
        self._address = address
        self.on_cut: Callable[[int], None] = lambda position: None  # the log has to end there first

    async def find_master(self) -> Master | None:
        """Find the master under the lease that this broker follows. Raises MQError while there is none."""
        state = self._lease.state
        if not state.master:
            return None
        await self._calls.at(state.master)
        async with asyncio.timeout(_ASK_S):
            status = await self._calls.member()
        if self._lease.state is not state:
            raise RemoteProtocolError("the lease has changed meanwhile")
        if status.role is not MemberRole.MASTER or status.number != state.number:
            raise RemoteProtocolError(f"{state.master} is not master under lease {state.number} yet")
        if not self._agrees(status):
            return None
        return Master(Address.parse(status.replication_address), self._calls.log, self._calls.prove)

    def _agrees(self, status: BrokerStatus) -> bool:
        """Whether the log here is a prefix of the master's. Raises DivergedError, TooFarBehindError, OSError."""
        state, store = self._lease.state, self._store
        if self._lease.is_copy or state.log_number != state.number or state.epochs != status.epochs:
            position = state.cut_position(status.epochs)
            if position is not None and position < store.end_position:
                self._check_cut(status, position)
                if position < store.first_position:
                    raise TooFarBehindError(
                        f"this log has to be cut at {position}, and begins at {store.first_position}: start this "
                        "replica with an empty folder"
                    )
                self.on_cut(position)
                return False
            self._lease.agreed(status.epochs)
        return True

    def _check_cut(self, status: BrokerStatus, position: int) -> None:
        """Raise DivergedError if the log must not be cut there without an operator's word."""
        state, end = self._lease.state, self._store.end_position
        if state.log_number == state.number:
            what = f"that is not the lease {state.number} that the log here was written under"
        elif (promised := state.broken_promise(status.epochs)) is not None:
            what = f"its log lacks lease {promised.number}, under which messages here were acknowledged"
        else:
            return
        raise DivergedError(
            f"{state.master} is master under lease {state.number}, and {what}: the lease store was set back, or that "
            f"broker has lost its disk. Nothing was changed; what is here alone, {end - position} bytes, would be cut: "
            "decide with pyromq cluster recover"
        )

    def _note_promise(self, status: BrokerStatus) -> None:
        """The master has acknowledged something: it is not cut here without a word either. Raises OSError."""
        state = self._lease.state
        if status.promised and not state.is_promised and status.epochs == state.epochs:
            self._lease.promise()

    async def run(self, follower: Follower, metadata: MetadataSync) -> None:
        """Until cancelled: tell the master who follows it, and hear whether its tables have changed."""
        while True:
            await follower.attached.wait()
            began_s = asyncio.get_running_loop().time()
            try:
                state = self._lease.state
                mine = metadata.number_under(state.number)
                report = MemberReport(
                    address=self._address,
                    link=follower.link,
                    metadata=mine,
                    number=state.number,
                    broker_id=follower.broker_id,
                    writable=self._store.health.writable,
                    hold_ms=_HOLD_MS if metadata.rounds else 0,
                )
                status = await _unless_parted(follower, self._calls.report(report))
                if status is None:
                    continue
                self._note_promise(status)
                if metadata.rounds and status.metadata > mine:
                    await metadata.refresh()
                    if metadata.number_under(state.number) > mine:
                        continue  # who changed something at the master waits for this report
            except (MQError, OSError, ValueError, TimeoutError) as error:
                logger.debug("not reported to the master: reason=%s", error)
            except Exception:  # a defect must not end it for good
                logger.exception("not reported to the master")
            pause_s = began_s + REPORT_INTERVAL_S - asyncio.get_running_loop().time()
            if pause_s > 0:
                await _unless_parted(follower, asyncio.sleep(pause_s))


async def _unless_parted(follower: Follower, work: Coroutine[Any, Any, T]) -> T | None:
    """None when the master is left first: a new one hears of its replica as soon as it is there."""
    doing, parted = asyncio.ensure_future(work), asyncio.ensure_future(follower.parted.wait())
    try:
        await asyncio.wait((doing, parted), return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        parted.cancel()
