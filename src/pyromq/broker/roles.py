"""Changes of role that a failover agent orders: a broker is promoted, follows another one, or holds sends for a while.

    promote   last look at the master's tables ─▶ store reopened as master ─▶ lease noted, with the log's end
              a master, under a newer lease ─▶ replicas have to agree with it again ─▶ lease noted, with the log's end
    follow    grant ends, waiting sends are refused ─▶ store reopened as replica ─▶ finds the master by the lease
    cut       what lies behind the master's log is kept aside ─▶ store reopened as replica

One change at a time; what comes meanwhile is refused, for the agent looks again and orders what is still to be done. A
broker that stops changes no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.authority import not_master
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.replicating.members import ReplicaMembers
from pyromq.broker.wiring import Parts
from pyromq.errors import MQError
from pyromq.replication.settings import Role
from pyromq.store.cutting import CutReport, cut_log, read_cut_reports
from pyromq.store.message_store import MessageStore
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json.membership import BrokerStatus, Control, LostTail, MemberAction

logger = logging.getLogger(__name__)

_LAST_LOOK_S: Final = 0.5  # at the tables of a master that is still there
_UNHEARD_LOOK_S: Final = 0.15  # of one that was not heard for a while: it is idle, or it hangs and clients wait
_UNHEARD_MS: Final = 1_000
_REPORTED_S: Final = 3.0  # a change of topics or groups waits so long until replicas have it
_LOOK_AGAIN_S: Final = 0.02
_LOST_REPORTED_MAX: Final = 20
_HUNG_DISK_MS: Final = 3_000  # a flush that takes so long may never end


class RoleOwner(Protocol):
    """What a change of role needs of the broker."""

    @property
    def parts(self) -> Parts: ...

    @property
    def store(self) -> MessageStore: ...

    async def change_role(
        self, role: Role, broker_id: int, *, while_closed: Callable[[], None] | None = None
    ) -> None: ...


class RoleChanges:
    """Owned by the broker, for its whole life; without a lease it does nothing."""

    def __init__(self, broker: RoleOwner, environment: Environment) -> None:
        self._broker = broker
        self._environment = environment
        self._lease = environment.lease
        self._given = environment.settings.replication  # as the broker was started
        self._given_id = environment.settings.broker_id
        self._change: asyncio.Task[None] | None = None
        self._is_closed = False  # the broker stops
        self._problem = ""  # why the last change failed
        self._lost: list[CutReport] = []

    # --- the life of the broker ---

    def load(self, store: MessageStore, address: str) -> None:
        """Before the parts are built: the role that the last lease gave. Raises CorruptFileError, OSError.

        ``address`` is this broker's.
        """
        if self._lease is None:
            return
        disk, settings = self._environment.disk, self._environment.settings
        if not self._lease.is_loaded:
            is_lasting = settings.port != 0  # else the system chooses another one with every start
            self._lease.load(disk, store.layout.config, address if is_lasting else "")
            role = self._lease.state.role
            if role:
                settings.replication = replace(settings.replication, role=self._role_of(role))
                settings.broker_id = self._id_of(settings.replication.role)
            self._lease.acknowledged = store.end_position  # any of it may have been
        self._lost = read_cut_reports(disk, store.layout.root)
        self._lease.cut_messages = sum(each.messages for each in self._lost)

    def adopt(self, parts: Parts) -> None:
        """The parts of a role are built."""
        handler, lease = parts.handlers.members, self._lease
        handler.complete, handler.on_control = self._complete, self.order
        if lease is None:
            return
        if parts.replication.lease_following is not None:
            parts.replication.lease_following.on_cut = self._cut
        handler.on_grant = partial(self._granted, parts)
        access = parts.replication.environment.access
        if isinstance(access, GuardedAccess):
            access.has_users = partial(self._has_users, parts)
        parts.services.delay_runner.may_write = lambda: self.may_write

    def _has_users(self, parts: Parts) -> bool:
        """Not on a disk that was empty, before the first round under a master."""
        metadata, lease = parts.replication.metadata, self._lease
        return lease is None or not (lease.state.is_new or (metadata is not None and not metadata.rounds))

    def _granted(self, parts: Parts) -> None:
        if not parts.services.registrar.registered_with:
            parts.services.registrar.register_soon()
        parts.write_path.gate.update_pressure()
        parts.write_path.replicas.release_confirmed()  # it may wait for fewer replicas now

    @property
    def may_write(self) -> bool:
        """Whether a master delivers what is due, and asks about transactions."""
        if self._lease is None:
            return True
        return self._lease.is_open and not self._broker.parts.write_path.gate.is_held

    def tick(self) -> None:
        if self._lease is not None and not self._lease.is_open:
            self._broker.parts.write_path.replicas.release_confirmed()  # which refuses what waits there

    async def close(self) -> None:
        """A change under way ends first, and none is begun any more."""
        self._is_closed = True
        if self._change is not None and self._change is not asyncio.current_task():
            await asyncio.gather(self._change, return_exceptions=True)

    def _tell_replicas(self) -> tuple[ReplicaMembers | None, int]:
        """Whom a change of tables is waited for at, after they have heard of it, and its number."""
        parts = self._broker.parts
        if self._lease is None or parts.replication.members is None:
            return None, 0
        parts.handlers.members.tables_changed()
        return parts.replication.members, parts.replication.metadata_number

    def told(self, registered: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """What a response to a change of topics waits for: name servers, and the replicas that the lease names."""
        members, number = self._tell_replicas()
        if members is None:
            return registered

        async def both() -> None:
            await registered
            await _until_replicated(members, number)

        return both()

    def replicated(self) -> Coroutine[Any, Any, None] | None:
        """Wait until the replicas that the lease names have the topics and groups of now; None without a lease."""
        members, number = self._tell_replicas()
        return _until_replicated(members, number) if members is not None else None

    def _complete(self, status: BrokerStatus) -> BrokerStatus:
        lost = [
            LostTail(
                number=each.number,
                position=each.position,
                bytes=each.bytes,
                messages=each.messages,
                folder=each.folder,
                at_ms=each.at_ms,
            )
            for each in self._lost[-_LOST_REPORTED_MAX:]
        ]
        gate = self._broker.parts.write_path.gate
        reason = self._problem or status.reason
        return msgspec.structs.replace(
            status,
            lost=tuple(lost),
            held=gate.is_held,
            reason=reason,
            changing=self._is_changing,
            failing=status.failing or self._hung_disk(status),
        )

    def _hung_disk(self, status: BrokerStatus) -> str:
        """What is wrong with a disk that says nothing; empty where sends do not wait for it."""
        stuck_ms = self._broker.parts.write_path.pressure.stuck_ms()
        return (
            f"the disk hangs: one flush has taken {stuck_ms} ms so far"
            if status.waits and stuck_ms > _HUNG_DISK_MS
            else ""
        )

    # --- orders ---

    def order(self, control: Control) -> None:
        """Begin what the agent wants. Raises RefusedError while something else is under way."""
        gate = self._broker.parts.write_path.gate
        match control.action:
            case MemberAction.HOLD:
                gate.hold()
            case MemberAction.RELEASE:
                gate.release()
            case MemberAction.PROMOTE:
                self._begin(self._promote(control.number, control.waits))
            case MemberAction.FOLLOW:
                self._begin(self._follow(control.master, control.number, control.decided))

    @property
    def _is_changing(self) -> bool:
        return self._change is not None and not self._change.done()

    def _begin(self, change: Coroutine[Any, Any, None]) -> None:
        if self._is_closed or self._is_changing:
            change.close()
            why = "the broker stops" if self._is_closed else "the broker changes its role at this moment"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, why)
        self._change = asyncio.get_running_loop().create_task(self._guarded(change), name="broker-role")

    async def _guarded(self, change: Coroutine[Any, Any, None]) -> None:
        await asyncio.sleep(0)  # the response to the order leaves first
        try:
            await change
            self._problem = ""
        except (MQError, OSError) as error:
            self._problem = str(error) or type(error).__name__
            logger.error("role not changed: reason=%s", self._problem)
        except Exception as error:  # a defect; the agent sees it in the status
            self._problem = f"{type(error).__name__}: {error}"
            logger.exception("role not changed")

    async def _promote(self, number: int, waits: bool | None) -> None:
        broker, lease = self._broker, self._lease
        assert lease is not None
        replication = broker.parts.replication
        if replication.follower is not None:
            if replication.metadata is not None and replication.follower.attached.is_set():
                with suppress(MQError, OSError, ValueError, TimeoutError):  # it has what it had before
                    unheard_ms = self._environment.clock.monotonic_ms() - replication.follower.last_heard_ms
                    async with asyncio.timeout(_UNHEARD_LOOK_S if unheard_ms > _UNHEARD_MS else _LAST_LOOK_S):
                        await replication.metadata.refresh()
            await broker.change_role(self._promoted(waits), 0)
        if lease.state.role != "master" or number > lease.state.number:
            if (leader := broker.parts.replication.leader) is not None:
                leader.part("the master has a newer lease")  # who follows the former one would cut what it gets now
            lease.promoted(number, broker.store.end_position, waits)
        broker.parts.write_path.gate.release()

    async def _follow(self, master: str, number: int, decided: int) -> None:
        broker, lease = self._broker, self._lease
        assert lease is not None
        follower = broker.parts.replication.follower
        try:
            lease.follows(master, number, decided)
        except OSError:  # the disk is full, or fails: the lease is another's all the same
            if follower is None:
                self._turn_sends_away()
            raise
        if follower is not None:
            follower.leave()  # the old one may still be there; it finds the master that the lease names
            return
        self._turn_sends_away()
        await broker.change_role(Role.REPLICA, self._id_of(Role.REPLICA))

    def _turn_sends_away(self) -> None:
        """The sends that wait here are refused, and those that come: clients go to the new master."""
        write_path = self._broker.parts.write_path
        write_path.replicas.release_confirmed()
        write_path.gate.send_away(not_master())
        write_path.gate.release()

    def _cut(self, position: int) -> None:
        with suppress(RefusedError):  # another change is under way; the follower looks again after it
            self._begin(self._cut_and_follow(position))

    async def _cut_and_follow(self, position: int) -> None:
        broker, lease = self._broker, self._lease
        assert lease is not None
        state, layout, of = lease.state, broker.store.layout, self._environment
        reason = f"{state.master} is master under lease {state.number}, and its log parts from this one there"

        def cut() -> None:
            cut_log(of.disk, layout.root, of.settings.store, of.clock, position, number=state.number, reason=reason)

        await broker.change_role(Role.REPLICA, self._id_of(Role.REPLICA), while_closed=cut)

    # --- roles ---

    def _role_of(self, name: str) -> Role:
        if name == "replica":
            return Role.REPLICA
        if self._given.role.has_port:
            return self._given.role
        return self._promoted(self._lease.state.waits if self._lease is not None else None)

    def _promoted(self, waits: bool | None) -> Role:
        """What the masters before were, as the lease says; it does not when it was made by an older version."""
        if waits is None:
            return self._given.role if self._given.role.has_port else self._given.promoted_role
        return Role.SYNC_MASTER if waits else Role.ASYNC_MASTER

    def _id_of(self, role: Role) -> int:
        if role is not Role.REPLICA:
            return 0
        return self._given_id or self._given.replica_id


async def _until_replicated(members: ReplicaMembers, number: int) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_REPORTED_S):
            while not members.have_metadata(number):  # noqa: ASYNC110, reports come several times a second
                await asyncio.sleep(_LOOK_AGAIN_S)
