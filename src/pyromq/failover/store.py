"""What an agent needs of a lease store: one record under one key, read and compare-and-set."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pyromq.failover.record import LeaseRecord


class StoredLease(NamedTuple):
    record: LeaseRecord
    version: str  # of the store; what ``write`` expects


class LeaseStore(Protocol):
    """Every method raises LeaseError when the store cannot be asked, and returns or raises in bounded time."""

    async def read(self) -> StoredLease | None:
        """The newest record, never one from a cache or a store member that lags behind."""

    async def write(self, record: LeaseRecord, expected: str | None) -> str:
        """Put the record if the version is still the expected one (None: there is none); the new version.

        Raises LeaseConflictError when it is not, and LeaseError when nobody knows whether it was written.
        """

    async def close(self) -> None: ...
