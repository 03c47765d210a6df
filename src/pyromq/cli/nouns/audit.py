"""``pyromq audit``: who changed what, and what was refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli import clock
from pyromq.cli.connection import CLUSTER, ClusterFlags
from pyromq.cli.declared import Option
from pyromq.cli.output.tables import Column
from pyromq.cli.output.times import parse_time, show_moment, show_time

if TYPE_CHECKING:
    from pyromq.security.audit import AuditEntry, AuditSearch

_COLUMNS = (
    Column("time_ms", "time", show=show_time, roomy=show_moment, whole=True),
    Column("server", "server"),
    Column("user", "user", optional=True),
    Column("address", "from"),
    Column("action", "action"),
    Column("resources", "about"),
    Column("outcome", "outcome", styles={"refused": "red"}),
    Column("what", "what changed, or why not"),
    Column("times", "times", right=True, optional=True),
)
_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Which entries."""

    since: Annotated[str, Option(help="Not before this time: 2h ago, 2026-11-15T07:30.")] = ""
    until: Annotated[str, Option(help="Not after this time.")] = ""
    user: Annotated[str, Option(help="Only of this user.")] = ""
    resource: Annotated[str, Option(help="Only what is about this, such as Topic:orders; a part is enough.")] = ""
    refused: Annotated[bool, Option("--refused", help="Only what was refused.")] = False
    limit: Annotated[int, Option(min=1, max=1_000, help="At most this many.")] = 100

    def question(self) -> AuditSearch:
        """Search of the audit log by these options. Raises click.BadParameter."""
        from pyromq.security.audit import AuditOutcome, AuditSearch

        now_ms = clock.now_ms()
        return AuditSearch(
            since_ms=parse_time(self.since, now_ms) if self.since else 0,
            until_ms=parse_time(self.until, now_ms) if self.until else 1 << 62,
            user=self.user,
            resource=self.resource,
            outcome=AuditOutcome.REFUSED.value if self.refused else "",
            limit=self.limit,
        )


def audit(
    *,
    options: AuditOptions,
    broker: Annotated[str, Option(help="Only the log of this broker.")] = "",
    data: Annotated[
        Path | None, Option(metavar="DIR", help="Read the data folder of a server, which need not run.")
    ] = None,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show who changed what, from where, and what was refused; the newest entries first."""
    question = options.question()
    found = (
        cluster.ask(lambda admin: admin.audit.list(question, broker=broker)) if data is None else _read(data, question)
    )
    cluster.write_rows(_COLUMNS, [_row(entry) for entry in found])
    if not found:
        click.echo("nothing was changed or refused", err=True)


def _read(data: Path, question: AuditSearch) -> list[AuditEntry]:
    from pyromq.errors import ConfigError
    from pyromq.security.audit import FOLDER, find_entries

    if not data.is_dir():
        raise ConfigError(f"{data} is not a folder: name the data folder of a server")
    folders = (data / FOLDER, data / "namesrv" / FOLDER)  # ``pyromq up`` keeps that of its name server there
    found = [entry for folder in folders for entry in find_entries(folder, question)]
    return sorted(found, key=lambda entry: -entry.time_ms)[: question.limit]


def _row(entry: AuditEntry) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(entry)
    row.setdefault("user", "")
    row["resources"] = " ".join(entry.resources)
    row["times"] = entry.times if entry.times > 1 else None
    row["what"] = entry.reason or _shown_changes(entry.changes)
    return row


def _shown_changes(changes: dict[str, tuple[Any, Any]]) -> str:
    texts = []
    for name, (before, after) in changes.items():
        if isinstance(before, dict) and isinstance(after, dict):
            keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
            texts += [f"{name} {key}: {before.get(key)} → {after.get(key)}" for key in keys]
        elif before is None:
            texts.append(f"{name} created")
        elif after is None:
            texts.append(f"{name} deleted")
        else:
            texts.append(f"{name}: {before} → {after}")
    text = "; ".join(texts)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… (-o json has all)"
