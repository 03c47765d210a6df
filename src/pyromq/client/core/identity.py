"""Identity of a client: its address, its id, and the ids that it gives to messages."""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_address

from pyromq.errors import ConfigError
from pyromq.wire.message_id import UniqueIdGenerator


def client_id(ip: str, instance_name: str, unit_name: str = "") -> str:
    """``ip@instance[@unit]``: what brokers and admin tools call a client."""
    return f"{ip}@{instance_name}@{unit_name}" if unit_name else f"{ip}@{instance_name}"


def instance_name(pid: int, nanoseconds: int) -> str:
    """A name that no other client of this machine has."""
    return f"{pid}#{nanoseconds}"


class MessageIds:
    """Unique ids for the messages of one client: when, which client, and a counter."""

    def __init__(self, ip: str, pid: int, loader_hash: int) -> None:
        try:
            packed = ip_address(ip).packed
        except ValueError as error:
            raise ConfigError(f"{ip!r} is no address of this machine") from error
        self._next = UniqueIdGenerator(packed, pid, loader_hash).next
        self._month_ms = 0
        self._month_end_ms = 0

    def next(self, now_ms: int) -> str:
        if not self._month_ms <= now_ms < self._month_end_ms:
            self._month_ms, self._month_end_ms = month_of(now_ms)
        return self._next(now_ms, self._month_ms)


def month_of(now_ms: int) -> tuple[int, int]:
    """The first instant of this local month and of the next, in milliseconds."""
    first = datetime.fromtimestamp(now_ms / 1000).astimezone().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    year, month = (first.year + 1, 1) if first.month == 12 else (first.year, first.month + 1)
    return tuple(int(_local(*date).timestamp()) * 1000 for date in ((first.year, first.month), (year, month)))  # type: ignore[return-value]


def _local(year: int, month: int) -> datetime:
    return datetime(year, month, 1).astimezone()
