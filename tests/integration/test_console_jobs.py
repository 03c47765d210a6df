"""Jobs of a console that is killed in the middle of one, and of the console that comes after it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyromq import Admin, Message, Producer
from pyromq.operate.reading.search import MessageQuery
from pyromq.testing import LoopbackBroker
from tests.integration.test_console import TOKEN, WAIT_S, running, url_of

pytestmark = pytest.mark.integration

MESSAGES = 60


def ask(method: str, url: str, **more: Any) -> Any:
    response = httpx.request(method, url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=WAIT_S, **more)
    assert response.status_code in (200, 201), response.text
    return response.json()


def until_confirmed(job: str, count: int) -> dict[str, Any]:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        record: dict[str, Any] = ask("GET", job)
        if record["counts"]["confirmed"] >= count or record["state"] not in ("running", "waiting for a go"):
            return record
        time.sleep(0.05)
    pytest.fail("the job does not go on")


def test_a_killed_console_leaves_an_interrupted_job_and_the_next_one_does_the_rest_once(tmp_path: Path) -> None:
    with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
        for topic in ("orders", "copies"):
            admin.topics.create(topic, queues=2)
        with Producer(broker.nameserver, group="shop") as producer:
            for number in range(MESSAGES):
                producer.send(Message("orders", b"%d" % number))
        words = ("console", "-n", broker.nameserver, "--data", str(tmp_path))
        with running(*words) as console:
            jobs = f"{url_of(console)}/api/v1/jobs"
            spec = {"kind": "copy", "topic": "orders", "to_topic": "copies"}
            job = ask("POST", jobs, json={"spec": spec, "pace": {"rate": 20}})["id"]
            until_confirmed(f"{jobs}/{job}", 5)
            console.kill()
        with running(*words) as console:
            jobs = f"{url_of(console)}/api/v1/jobs"
            record = ask("GET", f"{jobs}/{job}")
            assert record["state"] == "interrupted"
            assert 5 <= record["counts"]["confirmed"] < MESSAGES
            assert record["counts"]["unknown"] <= 1, "at most the one that was under way"
            again = ask("POST", f"{jobs}/{job}/continue")["id"]
            done = until_confirmed(f"{jobs}/{again}", MESSAGES)
            assert done["state"] == "finished"
            assert done["counts"]["confirmed"] + done["counts"]["unchanged"] == MESSAGES
        found = admin.messages.search(MessageQuery(topic="copies", count_max=1_000)).messages
        assert sorted(int(message.body) for message in found) == list(range(MESSAGES))
        broker.assert_nothing_lost()
