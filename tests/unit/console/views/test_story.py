"""The story of a message as its page tells it."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

from pyromq.console.views.messages import BADGES
from pyromq.console.web.rendering import Renderer
from pyromq.console.web.visit import Visit
from pyromq.operate.explaining.explanation import explain
from pyromq.operate.explaining.facts import Facts, GroupFacts
from pyromq.operate.explaining.timeline import timeline_of
from tests.unit.operate.explaining.test_timeline import PLACE, T, began, ended


def test_a_message_that_two_members_consumed_says_so_with_both_and_milliseconds() -> None:
    trace = (
        began("R1", T + 100),
        ended("R1", T + 140, 40),
        began("R2", T + 200, host="10.0.0.2:5"),
        ended("R2", T + 225, 25, host="10.0.0.2:5"),
    )
    groups = (GroupFacts(group="billing", is_online=True),)
    told = explain(
        Facts(topic="orders", message_id="ID", now_ms=T + 900, born_ms=T, visible=(PLACE,), groups=groups, trace=trace)
    )
    assert told is not None
    visit = cast(Visit, SimpleNamespace(now_ms=T + 900))
    page = Renderer([], dict).part(
        "message_parts.html", "story", visit, told=told, problem="", timeline=timeline_of(told), badges=BADGES
    )
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "consumed twice by 10.0.0.1:5 and 10.0.0.2:5" in text
    assert "40 ms on 10.0.0.1:5" in text and "25 ms on 10.0.0.2:5" in text
    assert f'data-ms="{T + 2}" data-precise' in page, "scripts keep its milliseconds"
    assert "22:13:20.002Z" in text
