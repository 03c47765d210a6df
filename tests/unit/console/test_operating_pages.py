"""Pages for operators: delays, half messages, brokers and settings, store, pipelines, users, audit; and their API."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyromq.aio import Message, ReceivedMessage, TransactionOutcome, TransactionProducer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.operate.delays import make_handle
from pyromq.operate.query_reports import QueryReports, SourceReport
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from tests.unit.console.rig import XSS, ConsoleRig
from tests.unit.console.test_command_lines import lines_of, parsed

HOUR_MS = 3_600_000
REFUSED = (400, 404, 422)


# --- delays ---


async def test_delays_are_listed_by_hour_and_cancelled() -> None:
    async with ConsoleRig() as rig:
        producer = await rig.producer()
        for number in range(3):
            await producer.send(Message("later", b"x", keys=[f"k{number}"], delay_ms=HOUR_MS * (number + 1)))
        page = await rig.page("/delays")
        assert "<svg" in page and all(f"k{number}" in page for number in range(3))
        handles = re.findall(r'name="handle" value="([^"]+)"', page)
        assert len(handles) == 3
        said = await rig.act("/delays/cancel", handle=handles[0])
        assert "is cancelled and will not be delivered" in said
        again = await rig.act("/delays/cancel", handle=handles[0])
        assert "was not cancelled" in again or "is cancelled" in again
        outcomes = await rig.post("/delays/cancel", [("handle", handles[1]), ("handle", handles[2])])
        assert outcomes.status_code == 200 and "2 of 2 messages cancelled" in outcomes.text
        assert "Nothing waits" in await rig.page("/delays")


async def test_delays_are_searched_and_cut_by_hour() -> None:
    async with ConsoleRig() as rig:
        producer = await rig.producer()
        await producer.send(Message("later", b"x", keys=["needle"], delay_ms=HOUR_MS))
        await producer.send(Message("later", b"x", keys=["straw"], delay_ms=5 * HOUR_MS))
        page = await rig.page("/delays", q="NEEDLE")
        assert "needle" in page and "straw" not in page
        found = (await rig.api("GET", "/delays")).json()
        assert [hour["count"] for hour in found["hours"]] == [1, 1] and not found["is_cut"]
        page = await rig.page("/delays", hour=found["hours"][1]["begin_ms"])
        assert "straw" in page and "needle" not in page
        assert "straw" in await rig.page("/delays", hour="nonsense", page="-3", sort="__class__")


@pytest.mark.parametrize(
    "handle", ["", "x", "é", make_handle("t", "127.0.0.1:1", 1, "id"), make_handle("t", "b", 1, "i")]
)
async def test_a_handle_leads_nowhere_but_to_brokers_of_the_cluster(handle: str) -> None:
    async with ConsoleRig() as rig:
        response = await rig.post("/delays/cancel", handle=handle)
        assert response.status_code in REFUSED
        response = await rig.api("POST", "/delays/cancel", json={"handles": [handle]})
        assert response.status_code in REFUSED
        assert (await rig.post("/delays/cancel")).status_code in REFUSED


async def test_a_reader_cancels_nothing() -> None:
    async with ConsoleRig() as rig:
        producer = await rig.producer()
        await producer.send(Message("later", b"x", delay_ms=HOUR_MS))
        assert 'name="handle"' not in await rig.viewer.page("/delays")
        handle = (await rig.api("GET", "/delays")).json()["messages"][0]["handle"]
        assert (await rig.viewer.post("/delays/cancel", handle=handle)).status_code == 403
        assert len((await rig.api("GET", "/delays")).json()["messages"]) == 1


# --- transactions ---


async def test_half_messages_show_their_age_and_producers() -> None:
    async def undecided(message: ReceivedMessage) -> TransactionOutcome:
        return TransactionOutcome.UNKNOWN

    async with ConsoleRig() as rig:
        assert "No transaction is open" in await rig.page("/transactions")
        nameserver = rig.broker.nameserver
        async with TransactionProducer(nameserver, group="payer", topics="paid", check=undecided) as producer:
            await producer.send(Message("paid", b"x", keys=["half-1"]), lambda transaction: TransactionOutcome.UNKNOWN)
            page = await rig.page("/transactions")
            assert "half-1" in page and "payer" in page and "1 connected" in page and "not yet" in page
        found = (await rig.api("GET", "/transactions")).json()
        assert [each["producer_group"] for each in found["messages"]] == ["payer"]


# --- brokers ---


async def test_brokers_are_shown_with_what_they_say() -> None:
    async with ConsoleRig() as rig:
        assert "broker-a" in await rig.page("/brokers")
        page = await rig.page("/brokers/broker-a")
        assert "Messages in" in page and "Everything else" in page
        assert (await rig.api("GET", "/brokers/broker-a/runtime")).json()["groups"]


@pytest.mark.parametrize("name", ["nobody", "127.0.0.1:1", "127.0.0.1:22", "..%2F", XSS])
@pytest.mark.parametrize("path", ["/brokers/{}", "/brokers/{}/settings"])
async def test_a_name_in_an_address_is_never_connected_to(path: str, name: str) -> None:
    from urllib.parse import quote

    async with ConsoleRig() as rig:
        response = await rig.get(path.format(quote(name, safe="")))
        assert response.status_code == 404 and "<script>alert" not in response.text


async def test_a_setting_is_previewed_and_changed() -> None:
    async with ConsoleRig() as rig:
        assert "fileReservedTime" in await rig.page("/brokers/broker-a/settings")
        form = await rig.page("/brokers/broker-a/settings/fileReservedTime")
        assert 'max="8760"' in form
        preview = await rig.post("/brokers/broker-a/settings/preview", key="fileReservedTime", value="96")
        assert preview.status_code == 200 and "Nothing has changed yet" in preview.text
        assert "pyromq settings set broker-a fileReservedTime=96" in preview.text
        assert (await rig.admin.brokers.config("broker-a"))["fileReservedTime"] == "72"
        change = {"key": "fileReservedTime", "value": "96", "before": "72"}
        said = await rig.act("/brokers/broker-a/settings/change", change)
        assert "fileReservedTime of broker-a is 96 now" in said
        assert (await rig.admin.brokers.config("broker-a"))["fileReservedTime"] == "96"


async def test_a_setting_that_changed_meanwhile_is_left_alone() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.brokers.update_config("broker-a", {"fileReservedTime": "48"})
        change = {"key": "fileReservedTime", "value": "96", "before": "72"}
        response = await rig.post("/brokers/broker-a/settings/change", change)
        assert response.status_code == 400 and "became 48 meanwhile" in response.text
        assert (await rig.admin.brokers.config("broker-a"))["fileReservedTime"] == "48"


@pytest.mark.parametrize(
    ("key", "value"), [("brokerName", "x"), ("fileReservedTime", "0"), ("quotas", "a\nb=c"), ("", "")]
)
async def test_other_settings_and_odd_values_are_refused(key: str, value: str) -> None:
    async with ConsoleRig() as rig:
        for verb in ("preview", "change"):
            response = await rig.post(f"/brokers/broker-a/settings/{verb}", key=key, value=value)
            assert response.status_code in REFUSED
        response = await rig.api("PATCH", "/brokers/broker-a/settings", json={"settings": {key: value}})
        assert response.status_code in REFUSED


async def test_the_api_previews_too() -> None:
    async with ConsoleRig() as rig:
        body = {"settings": {"fileReservedTime": "24"}, "preview": True}
        told = (await rig.api("PATCH", "/brokers/broker-a/settings", json=body)).json()
        assert told == {"changes": [{"key": "fileReservedTime", "before": "72", "after": "24"}], "is_done": False}
        assert (await rig.admin.brokers.config("broker-a"))["fileReservedTime"] == "72"
        assert (await rig.api("PATCH", "/brokers/broker-a/settings", json={**body, "preview": False})).json()["is_done"]
        settings = (await rig.api("GET", "/brokers/broker-a/settings")).json()
        assert settings["settings"]["fileReservedTime"] == "24" and settings["changeable"]


# --- store ---


async def test_the_store_is_shown(tmp_path: Path) -> None:
    broker = LoopbackBroker(BrokerSettings(store=SMALL_FILES), folder=tmp_path)
    async with ConsoleRig(broker=broker) as rig:
        await (await rig.producer()).send(Message("t", b"x"))
        page = await rig.page("/store")
        assert "00000000000000000000" in page and "being written" in page and str(tmp_path) in page
        told = (await rig.api("GET", "/brokers/broker-a/store")).json()
        assert told["facts"]["segment_count"] == 1 and told["forecast"]["full_in_ms"] is None
        assert (await rig.get("/store", broker="nobody")).status_code == 404
        assert (await rig.api("GET", "/brokers/127.0.0.1:1/store")).status_code == 404


# --- pipelines ---


async def test_queries_are_shown_with_their_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_PIPELINES_FOLDER", str(tmp_path))
    async with ConsoleRig() as rig:
        assert "No query has reported" in await rig.page("/pipelines")
        await rig.admin.topics.create("orders")
        await rig.admin.groups.create("reports")
        await rig.admin.offsets.reset("reports", "orders")  # as a query does when it begins
        progress = {"id": "q-1", "name": XSS, "batchId": 3, "numInputRows": 12, "sink": {"description": XSS}}
        here = SourceReport(group="reports", nameserver=rig.broker.nameserver, topics=("orders",))
        elsewhere = SourceReport(group="others", nameserver="10.9.8.7:9876")
        reports = QueryReports()
        reports.progressed(progress, (here,))
        reports.progressed({**progress, "id": "q-2", "name": "far"}, (elsewhere,))
        page = await rig.page("/pipelines")
        assert "reports" in page and "of another cluster, 10.9.8.7:9876" in page and "<script>alert" not in page
        page = await rig.page("/pipelines/q-1")
        assert "running" in page and "<script>alert" not in page
        reports.ended("q-1", "the handler failed")
        assert "the handler failed" in await rig.page("/pipelines/q-1")
        assert (await rig.get("/pipelines/nobody")).status_code == 404
        told = (await rig.api("GET", "/pipelines")).json()
        by_id = {each["report"]["id"]: each for each in told["queries"]}
        assert (by_id["q-1"]["groups"][0]["lag"], by_id["q-1"]["groups"][0]["dead"]) == (0, 0), by_id["q-1"]


# --- users and audit ---

GUARDED = AccessSettings(
    enabled=True,
    initial_user=Secret(json.dumps({"username": "ops", "password": "ops-secret-text"})),
    inner_credentials=Secret(json.dumps({"accessKey": "inner", "secretKey": "inner-secret-text"})),
)


async def test_without_access_control_the_pages_say_so() -> None:
    async with ConsoleRig() as rig:
        page = await rig.page("/users")
        assert "access control is off here" in page and "New user" not in page
        told = (await rig.api("GET", "/users")).json()
        assert told["users"] == [] and "access control is off" in told["closed"]


async def test_a_console_without_rights_says_that_it_has_none_and_how_it_gets_some() -> None:
    broker = LoopbackBroker(BrokerSettings(store=SMALL_FILES, access=GUARDED))
    async with ConsoleRig(broker=broker) as rig:
        page = await rig.page("/users")
        assert "This console has no rights to see users" in page and "PYROMQ_ACCESS_KEY" in page
        assert "This cluster has no users" not in page
        assert (await rig.api("GET", "/users")).json()["is_refused"] is True


@pytest.fixture
def as_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The console signs its requests as this user."""
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", "ops")
    monkeypatch.setenv("PYROMQ_SECRET_KEY", "ops-secret-text")


async def test_a_user_is_created_given_a_role_tested_and_deleted(as_operator: None) -> None:
    broker = LoopbackBroker(BrokerSettings(store=SMALL_FILES, access=GUARDED))
    async with ConsoleRig(broker=broker) as rig:
        said = await rig.act("/users", name="billing", type="normal")
        (password,) = re.findall(r'<p class="secret"><code>([^<]+)</code>', said)
        assert len(password) >= 24 and "shown this once" in said
        assert password not in await rig.page("/users/billing"), "it is not shown a second time"
        said = await rig.act("/users/billing/template", template="consumer", topics="orders, paid*", groups="billing")
        assert "entries of the role consumer" in said and "Topic:paid*" in said
        test = await rig.page("/users/billing", action="Sub", resource="Topic:orders")
        assert "<strong>Yes:</strong>" in test and "pyromq acl test billing Sub Topic:orders" in test
        assert "<strong>No:</strong>" in await rig.page("/users/billing", action="Pub", resource="Topic:orders")
        assert "said bad" in await rig.page("/users/billing", action="Fly", resource="Topic:orders")
        fields = [("resource", "Topic:secret"), ("actions", "Pub"), ("actions", "Sub"), ("decision", "deny")]
        said = await rig.act("/users/billing/policy", [*fields, ("sources", "10.0.0.0/8")])
        assert "Deny" in said and "10.0.0.0/8" in said
        said = await rig.act("/users/billing/policy/delete", resource="Topic:secret")
        assert "Topic:secret is deleted" in said
        renewed = await rig.act("/users/billing/password")
        assert password not in renewed and "shown this once" in renewed
        assert "not let in" in await rig.act("/users/billing/status", status="disable")
        assert "disabled" in await rig.page("/users/billing")
        assert (await rig.post("/users/billing/status", status="x")).status_code == 400
        assert "are deleted" in await rig.act("/users/billing/delete")
        assert (await rig.get("/users/billing")).status_code == 404
        audit = await rig.page("/audit", outcome="done")
        assert "auth create user" in audit and password not in audit
        assert (await rig.api("GET", "/audit?outcome=done")).json()["entries"]


async def test_the_api_of_users(as_operator: None) -> None:
    broker = LoopbackBroker(BrokerSettings(store=SMALL_FILES, access=GUARDED))
    async with ConsoleRig(broker=broker) as rig:
        made = (await rig.api("POST", "/users", json={"name": "job"})).json()
        assert made["name"] == "job" and len(made["password"]) >= 24
        role = {"template": "producer", "topics": ["orders"]}
        assert (await rig.api("POST", "/users/job/role", json=role)).json()["entries"]
        policy = {"resource": "Topic:paid", "actions": ["Pub"]}
        (entry,) = (await rig.api("PUT", "/users/job/policies", json=policy)).json()["entries"]
        assert entry["resource"] == "Topic:paid" and entry["allows"]
        verdict = (await rig.api("GET", "/users/job/access?action=Pub&resource=Topic:orders")).json()
        assert verdict["allowed"] and verdict["entry"]
        assert (await rig.api("DELETE", "/users/job/policies?resource=Topic:paid")).status_code == 204
        assert (await rig.api("PATCH", "/users/job", json={"is_enabled": False})).status_code == 204
        assert (await rig.api("POST", "/users/job/password")).json()["password"]
        users = (await rig.api("GET", "/users")).json()
        assert {each["name"]: each["is_enabled"] for each in users["users"]}["job"] is False
        assert (await rig.api("DELETE", "/users/job")).status_code == 204
        assert (await rig.api("DELETE", "/users/job")).status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/users", "/users/ops/password", "/users/ops/delete", "/users/ops/policy", "/brokers/broker-a/settings/change"],
)
async def test_a_reader_and_a_stranger_change_nothing(path: str) -> None:
    async with ConsoleRig() as rig:
        assert (await rig.viewer.post(path, name="x", key="fileReservedTime", value="1")).status_code == 403
        assert (await rig.stranger.post(path, name="x")).status_code in (303, 401, 403)
        assert (await rig.admin.brokers.config("broker-a"))["fileReservedTime"] == "72"


async def test_hostile_names_stay_text(as_operator: None) -> None:
    from urllib.parse import quote

    broker = LoopbackBroker(BrokerSettings(store=SMALL_FILES, access=GUARDED))
    async with ConsoleRig(broker=broker) as rig:
        for path in (
            f"/users/{quote(XSS, safe='')}",
            f"/audit?user={quote(XSS)}&resource={quote(XSS)}",
            f"/delays?topic={quote(XSS)}&q={quote(XSS)}",
        ):
            response = await rig.get(path)
            assert "<script>alert" not in response.text and "onerror=alert(1)>" not in response.text


async def test_command_lines_are_ones_that_pyromq_takes(as_operator: None) -> None:
    broker = LoopbackBroker(BrokerSettings(store=SMALL_FILES, access=GUARDED))
    async with ConsoleRig(broker=broker) as rig:
        await (await rig.producer()).send(Message("later", b"x", delay_ms=HOUR_MS))
        await rig.admin.access.create_user("billing", "some-password")
        seen = 0
        for path in (
            "/delays",
            "/delays?topic=a+b",
            "/transactions",
            "/brokers",
            "/brokers/broker-a",
            "/brokers/broker-a/settings",
            "/store",
            "/users",
            "/users/billing?action=Sub&resource=Topic:orders&ip=10.0.0.1",
            "/audit?user=a&resource=Topic:x&since=1+h",
        ):
            for line in lines_of(await rig.page(path)):
                parsed(line)
                seen += 1
        assert seen >= 14


# --- replication ---


async def test_a_broker_without_replicas_says_what_a_replica_would_be() -> None:
    async with ConsoleRig() as rig:
        page = await rig.page("/replication")
        assert "No broker has a replica" in page and "--role replica" in page
        told = (await rig.api("GET", "/replication")).json()
        assert [each["role"] for each in told["copies"]] == ["alone"]
