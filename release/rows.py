"""The page of rows, docs/reference/rows.md, made from the structs themselves: ``python -m release.rows``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Final

import msgspec

from pyromq.operate.brokers import BrokerRow
from pyromq.operate.consumers.group_state import GroupDescription, GroupMember, GroupQueueRow
from pyromq.operate.delays import DelayedMessage
from pyromq.operate.health import ClusterFinding
from pyromq.operate.letter_filter import LetterRow
from pyromq.operate.lists import GroupRow, TopicGroupLag, TopicRow
from pyromq.operate.offsets import MoveRow
from pyromq.operate.reading.message_rows import MessageRow, MessageSummary
from pyromq.operate.replication import BrokerCopy
from pyromq.operate.resend.outcomes import ItemOutcome
from pyromq.operate.transactions import OpenTransaction

PAGE: Final = Path(__file__).parents[1] / "docs/reference/rows.md"
ROWS: Final[tuple[tuple[type[msgspec.Struct], str], ...]] = (
    (TopicRow, "`admin.topics.list`, `pyromq topic ls -o json`, `GET /api/v1/topics`"),
    (TopicGroupLag, "`groups` of a TopicRow"),
    (GroupRow, "`admin.groups.list`, `pyromq group ls -o json`, `GET /api/v1/groups`"),
    (GroupDescription, "`pyromq group describe -o json`, `GET /api/v1/groups/{group}`"),
    (GroupMember, "`members` of a GroupDescription, and of `admin.groups.describe`"),
    (GroupQueueRow, "`queues` of a GroupDescription"),
    (MoveRow, "`pyromq group reset -o json`, `POST /api/v1/groups/{group}/reset/preview`"),
    (LetterRow, "`pyromq dlq ls GROUP --messages -o json`, `GET /api/v1/dead-letters/{group}`"),
    (MessageSummary, "`GET /api/v1/topics/{topic}/messages` (and an excerpt of the body)"),
    (
        MessageRow,
        "`pyromq message get -o json`, `message find`, `tail` and `consume` likewise; lines of exports;"
        " `GET /api/v1/topics/{topic}/messages/lines`",
    ),
    (ItemOutcome, "`admin.dead_letters.redrive`; jobs"),
    (DelayedMessage, "`admin.delays.list`, `pyromq delay ls -o json`, `GET /api/v1/delays`"),
    (OpenTransaction, "`admin.transactions.list`, `pyromq tx ls -o json`, `GET /api/v1/transactions`"),
    (
        BrokerRow,
        "`admin.brokers.list`, `pyromq cluster ls -o json`, `GET /api/v1/cluster` (and a forecast)",
    ),
    (BrokerCopy, "`admin.replication.list`, `pyromq cluster replication -o json`, `GET /api/v1/replication`"),
    (ClusterFinding, "`admin.health.findings`, `pyromq doctor -o json`, `GET /api/v1/health`"),
)
_HEAD: Final = """# Rows

What lists are made of. Fields have the same names in all places that stand above a table: as JSON of commands and of
the HTTP API, and as attributes in Python. A number that is `null` (None) is not known; times are milliseconds since
1970, names ending in `_rate` are messages a second over the last minute.
"""


def page() -> str:
    """Return the page as the code has it now."""
    return _HEAD + "".join(_section(kind, where) for kind, where in ROWS)


def _section(kind: type[msgspec.Struct], where: str) -> str:
    said = (inspect.getdoc(kind) or "").replace("``", "`").replace("\n\n", "\n")
    fields = "".join(f"| `{each.name}` | `{_type_text(kind, each.name)}` |\n" for each in msgspec.structs.fields(kind))
    return f"\n## {kind.__name__}\n\n{where}\n\n{said}\n\n| field | type |\n|---|---|\n{fields}"


def _type_text(kind: type[msgspec.Struct], name: str) -> str:
    declaring = next(base for base in kind.__mro__ if name in inspect.get_annotations(base))
    return str(inspect.get_annotations(declaring)[name]).replace("|", "or")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
