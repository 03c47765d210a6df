"""Dead letters on a console: every place says the same number, and a filter redrives all that it chooses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyromq.console.views import letters as view
from pyromq.operate.dead_letters import LetterCounts
from tests.unit.console.rig import ConsoleRig
from tests.unit.console.test_work_pages import bury, job_of, on_a_console

pytestmark = pytest.mark.usefixtures("quiet")


async def told(rig: ConsoleRig) -> dict[str, Any]:
    """The number of waiting letters, by the place that says it."""
    await rig.broker.advance(seconds=10)  # what a console remembers is older than it may be
    [group] = (await rig.api("GET", "/dead-letters")).json()["groups"]
    groups = (await rig.api("GET", "/groups")).json()["groups"]
    topics = (await rig.api("GET", "/topics")).json()["topics"]
    page = re.sub(r"<[^>]+>|\s+", " ", await rig.page("/groups/billing"))
    [listed] = [row for row in (await rig.admin.groups.list()).rows if row.group == "billing"]
    findings = [each.text for each in await rig.admin.health.findings() if "dead letter" in each.text]
    shown = re.search(r"Dead letters +(\d+) +waiting, (\d+) in total", page)
    assert shown is not None
    return {
        "operate": await rig.admin.dead_letters.count("billing"),
        "API of dead letters": (group["waiting"], group["total"]),
        "API of groups": next(row["dead_letters"] for row in groups if row["group"] == "billing"),
        "API of topics": next(row["dead_letters"] for row in topics if row["topic"] == "orders"),
        "page of the group": (int(shown[1]), int(shown[2])),
        "list of groups": listed.dead_letters,
        "doctor": int(findings[0].split()[0]) if findings else 0,
    }


def test_after_a_redrive_of_five_letters_every_place_says_none_waits_and_five_are_there() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, *[b"%d" % number for number in range(5)])
        for waiting in (5, 0):
            assert await told(rig) == {
                "operate": LetterCounts(waiting=waiting, total=5),
                "API of dead letters": (waiting, 5),
                "API of groups": waiting,
                "API of topics": waiting,
                "page of the group": (waiting, 5),
                "list of groups": waiting,
                "doctor": waiting,
            }
            await job_of(rig, "/dead-letters/billing/redrive", which="filter", rate="0", canary="0")

    on_a_console(test)


@pytest.mark.parametrize("choice", [{}, {"error": "no such customer"}, {"tag": "vip"}, {"q": "CUSTOMER"}], ids=repr)
def test_all_that_the_filter_chooses_is_redriven_however_many_a_page_looks_at(
    choice: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "READ_MAX", 3)

    async def test(rig: ConsoleRig) -> None:
        await bury(rig, *[b"%d" % number for number in range(5)], tags="vip")
        job = await job_of(rig, "/dead-letters/billing/redrive", which="filter", rate="0", canary="0", **choice)
        assert rig.desk.jobs.get(job).counts.confirmed == 5

    on_a_console(test)


def test_a_filter_that_chooses_nothing_redrives_nothing() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1", b"2")
        job = await job_of(rig, "/dead-letters/billing/redrive", which="filter", tag="other", rate="0", canary="0")
        assert rig.desk.jobs.get(job).counts.total == 0

    on_a_console(test)


def test_the_index_says_why_since_when_and_of_which_topics() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1", b"2", reason="no such customer")
        await rig.broker.advance(seconds=300)
        await bury(rig, b"3", reason="no price")
        await rig.broker.advance(seconds=30)
        assert "an hour" not in await rig.page("/dead-letters"), "minutes say nothing about an hour"
        await rig.broker.advance(hours=2)
        await bury(rig, b"4", reason="no price")
        await rig.broker.advance(seconds=30)
        page = await rig.page("/dead-letters")
        text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
        assert "DeadLetterError × 4 no price" in text, "one error, with the text of its newest letter"
        assert 'class="chart spark"' in page and "an hour" in text
        assert 'href="/topics/orders">orders</a>' in page
        assert re.search(r'href="/dead-letters/billing\?error=\w+', page)

    on_a_console(test)
