"""Delayed messages: how many are due in each hour, which they are, and cancelling them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyromq.charts import Bar, column_chart
from pyromq.console.views.delays import HOUR_MS, DelaysView, cancel, read_delays
from pyromq.console.web.formatting import counted
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.tables import TableQuery, sorted_by
from pyromq.console.web.visit import Drawn, Moved, Visit
from pyromq.operate.delays import DelayedMessage
from pyromq.operate.jobs.outcomes import Outcome
from pyromq.wording import shown_time

pages = Pages()
_DRAWN_MS: Final = 48 * HOUR_MS
_SORTS: Final[dict[str, Callable[[DelayedMessage], Any]]] = {
    "due": lambda each: each.due_ms,
    "topic": lambda each: each.topic,
    "level": lambda each: each.level,
    "group": lambda each: each.group,
}


@pages.page("/delays", title="Delays", nav=Nav("Messages", order=40, key="w"))
async def delays(visit: Visit) -> Drawn:
    topic, hour_ms = visit.query.get("topic", "")[:255], _hour(visit.query.get("hour", ""))
    found = await read_delays(visit.desk, topic)
    query = TableQuery.of(visit.query, sorts=list(_SORTS), kept=("topic", "hour"))
    rows = [each for each in found.messages if _is_wanted(each, hour_ms, query.search)]
    model = {
        "delays": found,
        "table": query.cut(sorted_by(rows, query, _SORTS)),
        "topic": topic,
        "hour_ms": hour_ms,
        "chart": hours_chart(found, hour_ms, lambda at: query.keeping("hour", str(at))),
        "hour_end_ms": hour_ms + HOUR_MS,
        "later": sum(each.count for each in found.hours if each.begin_ms >= found.hours[0].begin_ms + _DRAWN_MS),
    }
    return Drawn("delays.html", model)


@pages.action("/delays/cancel", title="Cancelled delays")
async def cancel_some(visit: Visit) -> Drawn | Moved:
    """One leads back to the list, several to a list of outcomes."""
    outcomes = await cancel(visit.desk, visit.all_of("handle"))
    if len(outcomes) == 1:
        only = outcomes[0]
        if only.outcome is Outcome.CONFIRMED:
            return Moved("/delays", said=f"Message {only.message_id} is cancelled and will not be delivered.")
        if only.outcome is Outcome.UNCHANGED:
            return Moved("/delays", said=f"Message {only.message_id} was not cancelled: {only.reason}", kind="bad")
        text = f"Whether message {only.message_id} is cancelled is not known: {only.reason}"
        return Moved("/delays", said=text, kind="warning")
    confirmed = sum(1 for each in outcomes if each.outcome is Outcome.CONFIRMED)
    title = f"{confirmed} of {counted(len(outcomes), 'message')} cancelled"
    return Drawn("delays_cancelled.html", {"outcomes": outcomes, "heading": title})


def hours_chart(delays: DelaysView, chosen_ms: int, href: Callable[[int], str]) -> Any:
    """The next two days, hour by hour, those without anything too; a column leads to its messages.

    What is due later is in the table only.
    """
    if not delays.hours:
        return ""
    counts = {each.begin_ms: each.count for each in delays.hours}
    begin_ms = delays.hours[0].begin_ms
    end_ms = min(delays.hours[-1].begin_ms + 1, begin_ms + _DRAWN_MS)
    columns = [
        Bar(
            shown_time(at)[11:16],
            [count],
            f"{count} due from {shown_time(at)} on",
            colour=1 if at == chosen_ms else 0,
            href=href(at) if count else "",
        )
        for at in range(begin_ms, end_ms, HOUR_MS)
        for count in (counts.get(at, 0),)
    ]
    return column_chart(columns, "Messages due in each hour", height=170, names_max=8)


def _is_wanted(message: DelayedMessage, hour_ms: int, search: str) -> bool:
    if hour_ms and message.due_ms // HOUR_MS * HOUR_MS != hour_ms:
        return False
    needle = search.casefold()
    words = (message.topic, message.message_id, message.tags, message.group, *message.keys)
    return not needle or any(needle in word.casefold() for word in words)


def _hour(text: str) -> int:
    return int(text) // HOUR_MS * HOUR_MS if text.isascii() and text.isdigit() and len(text) < 15 else 0
