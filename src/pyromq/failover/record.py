"""The lease of a broker name: what lies in the lease store, and what a broker says of itself."""

from __future__ import annotations

import msgspec

from pyromq.errors import MQError, TransportError
from pyromq.wire.json.membership import BrokerStatus, MemberRole, MemberStatus


class LeaseError(MQError):
    """The lease store cannot be asked, or holds what is not a lease."""


class LeaseStoreAwayError(LeaseError, TransportError):
    """The lease store does not answer."""


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
    handed: bool = False  # by a planned change, and the new holder does not serve yet
    duration_ms: int
    renewals: int = 0  # makes every record differ from the one before
    members: tuple[str, ...] = ()  # all that were ever in sync, until an operator removes one
    away: dict[str, int] = {}  # members that are not in sync, and since when: Unix time in ms of the holder's machine
    waits: bool | None = None  # whether masters of this set wait for replicas: a sync set stays one; None: not known
    decided: int = 0  # the newest lease whose holder an operator chose, knowing what is lost
    forced: bool = False  # by an operator who knows what is lost: its holder need not ask the others

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @property
    def everybody(self) -> tuple[str, ...]:
        """The members that this record knows of, the holder among them."""
        return tuple(sorted({self.holder, *self.in_sync, *self.members}))

    def is_older_than(self, other: LeaseRecord) -> bool:
        """Whether it was written before the other one; a store that shows it after that was set back."""
        return (self.number, self.renewals) < (other.number, other.renewals)


def decode_record(data: bytes | str) -> LeaseRecord:
    """Decode a lease record from its JSON. Raises LeaseError for anything else."""
    try:
        return msgspec.json.decode(data, type=LeaseRecord)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise LeaseError(f"what lies under the key of the lease is not a lease: {error}") from error


__all__ = [
    "BrokerStatus",
    "LeaseConflictError",
    "LeaseError",
    "LeaseRecord",
    "LeaseStoreAwayError",
    "MemberRole",
    "MemberStatus",
    "decode_record",
]
