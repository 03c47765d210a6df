"""A group as ``pyromq group describe`` shows it: its members, its queues, and the head of each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from pyromq.cli import clock
from pyromq.cli.output.tables import Column, Form, shown, write_rows, write_text
from pyromq.wording import counted, shown_span

if TYPE_CHECKING:
    from pyromq.aio import Admin, QueueId
    from pyromq.operate.consumers.blocked_queues import BlockedQueue
    from pyromq.wire.json.bodies import QueueProgress
    from pyromq.wire.json.heartbeat import ConsumerConnections

LAG_COLUMNS = (
    Column("topic", "topic"),
    Column("broker", "broker"),
    Column("queue", "queue", right=True),
    Column("committed", "committed", right=True),
    Column("end", "end", right=True),
    Column("lag", "lag", right=True),
)
_MEMBER_COLUMNS = (
    Column("client", "member"),
    Column("address", "address"),
    Column("language", "language"),
    Column("subscribes_to", "subscribes to"),
    Column("agrees", "agrees", styles={"no": "bold red"}),
)
HEAD_COLUMNS = (
    *LAG_COLUMNS,
    Column("client", "member"),
    Column("offset", "offset", right=True),
    Column("keys", "keys"),
    Column("age_ms", "age"),
    Column("attempt", "attempt", right=True),
    Column("stage", "stage"),
)
_QUEUE_COLUMNS = (
    Column("topic", "topic"),
    Column("name", "queue"),
    Column("committed", "committed", right=True),
    Column("lag", "lag", right=True),
    Column("member", "member", right=True),
    Column("head", "head of the queue"),
)


def lag_row(queue: QueueId, held: QueueProgress) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "broker": queue.broker,
        "queue": queue.number,
        "committed": held.consumer_offset,
        "end": held.broker_offset,
        "lag": held.broker_offset - held.consumer_offset,
    }


async def describe_group(admin: Admin, group: str, topic: str) -> dict[str, Any]:
    """Members and queues as rows. Raises GroupNotFoundError."""
    from pyromq.errors import GroupOfflineError

    await admin.groups.require(group)
    try:
        members = _member_rows(await admin.members.connections(group))
    except GroupOfflineError:
        members = []
    return {
        "group": group,
        "members": members,
        "queues": [_head_row(h) for h in await admin.groups.heads(group, topic)],
    }


def _member_rows(found: ConsumerConnections) -> list[dict[str, Any]]:
    subscriptions = ", ".join(f"{name} ({each.sub_string})" for name, each in found.subscription_table.items())
    disagreeing = set(found.disagreeing_client_ids or ())
    return [
        {
            "client": member.client_id,
            "address": member.client_addr,
            "language": member.language,
            "subscribes_to": subscriptions,
            "agrees": "no" if member.client_id in disagreeing else "yes",
        }
        for member in found.connection_set
    ]


def _head_row(head: BlockedQueue) -> dict[str, Any]:
    return {
        "topic": head.queue.topic,
        "broker": head.queue.broker,
        "queue": head.queue.number,
        "committed": head.committed,
        "end": head.end,
        "lag": head.lag,
        "client": head.client_id,
        "offset": head.offset,
        "message_id": head.message_id,
        "keys": " ".join(head.keys),
        "age_ms": head.age_ms if head.offset is not None else None,
        "attempt": head.attempt,
        "stage": head.stage,
        "since_ms": head.since_ms,
        "stack": head.stack,
    }


def show_group(out: TextIO, told: dict[str, Any], *, stacks: bool) -> None:
    """Write a group as tables: members get numbers, by which queues name them."""
    members, queues = told["members"], told["queues"]
    if members:
        write_text(out, f"group {told['group']} has {counted(len(members), 'member')}")
        write_text(out, f"subscribes to {members[0]['subscribes_to']}")
    else:
        write_text(out, f"no member of group {told['group']} is connected")
    numbers = {member["client"]: number for number, member in enumerate(members, 1)}
    rows = [{"number": numbers[member["client"]], **member} for member in members]
    columns = (Column("number", "", right=True), *(each for each in _MEMBER_COLUMNS if each.key != "subscribes_to"))
    if rows:
        out.write("\n")
        write_rows(out, Form.TABLE, columns, rows)
    if queues:
        out.write("\n")
        write_rows(out, Form.TABLE, _QUEUE_COLUMNS, [_queue_row(row, numbers) for row in queues])
    for row in (row for row in queues if stacks and row["stack"]):
        out.write(f"\nlistener of {row['topic']} {row['broker']}:{row['queue']} at offset {row['offset']}\n")
        out.write("\n".join(shown(line) for line in row["stack"].splitlines()) + "\n")


def _queue_row(row: dict[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    return {
        **row,
        "name": f"{row['broker']}:{row['queue']}",
        "member": numbers.get(row["client"]),
        "head": _head(row),
    }


def _head(row: dict[str, Any]) -> str:
    if row["offset"] is None:
        return ""
    parts = [f"offset {row['offset']}"] if row["offset"] != row["committed"] else []
    parts += [f"key {row['keys']}" if row["keys"] else row["message_id"], f"{shown_span(row['age_ms'])} old"]
    parts += [f"attempt {row['attempt'] + 1}"] if row["attempt"] else []
    if row["stage"]:
        running_ms = clock.now_ms() - row["since_ms"] if row["since_ms"] else 0
        parts.append(f"{row['stage']} for {shown_span(running_ms)}" if running_ms else row["stage"])
    return ", ".join(parts)
