"""The lease of a broker name: what lies in the lease store, and what a broker says of itself."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from pyromq.errors import MQError


class LeaseError(MQError):
    """The lease store cannot be asked, or holds what is not a lease."""


class LeaseConflictError(LeaseError):
    """Somebody else changed the lease since it was read; nothing was written."""


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who is master, since which change of master, and who could be next without losing anything."""

    holder: str  # address of the broker
    number: int  # counts changes of the holder; a broker follows nobody with a smaller one
    in_sync: tuple[str, ...] = ()  # members that have everything acknowledged; the holder is one of them
    confirmed: int = 0  # position in the log that all of them had reached
    metadata: int = 0  # version of topics, groups and offsets that all of them had
    wanted: str = ""  # who shall be master next, in a planned change
    duration_ms: int
    renewals: int = 0  # makes every record differ from the one before

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def decode_record(data: bytes | str) -> LeaseRecord:
    """Raises LeaseError."""
    try:
        return msgspec.json.decode(data, type=LeaseRecord)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise LeaseError(f"what lies under the key of the lease is not a lease: {error}") from error


class Role(StrEnum):
    MASTER = "master"
    REPLICA = "replica"


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A replica, as its master sees it."""

    address: str
    position: int  # on its disk
    metadata: int


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker, as it says itself."""

    address: str
    role: Role
    number: int  # of the lease under which it was promoted, or which it follows; 0 before the first
    end: int  # of its log
    metadata: int
    acknowledged: int = 0  # end of the last message that a producer was told is safe
    required: tuple[str, ...] = ()  # replicas that it waits for before it acknowledges
    waits: bool = True  # False: it acknowledges without waiting for replicas
    master: str = ""  # whom it follows
    replicas: tuple[MemberStatus, ...] = ()
    held: bool = False  # it takes no sends, for a planned change

    def replica(self, address: str) -> MemberStatus | None:
        return next((each for each in self.replicas if each.address == address), None)
