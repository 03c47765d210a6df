"""``pyromq cluster leases``, ``switch``, ``recover`` and ``forget``: who is master by the lease, and changes of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from pyromq.cli.output.tables import Column
from pyromq.errors import ConfigError, MQError
from pyromq.metrics.health import missing_since

if TYPE_CHECKING:
    from pathlib import Path

    from pyromq.aio import Admin
    from pyromq.failover.record import BrokerStatus, LeaseRecord
    from pyromq.failover.store import LeaseStore, StoredLease

_ATTEMPTS: Final = 20  # to write what a busy holder renews at the same moment
LEASE_COLUMNS = (
    Column("broker", "broker", whole=True),
    Column("lease", "lease", right=True),
    Column("member", "member", whole=True),
    Column("role", "role", whole=True),
    Column("in_sync", "in sync", show=lambda is_so: "yes" if is_so else "no"),
    Column("left_s", "left", right=True, show=lambda left: f"{left:.1f} s" if left else ""),
    Column("end", "position", right=True),
    Column("behind", "behind", right=True),
    Column("metadata", "metadata", right=True),
    Column("lost_messages", "cut", right=True, optional=True),
    Column("problem", "problem", optional=True),
)

PLAN_COLUMNS = (
    Column("broker", "broker", whole=True),
    Column("member", "member", whole=True),
    Column("is_chosen", "chosen", show=lambda is_so: "yes" if is_so else ""),
    Column("role", "role", whole=True),
    Column("lease", "lease", right=True),
    Column("log_lease", "log of lease", right=True),
    Column("end", "end", right=True),
    Column("agrees_to", "agrees to", right=True),
    Column("lost_bytes", "is cut", right=True, show=lambda lost: "unknown" if lost is None else f"{lost} bytes"),
)


def checked_store(url: str) -> str:
    if not url:
        raise ConfigError("where are leases kept? Give --store URL, or PYROMQ_LEASE_STORE")
    return url


async def lease_rows(admin: Admin, url: str, ca_file: Path | None, names: list[str]) -> list[dict[str, Any]]:
    """A row for each member of each broker name."""
    rows: list[dict[str, Any]] = []
    for name in names or sorted((await admin.brokers.cluster()).broker_addr_table):
        async with _lease(admin, url, ca_file, name) as (_, found, statuses):
            rows += _members(name, found.record if found else None, statuses)
    return rows


@asynccontextmanager
async def _lease(
    admin: Admin, url: str, ca_file: Path | None, name: str
) -> AsyncIterator[tuple[LeaseStore, StoredLease | None, dict[str, BrokerStatus | None]]]:
    """The lease store of a broker name, what it has, and what each member says. Raises LeaseError."""
    from pyromq.failover.recovering import survey

    known = (await admin.brokers.cluster()).broker_addr_table
    cluster = known[name].cluster if name in known else "DefaultCluster"
    registered = known[name].broker_addrs.values() if name in known else ()
    store = _opened(url, cluster, name, ca_file)
    try:
        found = await store.read()
        yield store, found, await survey(found.record if found else None, registered, partial(status_of, admin))
    finally:
        await store.close()


def _members(name: str, record: LeaseRecord | None, statuses: dict[str, BrokerStatus | None]) -> list[dict[str, Any]]:
    if record is None and not statuses:
        return [{"broker": name, "problem": "no lease: no agent has made one yet", "in_sync": False}]
    holder = record.holder if record else ""
    master = statuses.get(holder)
    end = master.end if master is not None else record.confirmed if record else None
    addresses = sorted(statuses, key=lambda each: (each != holder, each))
    return [_row(name, record, address, statuses[address], end) for address in addresses]


def _row(
    name: str, record: LeaseRecord | None, address: str, status: BrokerStatus | None, end: int | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "broker": name,
        "lease": record.number if record else None,
        "holder": record.holder if record else "",
        "member": address,
        "in_sync": record is not None and address in record.in_sync,
        "confirmed": record.confirmed if record else None,
        "wanted": record.wanted if record else "",
        "problem": "",
    }
    is_holder = record is not None and address == record.holder
    since_ms = record.away.get(address) if record is not None else None
    away = f"{'does not answer, ' if status is None else ''}{missing_since(address, since_ms)}" if since_ms else ""
    row["missing_since_ms"] = since_ms
    if status is None:
        return {**row, "role": "holder" if is_holder else "", "problem": away or "does not answer"}
    return {
        **row,
        "role": status.role.value,
        "left_s": round(status.granted_s, 3),
        "end": status.end,
        "behind": max(0, end - status.end) if end is not None else None,
        "metadata": status.metadata,
        "lost_messages": sum(each.messages for each in status.lost) or None,
        "problem": status.waiting or status.reason or away or _problem(record, address, status),
    }


def _problem(record: LeaseRecord | None, address: str, status: BrokerStatus) -> str:
    if record is None:
        return "no lease: no agent has made one yet"
    if address == record.holder and status.role.value == "master" and not status.granted_s:
        return "it may not acknowledge: its agent has not renewed the lease"
    return f"it is under lease {status.number}" if status.number != record.number else ""


async def status_of(admin: Admin, address: str) -> BrokerStatus | None:
    """None when it does not answer, or is not ours."""
    try:
        return await admin.replication.status(address)
    except MQError:
        return None


async def switch_master(admin: Admin, url: str, ca_file: Path | None, name: str, to: str) -> dict[str, Any]:
    """Progress goes to standard error, with times. Raises LeaseError."""
    from pyromq.clock import machine_s
    from pyromq.failover.switching import current, switch

    known = (await admin.brokers.cluster()).broker_addr_table
    if name not in known:
        await admin.replication.status(name)  # says that it is not there
    store = _opened(url, known[name].cluster, name, ca_file)
    began_s, steps = machine_s(), []
    try:
        before = (await current(store)).record
        async for step in switch(store, partial(status_of, admin), to):
            took_s = machine_s() - began_s
            steps.append({"after_s": round(took_s, 3), "step": step})
            sys.stderr.write(f"{took_s:6.2f} s  {step}\n")
        after = (await current(store)).record
    finally:
        await store.close()
    return {"broker": name, "was": before.holder, "master": after.holder, "lease": after.number, "steps": steps}


async def recover_master(
    admin: Admin, url: str, ca_file: Path | None, name: str, chosen: str, *, is_sure: bool
) -> list[dict[str, Any]]:
    """The plan, a row for each member; carried out when ``is_sure``. Raises LeaseError."""
    from pyromq.failover.recovering import plan_recovery, recover

    async with _lease(admin, url, ca_file, name) as (store, found, statuses):
        plan = plan_recovery(found.record if found else None, statuses, chosen)
        rows = [{"broker": name, **to_builtins(each)} for each in plan.members]
        lost = f"{plan.lost_bytes} bytes are cut from other members, and kept in cut/ of their folders"
        if plan.unknown:
            lost += f"; nobody knows what {', '.join(plan.unknown)} has alone"
        sys.stderr.write(f"{chosen} becomes master under lease {plan.record.number}: {lost}\n")
        if not is_sure:
            sys.stderr.write("nothing was changed: --yes does it\n")
            return rows
        await recover(store, plan, found, partial(status_of, admin))
        sys.stderr.write(f"{chosen} is master\n")
    return rows


async def forget_member(admin: Admin, url: str, ca_file: Path | None, name: str, member: str) -> dict[str, Any]:
    """Remove a member from the lease record. Raises LeaseError."""
    from pyromq.failover.record import LeaseConflictError, LeaseError
    from pyromq.failover.recovering import without_member
    from pyromq.failover.switching import current

    known = (await admin.brokers.cluster()).broker_addr_table
    store = _opened(url, known[name].cluster if name in known else "DefaultCluster", name, ca_file)
    try:
        for _ in range(_ATTEMPTS):
            found = await current(store)
            record = without_member(found.record, member)
            try:
                await store.write(record, found.version)
            except LeaseConflictError:
                continue
            return {"broker": name, "forgotten": member, "members": ", ".join(record.everybody)}
    finally:
        await store.close()
    raise LeaseError("the lease changes too fast to change anything: try again")


def _opened(url: str, cluster: str, name: str, ca_file: Path | None) -> LeaseStore:
    from pyromq.failover.opening import open_lease_store

    return open_lease_store(checked_store(url), cluster, name, ca_file=ca_file)
