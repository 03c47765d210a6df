"""Each face of the cluster, read back into the same facts about groups: a face tells some, and never another number."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from pyromq.aio import Admin
from pyromq.cli.main import main
from pyromq.console.app import create_app
from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.settings import ConsoleSettings, ScryptCost
from pyromq.exporter.exporter import Exporter
from pyromq.metrics.exposition import whole_text
from pyromq.metrics.samples import ServerSamples
from pyromq.security.secret import Secret
from tests.every_face.reading import Page, Series, series_in, table_rows
from tests.every_face.scenario import TRUTH, Scene

Facts = dict[str, dict[str, Any]]
"""By group, some of: lag, retrying, dead_letters, letters_total, members, is_enabled, is_broadcast, disagreeing."""

TOKEN = "t" * 40
_NUMBERS = ("lag", "retrying", "dead_letters", "members")


def typed(nameserver: str, *words: str, codes: Iterable[int] = (0,)) -> tuple[str, str]:
    """What a command writes to its outputs."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words, "-n", nameserver])
    assert code in codes, f"{words}: {code} {err.getvalue()}"
    return out.getvalue(), err.getvalue()


def rows_of(nameserver: str, *words: str) -> Any:
    return json.loads(typed(nameserver, *words, "-o", "json")[0])


def _count(text: str) -> int | None:
    return int(text.replace(",", "")) if text.replace(",", "").isdecimal() else None


# --- command line --------------------------------------------------------------------------------------------------


def group_ls_json(scene: Scene) -> Facts:
    return {
        row["group"]: {
            **{name: row[name] for name in _NUMBERS},
            "is_enabled": not row["is_paused"],
            "is_broadcast": row["is_broadcasting"],
        }
        for row in rows_of(scene.nameserver, "group", "ls")
    }


def group_ls_table(scene: Scene) -> Facts:
    rows = table_rows(typed(scene.nameserver, "group", "ls", "-o", "table")[0])
    return {row["group"]: _of_table(row) for row in rows}


def _of_table(row: dict[str, str]) -> dict[str, Any]:
    names = {"lag": "lag", "retrying": "retrying", "dead": "dead_letters", "members": "members"}
    return {
        **{names[title]: _count(row[title]) for title in names if title in row},
        "is_enabled": "paused" not in row["state"],
        "is_broadcast": "broadcasting" in row["model"],
    }


def group_describe_json(scene: Scene) -> Facts:
    told = {group: rows_of(scene.nameserver, "group", "describe", group) for group in TRUTH.groups}
    return {group: _of_state(state) for group, state in told.items()}


def _of_state(state: dict[str, Any]) -> dict[str, Any]:
    """What ``group describe`` or the HTTP API says of one group."""
    assert sum(max(0, queue["lag"]) for queue in state["queues"]) == state["lag"], "queues add up to the group"
    return {
        "lag": state["lag"],
        "members": len(state["members"]),
        "disagreeing": sum(member["agrees"] is False for member in state["members"]),
        "is_enabled": not state["is_paused"],
        "is_broadcast": state["is_broadcasting"],
    }


def group_lag_json(scene: Scene) -> Facts:
    told = {group: rows_of(scene.nameserver, "group", "lag", group) for group in TRUTH.groups}
    return {group: {"lag": sum(row["lag"] for row in rows)} for group, rows in told.items()}


def top(scene: Scene) -> Facts:
    text = typed(scene.nameserver, "top", "--once")[0]
    groups = next(part for part in text.split("\n\n") if part.startswith("group"))
    return {row["group"]: _of_table(row) for row in table_rows(groups)}


def letters_json(scene: Scene) -> Facts:
    rows = rows_of(scene.nameserver, "dlq", "ls", "bills", "--messages")
    waiting = sum(not row["is_redriven"] for row in rows)
    return {"bills": {"letters_total": len(rows), "dead_letters": waiting}}


# --- mqadmin -------------------------------------------------------------------------------------------------------


def mqadmin_progress(scene: Scene) -> Facts:
    rows = table_rows(typed(scene.nameserver, "mqadmin", "consumerProgress")[0])
    return {
        row["#Group"]: {
            "members": int(row["#Count"]),
            "lag": _count(row["#Diff Total"]),
            "is_broadcast": row["#Model"] == "BROADCASTING",
        }
        for row in rows
    }


def mqadmin_groups(scene: Scene) -> Facts:
    """``consumerProgress``, ``consumerConnection`` and ``getConsumerConfig`` of one group after the other."""
    found: Facts = {}
    for group, truth in TRUTH.groups.items():
        progress = typed(scene.nameserver, "mqadmin", "consumerProgress", "-g", group)[0]
        config = typed(scene.nameserver, "mqadmin", "getConsumerConfig", "-g", group)[0]
        total = next(line for line in progress.splitlines() if line.startswith("Consume Diff Total"))
        enabled = next(line for line in config.splitlines() if line.startswith("consumeEnable"))
        found[group] = {"lag": int(total.rpartition(" ")[2]), "is_enabled": enabled.endswith("true")}
        if truth.members:
            told = typed(scene.nameserver, "mqadmin", "consumerConnection", "-g", group)[0]
            members = table_rows(told.split("\n\n")[0])
            status = typed(scene.nameserver, "mqadmin", "consumerStatus", "-g", group)[0]
            found[group] |= {"members": len(members), "disagreeing": int("WARN: Different" in status)}
            found[group]["is_broadcast"] = "MessageModel: BROADCASTING" in told
    return found


# --- console -------------------------------------------------------------------------------------------------------


class Console:
    """The console on a loop of its own, asked without sockets: ``with_console(nameserver, work)``."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def api(self, path: str) -> Any:
        response = await self._http.get(f"/api/v1{path}")
        assert response.status_code == 200, f"{path}: {response.status_code} {response.text[:300]}"
        return response.json()

    async def page(self, path: str) -> Page:
        response = await self._http.get(path)
        assert response.status_code == 200, f"{path}: {response.status_code} {response.text[:300]}"
        return Page(response.text)


def with_console(nameserver: str, work: Callable[[Console], Any]) -> Any:
    async def run() -> Any:
        settings = ConsoleSettings(
            nameservers=nameserver,
            password=Secret("the operator's password"),
            token=Secret(TOKEN),
            scrypt=ScryptCost(n=2, r=1, p=1),
            first_paint_ms=60_000,
        )
        console = create_app(settings)
        headers = {"Authorization": f"Bearer {TOKEN}", "Origin": "http://127.0.0.1:8082"}
        transport = httpx.ASGITransport(app=console, raise_app_exceptions=False)
        async with console.desk as desk:
            session = desk.sessions.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR))
            cookies = {"pyromq_console_8082": session.id}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:8082", headers=headers, cookies=cookies, timeout=60
            ) as http:
                return await work(Console(http))

    return asyncio.run(run())


async def api_groups(console: Console) -> Facts:
    return {
        row["group"]: {
            **{name: row[name] for name in _NUMBERS},
            "is_enabled": not row["is_paused"],
            "is_broadcast": row["is_broadcasting"],
            "disagreeing": row["mismatched"],
        }
        for row in (await console.api("/groups?size=100"))["groups"]
    }


async def api_each_group(console: Console) -> Facts:
    return {group: _of_state(await console.api(f"/groups/{group}")) for group in TRUTH.groups}


async def api_letters(console: Console) -> Facts:
    found = (await console.api("/dead-letters"))["groups"]
    return {row["group"]: {"dead_letters": row["waiting"], "letters_total": row["total"]} for row in found}


async def page_of_groups(console: Console) -> Facts:
    page = await console.page("/groups")
    found: Facts = {}
    for row in page.table("Members"):
        name, _, badges = row["Group"].partition(" ")
        found[name] = {
            "lag": _count(row["Lag"]),
            "members": _count(row["Members"]) or 0,
            "dead_letters": _count(row["Dead letters"]),
            "is_enabled": "paused" not in badges,
            "is_broadcast": "broadcasting" in badges,
            "disagreeing": int("subscriptions differ" in badges),
        }
    return found


async def page_of_each_group(console: Console) -> Facts:
    found: Facts = {}
    for group in TRUTH.groups:
        page = await console.page(f"/groups/{group}")
        found[group] = {
            "lag": _count(page.stats["Lag"]),
            "retrying": _count(page.stats["Retries"]),
            "dead_letters": _count(page.stats["Dead letters"]),
            "members": _count(page.stats["Members"]),
            "is_enabled": "This group is paused" not in page.text,
            "disagreeing": sum("differs" in "".join(row.values()) for row in page.tables[0] if "Member" in row),
        }
    return found


# --- metrics -------------------------------------------------------------------------------------------------------


def exporter_text(nameserver: str) -> str:
    """One round of the exporter."""

    async def run() -> str:
        async with Admin(nameserver) as admin:
            exporter = Exporter(admin)
            await exporter.refresh()
            return whole_text(_parts(exporter)).decode()

    return asyncio.run(run())


def _parts(exporter: Exporter) -> list[ServerSamples]:
    steps = exporter.collect()
    while True:
        try:
            next(steps)
        except StopIteration as over:
            parts: list[ServerSamples] = over.value
            return parts


def of_metrics(series: Series) -> Facts:
    """Lag and members, as the broker or the exporter measures them."""
    lag, retrying, members, odd = Counter[str](), Counter[str](), Counter[str](), dict[str, int]()
    for labels, value in series["rocketmq_consumer_lag_messages"].items():
        own = dict(labels)
        lag[own["consumer_group"]] += int(value)
        retrying[own["consumer_group"]] += int(value) if own["is_retry"] == "true" else 0
    for labels, value in series["rocketmq_consumer_connections"].items():
        members[dict(labels)["consumer_group"]] += int(value)
    for labels, value in series["pyromq_subscription_mismatches"].items():
        odd[dict(labels)["consumer_group"]] = int(value)
    found: Facts = {}
    for group, truth in TRUTH.groups.items():
        found[group] = {"members": members[group], "disagreeing": odd.get(group, 0)}
        if not truth.is_broadcast:
            found[group] |= {"lag": lag[group], "retrying": retrying[group]}
    return found


def exporter(scene: Scene) -> Facts:
    series = series_in(exporter_text(scene.nameserver))
    found = of_metrics(series)
    for labels, value in series["rocketmq_group_dlqdiff"].items():
        found[dict(labels)["group"]]["letters_total"] = int(value)
    return found
