"""``pyromq cluster leases`` and ``pyromq cluster switch``: who is master by the lease, and a planned change of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyromq.cli.output.tables import Column
from pyromq.errors import ConfigError, MQError

if TYPE_CHECKING:
    from pathlib import Path

    from pyromq.aio import Admin
    from pyromq.failover.record import BrokerStatus, LeaseRecord
    from pyromq.failover.store import LeaseStore

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


def checked_store(url: str) -> str:
    if not url:
        raise ConfigError("where are leases kept? Give --store URL, or PYROMQ_LEASE_STORE")
    return url


async def lease_rows(admin: Admin, url: str, ca_file: Path | None, names: list[str]) -> list[dict[str, Any]]:
    """A row for each member of each broker name."""
    known = (await admin.cluster()).broker_addr_table
    rows: list[dict[str, Any]] = []
    for name in names or sorted(known):
        cluster = known[name].cluster if name in known else "DefaultCluster"
        registered = known[name].broker_addrs.values() if name in known else ()
        store = _opened(url, cluster, name, ca_file)
        try:
            found = await store.read()
        finally:
            await store.close()
        record = found.record if found else None
        rows += await _members(admin, name, record, list(registered))
    return rows


async def _members(admin: Admin, name: str, record: LeaseRecord | None, registered: list[str]) -> list[dict[str, Any]]:
    if record is None:
        return [{"broker": name, "problem": "no lease: no agent has made one yet", "in_sync": False}]
    addresses = sorted({*record.in_sync, record.holder, *registered}, key=lambda each: (each != record.holder, each))
    statuses = {address: await status_of(admin, address) for address in addresses}
    master = statuses[record.holder]
    end = master.end if master is not None else record.confirmed
    return [_row(name, record, address, status, end) for address, status in statuses.items()]


def _row(name: str, record: LeaseRecord, address: str, status: BrokerStatus | None, end: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "broker": name,
        "lease": record.number,
        "holder": record.holder,
        "member": address,
        "in_sync": address in record.in_sync,
        "confirmed": record.confirmed,
        "wanted": record.wanted,
        "problem": "",
    }
    if status is None:
        return {**row, "role": "holder" if address == record.holder else "", "problem": "does not answer"}
    problem = status.reason
    if address == record.holder and status.role.value == "master" and not status.granted_s:
        problem = problem or "it may not acknowledge: its agent has not renewed the lease"
    if status.number != record.number:
        problem = problem or f"it is under lease {status.number}"
    return {
        **row,
        "role": status.role.value,
        "left_s": round(status.granted_s, 3),
        "end": status.end,
        "behind": max(0, end - status.end),
        "metadata": status.metadata,
        "lost_messages": sum(each.messages for each in status.lost) or None,
        "problem": problem,
    }


async def status_of(admin: Admin, address: str) -> BrokerStatus | None:
    """None when it does not answer, or is not ours."""
    try:
        return await admin.member(address)
    except MQError:
        return None


async def switch_master(admin: Admin, url: str, ca_file: Path | None, name: str, to: str) -> dict[str, Any]:
    """Progress goes to standard error, with times. Raises LeaseError."""
    from pyromq.clock import machine_s
    from pyromq.failover.switching import current, switch

    known = (await admin.cluster()).broker_addr_table
    if name not in known:
        await admin.member(name)  # says that it is not there
    store = _opened(url, known[name].cluster, name, ca_file)
    began_s, steps = machine_s(), []
    try:
        before = (await current(store)).record

        async def ask(address: str) -> BrokerStatus | None:
            return await status_of(admin, address)

        async for step in switch(store, ask, to):
            took_s = machine_s() - began_s
            steps.append({"after_s": round(took_s, 3), "step": step})
            sys.stderr.write(f"{took_s:6.2f} s  {step}\n")
        after = (await current(store)).record
    finally:
        await store.close()
    return {"broker": name, "was": before.holder, "master": after.holder, "lease": after.number, "steps": steps}


def _opened(url: str, cluster: str, name: str, ca_file: Path | None) -> LeaseStore:
    from pyromq.failover.opening import open_lease_store

    return open_lease_store(checked_store(url), cluster, name, ca_file=ca_file)
