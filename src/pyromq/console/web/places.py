"""Places: the address of the page that shows a subject of the cluster."""

from __future__ import annotations

from pyromq.console.web.formatting import link
from pyromq.operate.subjects import Subject, SubjectKind


def place_of(subject: Subject | None) -> str:
    """Return the address of the page about a subject; empty for none."""
    if subject is None:
        return ""
    name, within = subject.name, subject.within
    match subject.kind:
        case SubjectKind.BROKER:
            return link("brokers", name) if name else link("brokers")
        case SubjectKind.SETTINGS:
            return link("brokers", name, "settings", *([within] if within else []))
        case SubjectKind.STORE:
            return link("store", broker=name)
        case SubjectKind.REPLICATION:
            return link("replication")
        case SubjectKind.TOPIC:
            return link("topics", name, *([within] if within else []))
        case SubjectKind.GROUP:
            return link("groups", name)
        case SubjectKind.DEAD_LETTERS:
            return link("dead-letters", name, *([within] if within else []))
        case SubjectKind.RETRIES:
            return link("retries", group=name)
        case SubjectKind.TRANSACTIONS:
            return link("transactions")
        case SubjectKind.MESSAGE:
            return link("messages", within, name)
        case SubjectKind.CLIENT:
            return link("groups", within)
        case SubjectKind.USER:
            return link("users", name)
        case _:
            return "/"
