"""Brokers under failover agents: what they report, what agents send them, and who follows whom.

    31020            ─▶ {"address":"10.0.0.1:10911","role":"master","number":3,"end":1048576,"replicas":[…], …}
    31021, 31022     {"action":"grant","number":3,"untilS":8123.25,"required":["10.0.0.2:10911"]}
    31023            {"address":"10.0.0.2:10911","link":"10.0.0.2:53311","metadata":17,"number":3} ─▶ as 31020; with
                     "holdMs" the response waits so long for newer tables
    31024            {"digests":{"43":"5f…","45":"","60":"1c…"}} ─▶
                     {"number":3,"metadata":17,"managed":true,"start":1048576,"end":1048576,"texts":{"45":"eyJ…"}, …}

A grant (31021) comes every few seconds; the other actions (31022) change who is master. A table in 31024 goes by the
code of the request that asks for it alone; its text travels, in base64, if its digest is another than the replica's.
All of these requests are ours: Apache RocketMQ has a Controller instead, which its brokers ask.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Final

import msgspec

from pyromq.wire.codes import RequestCode as Code

SMALL_TABLES: Final = (
    Code.GET_ALL_CONSUMER_OFFSET,
    Code.GET_ALL_DELAY_OFFSET,
    Code.GET_TIMER_CHECK_POINT,
    Code.GET_TIMER_METRICS,
    Code.GET_ALL_MESSAGE_REQUEST_MODE,
)
"""What a replica asks for in every round, by the requests for each of these tables alone."""

_DIGEST_BYTES: Final = 16


class MemberRole(StrEnum):
    MASTER = "master"
    REPLICA = "replica"


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A replica, as its master sees it."""

    address: str
    position: int  # on its disk
    metadata: int
    writable: bool = True  # its store takes messages


class Epoch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """From this position on the log was written under this lease."""

    number: int
    start: int
    mark: int = (
        0  # chosen by chance: two leases of one number, of a store that was set back, differ in it; 0: not known
    )

    def is_same(self, other: Epoch) -> bool:
        marks = self.mark == other.mark or not (self.mark and other.mark)
        return (self.number, self.start) == (other.number, other.start) and marks


def parting(mine: tuple[Epoch, ...], theirs: tuple[Epoch, ...]) -> int | None:
    """The first position at which two logs with these epochs may differ; None: one is as the other, as far as it goes.

    What lies before the oldest epoch that both remember is taken to be the same.
    """
    if not mine or not theirs:
        return min((each.start for each in (*mine, *theirs)), default=None)
    oldest = max(mine[0].number, theirs[0].number)
    alone = [
        each.start
        for some, others in ((mine, theirs), (theirs, mine))
        for each in some
        if each.number >= oldest and not any(each.is_same(other) for other in others)
    ]
    return min(alone, default=None)


class LostTail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a returning master had beyond what its successor has: cut, and kept aside."""

    number: int  # of the lease that made it a replica
    position: int  # the log was cut there
    bytes: int
    messages: int
    folder: str
    at_ms: int


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker, as it says itself."""

    address: str
    role: MemberRole
    number: int  # of the lease under which it was promoted, or which it follows; 0 before the first
    end: int  # of its log
    metadata: int
    acknowledged: int = 0  # end of the last message that a producer knows to be safe, or a consumer was shown
    required: tuple[str, ...] = ()  # replicas that it waits for before it acknowledges
    waits: bool = True  # False: it acknowledges without waiting for replicas
    master: str = ""  # whom it follows
    replicas: tuple[MemberStatus, ...] = ()
    held: bool = False  # it takes no sends, for a planned change
    changing: bool = False  # of its role: what it was asked to be, it is about to be
    log_damaged: bool = False  # a scrub found its log changed on disk: others should be master
    # beyond what an agent decides by
    name: str = ""
    cluster: str = ""
    managed: bool = False  # it acknowledges nothing without a grant
    granted_s: float = 0.0  # how long it may still acknowledge
    flushed: int = 0  # of its log, on its disk
    following: str = ""  # of a replica: what it is doing
    reason: str = ""  # why it is not following, or why the last change of its role failed
    replication_address: str = ""  # of a master: where replicas connect
    epochs: tuple[Epoch, ...] = ()  # of its log
    log_number: int = 0  # the last lease under which its log was written
    lost: tuple[LostTail, ...] = ()
    members: tuple[str, ...] = ()  # the others of its name, as far as it was ever told; on its disk
    renewals: int = 0  # of the record that its last grant came from; 0 after a restart
    waiting: str = ""  # what its agent waits for before anything is acknowledged; empty when it does not
    nameservers: tuple[str, ...] = ()
    failing: str = ""  # why its store takes no messages; empty when it does
    is_new: bool = False  # on this disk it has not heard yet, from somebody who is sure, which lease is the newest
    promised: bool = False  # something was acknowledged under the last lease that its log was written under

    @property
    def unfit(self) -> str:
        """Why another member should be master; empty when nothing is wrong with the disk of this one."""
        return self.failing or (self.reason if self.log_damaged else "")

    @property
    def durable_end(self) -> int:
        """End of what it may have acknowledged: its log without the tail that its disk may still refuse.

        With asynchronous flushes messages are acknowledged before they are on disk.
        """
        return min(self.end, max(self.flushed, self.acknowledged))

    def replica(self, address: str) -> MemberStatus | None:
        return next((each for each in self.replicas if each.address == address), None)


class MemberAction(StrEnum):
    GRANT = "grant"
    PROMOTE = "promote"
    FOLLOW = "follow"
    HOLD = "hold"
    RELEASE = "release"
    NOTE = "note"


class Control(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an agent tells the broker beside it."""

    action: MemberAction
    number: int = 0
    until_s: float = 0.0  # of a grant: by the clock of the machine that both run on
    required: tuple[str, ...] = ()
    master: str = ""
    members: tuple[str, ...] = ()  # of a note, and of an order to follow: all of this broker name
    renewals: int = 0  # of a grant: of the record that it comes from
    waiting: str = ""  # of a note: what the agent waits for
    newest: int = 0  # of a note: the newest lease, if the agent is sure of it
    away: dict[str, int] = {}  # of a grant: members that are not in sync, and since when, in Unix ms
    decided: int = 0  # of an order to follow: the newest lease whose holder an operator chose
    waits: bool | None = None  # of a promotion: whether to wait for replicas, as the master before did; None: not known


class MemberReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A replica tells its master who it is: over which connection it gets the log, and which tables it has."""

    address: str
    link: str  # HOST:PORT of its end of that connection
    metadata: int
    number: int
    broker_id: int = -1
    writable: bool = True
    hold_ms: int = 0  # the response may wait so long for a change of the master's tables


class TablesQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A replica asks for those tables whose texts are others than it has."""

    digests: dict[int, str] = {}  # of the texts that it has, by table; empty: none


class TablesAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A master says what it has, and hands out those tables whose digests are others than the replica's."""

    number: int  # as in its status, before the first table was looked at
    metadata: int  # likewise
    managed: bool
    start: int  # of its log, the end before the first table was looked at
    end: int  # and after the last
    texts: dict[int, bytes] = {}
    apart: tuple[int, ...] = ()  # other tables that have changed, or cannot be read: each has to be asked for alone


def digest_of(text: bytes) -> str:
    """Two texts with one digest are the same; an empty one has none."""
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest() if text else ""
