"""Users and rights in a simulation: operators give and take them, guests try, and judges know who may.

    operator ─▶ make, change the password, revoke, disable, delete ─▶ confirmed: every member in sync has it
    guests   ─▶ send again and again, over connections that last   ─▶ SEND_OK only to those who may

A guest's rights are known from the answer to the last change on; while a change is under way, and after one that failed
(it may still arrive), nobody knows them, and such a guest is left alone. An answer that took three seconds promises
nothing: then a broker answers without its replicas. A broker that is no master may refuse a guest whom its master
knows; who is refused is judged by what masters have.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.aio import Admin, Message, MQError, Producer
from pyromq.broker.base.access import GuardedAccess
from pyromq.errors import NoPermissionError, SendFailedError
from pyromq.results import SendStatus
from pyromq.security.policies import PolicyType
from pyromq.security.secret import Secret
from pyromq.security.user_store import FILE_NAME
from pyromq.settings import ClientSettings, Credentials, ProducerSettings
from pyromq.wire.json.access import PolicyEntryInfo
from tests.sim.clients import body_of
from tests.sim.cluster import FOLDER, Cluster, Member, World
from tests.sim.credentials import CLIENTS, GUESTS_TOPIC
from tests.sim.history import Sent
from tests.sim.loop import Process

if TYPE_CHECKING:
    from tests.sim.faults import Faults
    from tests.sim.judges import Verdict

IP: Final = "10.0.5.1"
_FILE: Final = FOLDER / "config" / FILE_NAME
_PROMISED_S: Final = 2.9  # an answer that took longer may have come without the replicas
_CHANGES: Final = (("make",), ("password", "delete"), ("password", "revoke", "disable", "delete"))
_GUESTS_MAX: Final = 4
_GAP_S: Final = 1.0  # between two tries of a guest in a burst
_QUIET_GAP_S: Final = 20.0
_SENDING: Final = ProducerSettings(timeout_ms=4_000, attempt_timeout_ms=2_000, compress_from_bytes=1 << 20)
_MAY_ALL: Final = tuple(
    PolicyEntryInfo(resource=each, actions=("Pub", "Sub", "Get"), decision="Allow") for each in ("Topic:*", "Group:*")
)
_MAY_SEND: Final = (PolicyEntryInfo(resource=f"Topic:{GUESTS_TOPIC}", actions=("Pub",), decision="Allow"),)


async def make_clients(nameserver: str, ip: str) -> None:
    """The user of all clients that are no guests, until every master has it."""
    settings = ClientSettings(nameservers=nameserver, instance_name="rights", client_ip=ip)
    is_made = False
    async with Admin(client_settings=settings) as admin:
        while True:
            try:
                if not is_made:
                    await admin.access.create_user(CLIENTS.access_key, CLIENTS.secret_key)
                    is_made = True
                await admin.access.set_policy(CLIENTS.access_key, _MAY_ALL)
                return
            except MQError as error:  # some set has no master yet, or had not registered when the user was made
                is_made = "is existed" in str(error) or (is_made and "is not exist" not in str(error))
                await asyncio.sleep(0.3)


@dataclass
class Guest:
    name: str
    password: str = ""  # the newest
    passwords: int = 0  # how many it has had
    is_there: bool = False
    may_send: bool = False
    is_known: bool = True  # what stands above is so: no change is under way, and none has failed
    changes: int = 0

    def new_password(self) -> str:
        self.passwords += 1
        self.password = f"{self.name}-{self.passwords}"
        return self.password


@dataclass
class Guests:
    """What operators were told, and what guests got."""

    world: World
    cluster: Cluster
    faults: Faults
    verdict: Verdict
    guests: list[Guest] = field(default_factory=list)
    _numbers: int = 0

    def __post_init__(self) -> None:
        self._process = self.world.process("guests", self.world.machine("guests", IP))
        self._rng = self.world.rng("guests")
        self.guests.append(Guest(CLIENTS.access_key, CLIENTS.secret_key, is_there=True, may_send=True, changes=1))

    # --- operators ---

    def begin(self, rng: Random, operator: Process) -> str:
        """Some change of some guest; what it is called."""
        known = [each for each in self.guests if each.is_known and each.name != CLIENTS.access_key]
        fresh = len(known) < _GUESTS_MAX and (not known or rng.random() < 0.4)
        guest = self._new() if fresh else rng.choice(known)
        change = rng.choice(_CHANGES[guest.is_there + guest.may_send])
        self.world.loop.spawn(operator, self._change(guest, change), f"{change} of {guest.name}")
        return f"{change} {guest.name}"

    def _new(self) -> Guest:
        self._numbers += 1
        guest = Guest(f"guest{self._numbers}")
        self.guests.append(guest)
        return guest

    async def _change(self, guest: Guest, change: str) -> None:
        loop, history = self.world.loop, self.world.history
        guest.is_known = False
        guest.changes += 1
        begun_s = answered_s = loop.true_s
        are_told = self.faults.operators.are_told()
        settings = ClientSettings(
            nameservers=self.cluster.nameserver,
            instance_name=f"{change}{guest.name}{guest.changes}",
            client_ip="10.0.4.1",
        )
        try:
            async with asyncio.timeout(20.0), Admin(client_settings=settings) as admin:
                async for _ in self._steps(admin, guest, change):
                    begun_s, answered_s = answered_s, loop.true_s
                    if answered_s - begun_s > _PROMISED_S:
                        raise TimeoutError
        except (MQError, TimeoutError) as error:
            history.note("rights not changed", guest.name, change, type(error).__name__)
            return
        history.note("rights changed", guest.name, change)
        if are_told and self.faults.operators.are_told() and not self.faults.was_set_back:
            guest.is_known = True
            self._witness(guest, change)

    async def _steps(self, admin: Admin, guest: Guest, change: str) -> Any:
        access = admin.access
        match change:
            case "make":
                await access.create_user(guest.name, guest.new_password())
                yield None
                await access.set_policy(guest.name, _MAY_SEND)
                guest.is_there = guest.may_send = True
                self._try(guest)
            case "password":
                await access.update_user(guest.name, password=guest.new_password())
                self._try(guest)
            case "revoke":
                await access.delete_policy(guest.name)
                guest.may_send = False
            case "disable":
                await access.update_user(guest.name, enabled=False)
                guest.may_send = False
            case "delete":
                await access.delete_user(guest.name)
                guest.is_there = guest.may_send = False
        yield None

    def forget(self) -> None:
        """What was confirmed may have been lost, with a lease store that was set back: these guests are left alone."""
        for guest in self.guests:
            guest.is_known = False

    # --- guests ---

    def _try(self, guest: Guest) -> None:
        """Sends with the password that it has now, for ever."""
        self.world.loop.spawn(self._process, self._send(guest, guest.password), guest.password)

    async def _send(self, guest: Guest, password: str) -> None:
        settings = ClientSettings(
            nameservers=self.cluster.nameserver,
            instance_name=password,
            client_ip=IP,
            credentials=Credentials(guest.name, password),
        )
        while True:
            try:
                async with Producer(client_settings=settings, group="guests", settings=_SENDING) as producer:
                    while True:
                        await asyncio.sleep(self._rng.expovariate(1 / self._gap_s()))
                        await self._once(producer, guest, password)
            except MQError:  # nobody could be reached at the start
                await asyncio.sleep(1.0)

    def _gap_s(self) -> float:
        return _GAP_S if self.world.in_burst else _QUIET_GAP_S

    async def _once(self, producer: Producer, guest: Guest, password: str) -> None:
        history, loop = self.world.history, self.world.loop
        self._numbers += 1
        sent = Sent(f"{password}-try{self._numbers}", GUESTS_TOPIC, "guest", loop.true_s)
        history.sent[sent.key] = sent
        before = self._known(guest, password)
        try:
            receipt = await producer.send(Message(GUESTS_TOPIC, body_of(sent.key), keys=[sent.key]))
        except MQError as error:
            sent.status = "unknown" if not isinstance(error, SendFailedError) or error.maybe_stored else "refused"
            is_refused = isinstance(error, NoPermissionError) or isinstance(error.__cause__, NoPermissionError)
            history.note("guest not sent", sent.key, type(error).__name__, is_refused)
            if is_refused and before and before == self._known(guest, password) and before[0]:
                self._judge_refusal(guest)
            return
        sent.status = "ok" if receipt.status is SendStatus.SEND_OK else "stored"
        sent.queue, sent.offset = (receipt.queue.topic, receipt.queue.broker, receipt.queue.number), receipt.offset
        sent.done_s = loop.true_s
        history.note("guest sent", sent.key, sent.status)
        if sent.status == "ok":
            self.world.witness.acknowledged(sent, receipt.offset_message_id, receipt.queue.broker)
        if before and before == self._known(guest, password) and not before[0] and not self.faults.was_set_back:
            self.verdict.fail(f"{guest.name} has sent {sent.key} at {loop.true_s:.3f} s, and had no right to")

    def _known(self, guest: Guest, password: str) -> tuple[bool, int] | None:
        """Whether it may send with that password, by which change; None while nobody knows."""
        return (guest.may_send and password == guest.password, guest.changes) if guest.is_known else None

    # --- judges ---

    def _judge_refusal(self, guest: Guest) -> None:
        """Refused, though it may: by a broker that is not the master any more, or by one that has lost a change."""
        if not self.faults.was_set_back:
            for wrong in self._wrong_at_masters([guest]):
                self.verdict.fail(f"a guest with rights was refused at {self.world.loop.true_s:.3f} s: {wrong}")

    def lost(self) -> list[str]:
        """What was confirmed, and is not so at masters."""
        return [] if self.faults.was_set_back else self._wrong_at_masters(self.guests)

    def _wrong_at_masters(self, guests: list[Guest]) -> list[str]:
        found = []
        for name in self.world.plan.sets:
            masters = self.cluster.masters(name)
            if len(masters) == 1:
                access = masters[0].broker.access if masters[0].broker is not None else None
                assert isinstance(access, GuardedAccess)
                rules = access.guard.book.rules
                for guest in guests:
                    user = rules.users.get(guest.name)
                    policies = rules.policies.get(guest.name, {}).get(PolicyType.CUSTOM, ())
                    has = user is not None and user.is_enabled and bool(policies)
                    is_right = user is not None and user.password == Secret(guest.password)
                    if guest.is_known and guest.changes and (has and is_right) is not guest.may_send:
                        found.append(f"{masters[0].name} lets {guest.name} {'send' if has else 'not send'}")
        return found

    def _witness(self, guest: Guest, change: str) -> None:
        """At the moment of the answer every member that the lease names has the change on its disk."""
        for name in self.world.plan.sets:
            for member in self._named(name):
                stored = _on_disk(member, guest.name)
                if stored != (guest.password if guest.may_send else None):
                    now_s = self.world.loop.true_s
                    self.verdict.fail(
                        f"{change} of {guest.name} was confirmed at {now_s:.3f} s, {member.name} lacks it"
                    )

    def _named(self, set_name: str) -> list[Member]:
        named: list[Member] = self.world.witness._named(set_name)
        return named


def _on_disk(member: Member, name: str) -> str | None:
    """The password with which the guest may send, by the file that a restart would find."""
    text = bytes(member.disk.durable_bytes(_FILE))
    book = msgspec.json.decode(text.rstrip(b"\0")) if text else {}
    users = {each["username"]: each for each in book.get("users", ())}
    has_rights = any(each.get("subject") == f"User:{name}" for each in book.get("acls", ()))
    user = users.get(name)
    if user is None or not has_rights or user["userStatus"] != "enable":
        return None
    return str(user["password"])
