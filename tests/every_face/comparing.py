"""Every face against the truth of the scenario: which facts a face must tell, and what it told instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.every_face import faces
from tests.every_face.faces import Console, Facts, rows_of, typed, with_console
from tests.every_face.reading import Page, series_in
from tests.every_face.scenario import ERROR, TRUTH, Scene

LISTED: Final = ("lag", "retrying", "dead_letters", "members", "is_enabled", "is_broadcast")
DESCRIBED: Final = ("lag", "members", "is_enabled", "is_broadcast", "disagreeing")
BY_BROKERS: Final = "what brokers know: the lag of a group that broadcasts is left out"
BY_MEMBERS: Final = "members are asked, too"


@dataclass(frozen=True, slots=True)
class Face:
    """What a face told, which facts it must tell of every group, and whether it asks members."""

    name: str
    told: Facts
    facts: tuple[str, ...]
    knows: str = BY_BROKERS


def differences(face: Face, *, brokers_compare: bool = True) -> list[str]:
    """What a face says otherwise, or does not say; empty when it shows the truth.

    ``brokers_compare`` False: brokers do not say which members subscribe to something else, so lists cannot.
    """
    found = []
    for group, truth in TRUTH.groups.items():
        if group not in face.told:
            found.append(f"{face.name}: group {group} is missing")
            continue
        for fact in face.facts:
            expected: Any = getattr(truth, fact)
            if fact == "lag" and truth.is_broadcast and face.knows is BY_BROKERS:
                expected = None
            if fact == "disagreeing" and not brokers_compare and face.knows is BY_BROKERS:
                expected = 0
            if fact == "retrying" and truth.is_broadcast:
                continue  # members that broadcast retry nothing; faces leave it out or say 0
            shown = face.told[group].get(fact)
            if shown != expected:
                found.append(f"{face.name}: {fact} of {group} is {shown!r}, in truth {expected!r}")
    return found


def command_line_faces(scene: Scene) -> list[Face]:
    return [
        Face("group ls -o json", faces.group_ls_json(scene), LISTED),
        Face("group ls", faces.group_ls_table(scene), LISTED),
        Face("group describe -o json", faces.group_describe_json(scene), DESCRIBED, BY_MEMBERS),
        Face("group lag -o json", faces.group_lag_json(scene), ("lag",), BY_MEMBERS),
        Face("top --once", faces.top(scene), ("lag", "dead_letters", "members", "is_enabled", "is_broadcast")),
        Face("mqadmin consumerProgress", faces.mqadmin_progress(scene), ("members", "lag", "is_broadcast")),
        Face("mqadmin consumerProgress -g", faces.mqadmin_groups(scene), ("lag", "is_enabled"), BY_MEMBERS),
    ]


def metric_faces(scene: Scene, broker_metrics: str = "") -> list[Face]:
    measured = ("lag", "retrying", "members", "disagreeing")
    found = [Face("exporter", faces.exporter(scene), measured)]
    if broker_metrics:
        found.append(Face("/metrics of the broker", faces.of_metrics(series_in(broker_metrics)), measured))
    return found


def console_faces(scene: Scene) -> list[Face]:
    async def look(console: Console) -> list[Face]:
        described = ("lag", "retrying", "dead_letters", "members", "is_enabled", "disagreeing")
        on_page = ("lag", "dead_letters", "members", "is_enabled", "is_broadcast", "disagreeing")
        return [
            Face("API /groups", await faces.api_groups(console), LISTED),
            Face("API /groups/{group}", await faces.api_each_group(console), DESCRIBED, BY_MEMBERS),
            Face("page /groups", await faces.page_of_groups(console), on_page),
            Face("page /groups/{group}", await faces.page_of_each_group(console), described, BY_MEMBERS),
        ]

    shown: list[Face] = with_console(scene.nameserver, look)
    return shown


def letters_differ(scene: Scene) -> list[str]:
    """Dead letters: how many wait, how many there are."""
    waiting = {group: truth.dead_letters for group, truth in TRUTH.groups.items() if truth.dead_letters}

    async def look(console: Console) -> Facts:
        return await faces.api_letters(console)

    told: Mapping[str, Facts] = {"dlq ls": faces.letters_json(scene), "API": with_console(scene.nameserver, look)}
    found = []
    for name, facts in told.items():
        shown = {group: (each["dead_letters"], each["letters_total"]) for group, each in facts.items()}
        if shown != {group: (waiting[group], total) for group, total in TRUTH.letters_total.items()}:
            found.append(f"{name}: dead letters {shown}")
    summary = typed(scene.nameserver, "dlq", "ls", "bills")[1]
    if "5 dead letters, 3 waiting" not in summary:
        found.append(f"dlq ls says {summary!r}")
    exported = faces.exporter(scene)["bills"]["letters_total"]
    if exported != TRUTH.letters_total["bills"]:
        found.append(f"exporter: rocketmq_group_dlqdiff is {exported}")
    return found


def counts_differ(scene: Scene) -> list[str]:
    """Delayed messages and open transactions, on the command line and in the console."""

    async def look(console: Console) -> dict[str, int]:
        return {
            "API delays": len((await console.api("/delays"))["messages"]),
            "API transactions": len((await console.api("/transactions"))["messages"]),
            "page delays": len((await console.page("/delays")).table("Topic")),
            "page transactions": len((await console.page("/transactions")).table("Topic")),
        }

    told: dict[str, int] = with_console(scene.nameserver, look)
    told["delay ls"] = len(rows_of(scene.nameserver, "delay", "ls"))
    told["tx ls"] = len(rows_of(scene.nameserver, "tx", "ls"))
    expected = {name: TRUTH.delayed if "delay" in name else TRUTH.open_transactions for name in told}
    return [f"{name}: {count}, in truth {expected[name]}" for name, count in told.items() if count != expected[name]]


def doctor_misses(scene: Scene) -> list[str]:
    """Doctor names who and what, at once; the console's health page and API say the same."""
    rows = rows_of_doctor(scene)
    texts = {row["about"]: "" for row in rows}
    for row in rows:
        texts[row["about"]] += row["text"] + "\n"
    wanted = {
        "group CID_orders": ["8 messages left, and no member is connected"],
        "group bills": ["3 dead letters"],
        "group parcels": ["paused, with 1 member connected and 3 messages left"],
        "group mixed": ["@mixed-", "Mixed (a)", "Mixed (b)"],
        "group steps": ["held up by a message that failed", ERROR, "3 messages left"],
        "group slow": ["flow control holds back pulls of 1 member", "@slow-1: messages", "10 messages left"],
    }
    alarms = [f"doctor says of {about}: {texts[about]}" for about in ("group picky", "group pair") if about in texts]
    return alarms + [
        f"doctor says nothing of {part!r} about {about}: {texts.get(about, '')!r}"
        for about, parts in wanted.items()
        for part in parts
        if part not in texts.get(about, "")
    ]


def rows_of_doctor(scene: Scene) -> list[dict[str, str]]:
    return list(json.loads(typed(scene.nameserver, "doctor", "-o", "json", codes=(0, 5))[0]))


def held_up_differs(scene: Scene) -> list[str]:
    """The orderly queue that is held up: error and attempts in describe, explain, API and page."""

    async def look(console: Console) -> tuple[Any, Page]:
        return await console.api("/groups/steps"), await console.page("/groups/steps")

    described = rows_of(scene.nameserver, "group", "describe", "steps")
    api, page = with_console(scene.nameserver, look)
    found = []
    for name, told in (("group describe", described), ("API", api)):
        head = next(queue for queue in told["queues"] if queue["topic"] == "Steps")
        if head["error"] != ERROR or head["attempt"] < 3 or head["message_id"] != scene.held_up_id:
            found.append(f"{name}: the head of the queue is {head}")
    if ERROR not in page.text or not any(link.endswith(scene.held_up_id) for link in page.links):
        found.append("page /groups/steps does not say why the queue is held up")
    story = explained(scene, "Steps", scene.held_up_id)
    if ERROR not in story["text"] or story["failures"] < 3 or story["state"] != "retrying":
        found.append(f"message explain: {story}")
    return found


def explained(scene: Scene, topic: str, message_id: str) -> dict[str, Any]:
    """What ``message explain`` says of a message in the group of its topic."""
    (story,) = rows_of(scene.nameserver, "message", "explain", message_id, "--topic", topic)["groups"]
    return dict(story)


def stories_differ(scene: Scene, *, traced: bool = True) -> list[str]:
    """Explain: redriven, consumed twice by two members, delayed, prepared."""
    found = []
    redriven = explained(scene, "Bills", scene.redriven_id)
    if redriven["state"] != "consumed" or "redriven at" not in redriven["text"]:  # its copy was
        found.append(f"explain of a redriven message: {redriven}")
    if traced:
        twice = explained(scene, "News", scene.twice_id)
        if "Consumed twice, by " not in twice["text"] or len(set(twice["members"])) != 2:
            found.append(f"explain of what two members consumed: {twice}")
        rows = rows_of(scene.nameserver, "message", "trace", scene.twice_id)
        hosts = {row["client_host"] for row in rows if row["event"] == "consume ended"}
        if hosts != set(twice["members"]):
            found.append(f"message trace names {hosts}, explain {twice['members']}")
    for topic, message_id, state in (
        ("Later", scene.delayed_id, "delayed"),
        ("Promises", scene.prepared_id, "prepared"),
    ):
        told = rows_of(scene.nameserver, "message", "explain", message_id, "--topic", topic)
        if told["state"] != state:
            found.append(f"explain: {told['state']}, in truth {state}")
    return found


def members_differ(scene: Scene) -> list[str]:
    """Who subscribes to what, how far members that broadcast are, how long listeners take."""

    async def look(console: Console) -> Page:
        return await console.page("/groups/steps")

    (row,), (fails,) = (
        with_console(scene.nameserver, look).table("Failed/s"),
        rows_of(scene.nameserver, "group", "describe", "steps")["members"],
    )
    found = []
    if not (fails["failed_rate"] > 0 and fails["consume_ms"] > 0):  # it is tried every second, for as long as this runs
        found.append(f"group describe steps tells no rates: {fails}")
    if not (float(row["Failed/s"]) > 0 and float(row["Ms each"]) >= 0):
        found.append(f"page /groups/steps tells no rates: {row}")
    mixed = rows_of(scene.nameserver, "group", "describe", "mixed")["members"]
    if sorted(member["subscribes_to"] for member in mixed) != ["Mixed (a)", "Mixed (b)"]:
        found.append(f"group describe mixed: {mixed}")
    news = rows_of(scene.nameserver, "group", "describe", "news")["members"]
    lags = {member["client_id"].rpartition("@")[2]: member["lag"] for member in news}
    if lags != TRUTH.lag_of_members:
        found.append(f"group describe news: {lags}")
    status = typed(scene.nameserver, "mqadmin", "consumerStatus", "-g", "news", "-i", news[0]["client_id"])[0]
    sections = ("#Consumer Properties#", "#Consumer Subscription#", "#Consumer Offset#", "#Consumer MQ Detail#")
    found += [f"consumerStatus has no {each}" for each in (*sections, "#Consumer RT&TPS#") if each not in status]
    if "QueueInfo(" in status:
        found.append("consumerStatus shows Python's own forms")
    return found
