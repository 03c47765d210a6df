"""A group as ``pyromq group describe`` shows it: its members, its queues, and the head of each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from pyromq.cli import clock
from pyromq.cli.output.tables import Column, Form, shown, write_rows, write_text
from pyromq.wording import counted, shown_span

if TYPE_CHECKING:
    from pyromq.aio import Admin, QueueId
    from pyromq.operate.consumers.group_state import GroupMember
    from pyromq.wire.json.bodies import QueueProgress

LAG_COLUMNS = (
    Column("topic", "topic"),
    Column("broker", "broker"),
    Column("queue", "queue", right=True),
    Column("committed", "committed", right=True),
    Column("end", "end", right=True),
    Column("lag", "lag", right=True),
    Column("in_flight", "in flight", right=True, optional=True),
)
_MEMBER_COLUMNS = (
    Column("client_id", "member"),
    Column("address", "address"),
    Column("language", "language"),
    Column("queues", "queues", right=True),
    Column("subscribes_to", "subscribes to"),
    Column(
        "agrees", "agrees", styles={"no": "bold red"}, show=lambda agrees: {True: "yes", False: "no"}.get(agrees, "")
    ),
    Column("lag", "lag", right=True),
    Column("ok_rate", "ok/s", right=True),
    Column("failed_rate", "failed/s", right=True),
    Column("consume_ms", "ms each", right=True),
    Column("difference", "difference", optional=True),
)
_SETTING_COLUMNS = (
    Column("setting", "setting"),
    Column("group", "the group's"),
    Column("members", "members use"),
    Column("differs", "differs", show=lambda differs: "yes" if differs else "", styles={"yes": "bold red"}),
)
HEAD_COLUMNS = (
    *LAG_COLUMNS,
    Column("client_id", "member"),
    Column("offset", "offset", right=True),
    Column("keys", "keys"),
    Column("age_ms", "age"),
    Column("attempt", "attempt", right=True),
    Column("stage", "stage"),
    Column("error", "error"),
)
_QUEUE_COLUMNS = (
    Column("topic", "topic"),
    Column("name", "queue"),
    Column("committed", "committed", right=True),
    Column("lag", "lag", right=True),
    Column("in_flight", "in flight", right=True, optional=True),
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
        "in_flight": held.in_flight,
    }


async def describe_group(admin: Admin, group: str, topic: str) -> dict[str, Any]:
    """Members, queues and settings as rows. Raises GroupNotFoundError."""
    import msgspec

    from pyromq.operate.consumers.group_state import GroupDescription

    state = await admin.groups.describe(group, topic)
    return {**msgspec.to_builtins(GroupDescription.of(state)), "members": [_member_row(each) for each in state.members]}


def _member_row(member: GroupMember) -> dict[str, Any]:
    """The member with the names that the HTTP API has, and its subscriptions in words."""
    import msgspec

    row = msgspec.to_builtins(member)
    rates = {name: round(row[name], 2) for name in ("ok_rate", "failed_rate", "consume_ms")}
    return {**row, **rates, "subscribes_to": member.subscribes_to if member.subscriptions else ""}


def show_group(out: TextIO, fields: dict[str, Any], *, stacks: bool) -> None:
    """Write a group as tables: members get numbers, by which queues name them."""
    members, queues = fields["members"], fields["queues"]
    if members:
        facts = [f"has {counted(len(members), 'member')}", f"lag {fields['lag']}"]
        facts += ["is paused"] if fields["is_paused"] else []
        facts += ["broadcasts"] if fields["is_broadcasting"] else []
        write_text(out, f"group {fields['group']} {', '.join(facts)}")
    else:
        write_text(out, f"no member of group {fields['group']} is connected, lag {fields['lag']}")
    numbers = {member["client_id"]: number for number, member in enumerate(members, 1)}
    rows = [{"number": numbers[member["client_id"]], **member} for member in members]
    columns = (Column("number", "", right=True), *_MEMBER_COLUMNS)
    if rows:
        out.write("\n")
        write_rows(out, Form.TABLE, columns, rows)
    if queues:
        out.write("\n")
        write_rows(out, Form.TABLE, _QUEUE_COLUMNS, [_queue_row(row, numbers) for row in queues])
    if members:
        out.write("\n")
        write_rows(out, Form.TABLE, _SETTING_COLUMNS, [_setting_row(row, numbers) for row in fields["settings"]])
    for row in (row for row in queues if stacks and row["stack"]):
        out.write(f"\nlistener of {row['topic']} {row['broker']}:{row['queue']} at offset {row['offset']}\n")
        out.write("\n".join(shown(line) for line in row["stack"].splitlines()) + "\n")


def _setting_row(row: dict[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    """One value is written alone, of several each with the numbers of its members."""
    values = row["members"]
    texts = [f"{value} ({', '.join(str(numbers[each]) for each in ids)})" for value, ids in values.items()]
    return {**row, "members": ", ".join(texts) if len(values) > 1 else "".join(values) or "not told"}


def _queue_row(row: dict[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    return {
        **row,
        "name": f"{row['broker']}:{row['queue']}",
        "member": numbers.get(row["client_id"]),
        "head": _head(row),
    }


def _head(row: dict[str, Any]) -> str:
    if row["offset"] is None:
        return ""
    parts = [f"offset {row['offset']}"] if row["offset"] != row["committed"] else []
    name = f"key {' '.join(row['keys'])}" if row["keys"] else row["message_id"]
    parts += [name, f"{shown_span(row['age_ms'])} old"]
    parts += [f"attempt {row['attempt'] + 1}"] if row["attempt"] else []
    if row["stage"]:
        running_ms = clock.now_ms() - row["since_ms"] if row["since_ms"] else 0
        parts.append(f"{row['stage']} for {shown_span(running_ms)}" if running_ms else row["stage"])
    parts += [row["error"]] if row["error"] else []
    return ", ".join(parts)
