"""Health is a to-do list: each finding leads to the page that settles it, and badges say that there is something."""

from __future__ import annotations

import re

import msgspec
import pytest

from pyromq import Message
from pyromq.console.sampling import ClusterSample
from pyromq.console.web.places import place_of
from pyromq.operate.delays import RetryCount
from pyromq.operate.subjects import Subject, SubjectKind
from tests.unit.console.rig import ConsoleRig
from tests.unit.console.test_work_pages import bury, job_of, on_a_console

pytestmark = pytest.mark.usefixtures("quiet")


def badge(page: str, name: str) -> str:
    """The text of a badge of the navigation; empty where there is none."""
    found = re.search(rf'id="badge-{name}">(.*?)</a>', page, re.DOTALL)
    assert found is not None, name
    return " ".join(re.sub(r"<kbd.*?</kbd>|<[^>]+>", "", found[1]).split())


def test_a_finding_leads_to_its_page_and_says_its_command() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1", b"2")
        page = await rig.page("/health")
        assert "2 dead letters: see why" in page
        assert 'href="/dead-letters/billing">See why, redrive</a>' in page
        assert f"pyromq dlq ls billing -n {rig.broker.nameserver}" in page
        assert 'href="/dead-letters/billing">See why, redrive</a>' in await rig.page("/")

    on_a_console(test)


def test_badges_count_what_waits_and_go_when_it_is_done() -> None:
    async def test(rig: ConsoleRig) -> None:
        assert badge(await rig.page("/topics"), "letters") == "", "nothing was counted yet"
        await bury(rig, b"1", b"2")
        await rig.console.badges.take()
        page = await rig.page("/topics")
        assert badge(page, "letters") == "2 dead letters waiting"
        assert badge(page, "health") == "1 thing to look at"
        assert [badge(page, name) for name in ("retries", "jobs", "away")] == ["", "", ""]
        await job_of(rig, "/dead-letters/billing/redrive", which="filter", rate="0", canary="0")
        await rig.broker.advance(seconds=30)
        await rig.console.badges.take()
        assert badge(await rig.page("/topics"), "letters") == ""

    on_a_console(test)


def test_a_job_that_waits_for_a_word_is_counted_at_once() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1", b"2")
        answer = await rig.post("/dead-letters/billing/redrive", which="filter", rate="0", canary="1")
        job = answer.headers["location"].removeprefix("/jobs/")
        assert badge(await rig.page("/jobs"), "jobs") == "1 job running"
        await rig.post(f"/jobs/{job}/cancel")
        await rig.desk.jobs.wait(job)
        assert badge(await rig.page("/jobs"), "jobs") == ""

    on_a_console(test)


def test_retries_are_counted_among_messages_that_only_wait_and_a_cut_count_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(rig: ConsoleRig) -> None:
        await rig.admin.topics.create("orders", queues=1)
        await rig.admin.groups.create("billing")
        producer = await rig.producer()
        for number in range(3):
            await producer.send(Message("orders", b"later", delay_level=17))
            await producer.send(Message("%RETRY%billing", b"%d" % number, delay_level=18))
        await rig.console.badges.take()
        assert badge(await rig.page("/topics"), "retries") == "3 failed messages waiting for a retry"
        monkeypatch.setattr("pyromq.console.badges.RETRIES_READ_MAX", 4)
        await rig.console.badges.take()
        assert badge(await rig.page("/topics"), "retries") == "1+ failed messages waiting for a retry"
        assert await rig.admin.delays.count_retries(count_max=6) == RetryCount(count=3), "six are there, all are read"
        assert await rig.admin.delays.count_retries(count_max=5) == RetryCount(count=2, is_cut=True)

    on_a_console(test)


def test_members_that_are_away_are_counted_brokers_that_do_not_answer_among_them() -> None:
    async def test(rig: ConsoleRig) -> None:
        (master,) = (await rig.desk.sampler.take()).brokers
        assert badge(await rig.page("/topics"), "away") == ""
        silent = msgspec.structs.replace(master, broker="broker-b", problem="connection refused")
        missing = msgspec.structs.replace(master, members_away=2)
        rig.desk.sampler.last = ClusterSample(time_ms=1, brokers=(missing, silent))
        assert badge(await rig.page("/topics"), "away") == "3 members away"

    on_a_console(test)


def test_a_stranger_sees_no_badges() -> None:
    async def test(rig: ConsoleRig) -> None:
        await bury(rig, b"1")
        await rig.console.badges.take()
        assert "nav-badge" not in (await rig.stranger.get("/login")).text

    on_a_console(test)


@pytest.mark.parametrize("kind", SubjectKind)
def test_every_kind_of_subject_has_a_page(kind: SubjectKind) -> None:
    place = place_of(Subject(kind=kind, name="a/b", within="c d"))
    assert place.startswith("/") and " " not in place and "a/b" not in place
