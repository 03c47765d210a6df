"""The audit log: who changed what, from where, and what was refused."""

from __future__ import annotations

from typing import Final

from pyromq.console.views.users import changes_of, question_of
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import Drawn, Visit
from pyromq.errors import BrokerError
from pyromq.wire.codes import ResponseCode

pages = Pages()
SINCE: Final = ("", "1 h", "1 d", "7 d")


@pages.page("/audit", title="Audit", nav=Nav("Operate", order=50, key="l"))
async def audit(visit: Visit) -> Drawn:
    question, closed, entries = question_of(visit.query, visit.now_ms), "", []
    try:
        entries = await visit.desk.admin.audit.list(question)
    except BrokerError as error:
        if error.code not in (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.NO_PERMISSION):
            raise
        closed = str(error)
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            closed = "Apache RocketMQ keeps no audit log; PyroMQ's brokers and name servers do."
    words = ["audit"]
    for name, value in (("--user", question.user), ("--resource", question.resource)):
        words += [name, value] if value else []
    words += ["--since", f"{visit.query['since']} ago"] if visit.query.get("since") in SINCE[1:] else []
    model = {
        "rows": [(entry, changes_of(entry)) for entry in entries],
        "question": question,
        "since": visit.query.get("since", ""),
        "choices": SINCE,
        "closed": closed,
        "line": words,
    }
    return Drawn("audit.html", model)
