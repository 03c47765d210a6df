"""Names of a megabyte: nothing of them stays, neither in memory nor in the audit log nor in responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import Command
from pyromq.wire.headers import REQUEST_HEADERS
from tests.hostile.every_request import request_of, served_codes
from tests.hostile.rig import ACCESS_CONTROL, ROOT, Peer, Victim, beside_honest_client, count, signed, victim

pytestmark = pytest.mark.integration

Record = Callable[[str, object], None]
LONG: Final = 1_000_000  # characters; a header of more than 1.25 MiB is refused as a whole
GROWTH_MB_MAX: Final = 40  # buffers of a few such requests, and what Python keeps of them
REMARK_CHARACTERS_MAX: Final = 4_096
AUDIT_BYTES_MAX: Final = 2 << 20
NO_RIGHTS: Final = ("mallory", "mallory-secret")
REQUESTS: Final = count(120, 1_000)
NAMES_IN_BODIES: Final = (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)


def name(number: int) -> str:
    return f"{number:07}".ljust(LONG, "x")


def fields_of(code: Code, topic: str = "honest", group: str = "g") -> dict[str, str]:
    """The fields that the code knows, so that a long name stands in one of them, and the header is read."""
    if code is Code.PUT_KV_CONFIG:
        return {"namespace": topic, "key": "k", "value": "v"}
    header = REQUEST_HEADERS.get(code)
    known = {each.encode_name for each in msgspec.structs.fields(header)} if header else set()
    return {key: value for key, value in request_of(code, topic, group)[0].items() if key in known}


def longest_line(server: Victim) -> int:
    return max(map(len, server.log.splitlines()), default=0)


async def create_user(address: str) -> None:
    """One that may do nothing."""
    user, secret = NO_RIGHTS
    body = json.dumps({"username": user, "password": secret, "userType": "Normal"}).encode()
    async with Peer(address) as peer:
        assert (await peer.ask(Code.AUTH_CREATE_USER, signed({"username": user}, body, *ROOT), body)).code == 0


def audit_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("audit-*.jsonl"))


def is_refused_briefly(answer: Command) -> bool:
    return answer.code == ResponseCode.NO_PERMISSION and len(answer.remark or "") <= REMARK_CHARACTERS_MAX


@pytest.mark.parametrize("which", ["broker", "nameserver"])
async def test_strangers_with_long_access_keys_leave_nothing(
    which: str, tmp_path: Path, record_property: Record
) -> None:
    async with victim(tmp_path, *ACCESS_CONTROL) as server:
        address = server.broker if which == "broker" else server.nameserver
        what = f"unknown users, AccessKey of 1 MB ({which}, access control)"
        async with (
            beside_honest_client(server, what, REQUESTS, record_property, *ROOT) as attack,
            Peer(address) as peer,
        ):
            for number in range(REQUESTS):
                stranger = {"topic": "t", "AccessKey": name(number), "Signature": "AAAA"}
                assert is_refused_briefly(await peer.ask(Code.GET_ROUTEINFO_BY_TOPIC, stranger))
        assert attack.after_mb - attack.before_mb < GROWTH_MB_MAX
        assert audit_bytes(tmp_path) < AUDIT_BYTES_MAX
        assert longest_line(server) < REMARK_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("which", "codes"),
    [
        ("broker", (Code.SEND_MESSAGE, Code.PULL_MESSAGE, Code.UPDATE_AND_CREATE_TOPIC)),
        ("nameserver", (Code.GET_ROUTEINFO_BY_TOPIC, Code.PUT_KV_CONFIG)),
    ],
)
async def test_users_without_rights_to_long_topics_leave_nothing(
    which: str, codes: tuple[Code, ...], tmp_path: Path, record_property: Record
) -> None:
    async with victim(tmp_path, *ACCESS_CONTROL) as server:
        address = server.broker if which == "broker" else server.nameserver
        await create_user(address)
        what = f"a user without rights, topics of 1 MB ({which}, access control)"
        async with (
            beside_honest_client(server, what, REQUESTS, record_property, *ROOT) as attack,
            Peer(address) as peer,
        ):
            for number in range(REQUESTS):
                code = codes[number % len(codes)]
                fields = fields_of(code, name(number))
                assert is_refused_briefly(await peer.ask(code, signed(fields, b"", *NO_RIGHTS))), code
        assert attack.after_mb - attack.before_mb < GROWTH_MB_MAX
        assert audit_bytes(tmp_path) < AUDIT_BYTES_MAX
        assert longest_line(server) < REMARK_CHARACTERS_MAX


async def test_long_names_in_requests_of_every_code_leave_nothing(tmp_path: Path, record_property: Record) -> None:
    """Without access control, so that handlers see them."""
    codes = [code for code in served_codes() if code not in (Code.UPDATE_BROKER_CONFIG, Code.HEART_BEAT)]
    requests = count(1, 8) * len(codes)
    async with victim(tmp_path) as server:
        what = "requests of all codes with names of 1 MB"
        async with beside_honest_client(server, what, requests, record_property) as attack, Peer(server.broker) as peer:
            for number in range(requests):
                code = codes[number % len(codes)]
                body = b"" if code in NAMES_IN_BODIES else request_of(code, "honest", "g")[1]
                answer = await peer.ask(code, fields_of(code, name(number)), body)
                assert len(answer.remark or "") <= REMARK_CHARACTERS_MAX, code
        assert attack.after_mb - attack.before_mb < GROWTH_MB_MAX
        assert audit_bytes(tmp_path) < AUDIT_BYTES_MAX
        assert longest_line(server) < REMARK_CHARACTERS_MAX


async def test_names_that_are_refused_without_access_control_leave_nothing(
    tmp_path: Path, record_property: Record
) -> None:
    async with victim(tmp_path) as server:
        what = "sends to and pulls of names of 1 MB, subscriptions of 1 MB"
        async with beside_honest_client(server, what, REQUESTS, record_property) as attack, Peer(server.broker) as peer:
            for number in range(REQUESTS):
                text = name(number)
                attempts = (
                    (Code.SEND_MESSAGE, fields_of(Code.SEND_MESSAGE, text)),
                    (Code.PULL_MESSAGE, fields_of(Code.PULL_MESSAGE, text)),
                    (Code.PULL_MESSAGE, fields_of(Code.PULL_MESSAGE, group=text)),
                    (Code.PULL_MESSAGE, fields_of(Code.PULL_MESSAGE) | {"subscription": text}),
                )
                answer = await peer.ask(*attempts[number % len(attempts)])
                assert answer.code != 0 and len(answer.remark or "") <= REMARK_CHARACTERS_MAX, answer.remark
        assert attack.after_mb - attack.before_mb < GROWTH_MB_MAX
