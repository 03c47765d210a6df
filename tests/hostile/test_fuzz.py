"""All request codes with hostile field values: every request is answered, or its connection closed with a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.store.files.disk import RealDisk
from pyromq.store.settings import StoreSettings
from pyromq.wire.codes import RequestCode, ResponseCode
from tests.derived_again import assert_derived_again
from tests.hostile.fuzz import ACL_FLAGS, USERS, fuzz, request_of
from tests.hostile.rig import beside_honest_client, count, victim

pytestmark = pytest.mark.integration

SEED = 1
GROWTH_MB_MAX = 200


async def test_every_hostile_request_is_answered_or_its_connection_closed_with_a_reason(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    requests = count(20_000, 100_000)
    async with victim(tmp_path) as server:
        name = "all request codes, hostile values, both header forms"
        async with beside_honest_client(server, name, requests, record_property):
            report = await fuzz(server, requests, SEED)
        await server.stop()
    assert report.problems == [], report.line(SEED)
    assert assert_derived_again(server.data, StoreSettings(), RealDisk()), "some of it was stored"
    assert report.answered + report.oneway + report.closed + report.waiting == report.sent == requests
    assert report.after_mb - report.before_mb < GROWTH_MB_MAX, report.line(SEED)


async def test_hostile_requests_to_guarded_servers_are_answered_too(tmp_path: Path) -> None:
    requests = count(6_000, 100_000)
    async with victim(tmp_path, *ACL_FLAGS) as server:
        report = await fuzz(server, requests, SEED, acl=True)
        log = server.log
    assert report.problems == [], report.line(SEED)
    assert report.answered + report.oneway + report.closed + report.waiting == report.sent == requests
    assert report.after_mb - report.before_mb < GROWTH_MB_MAX, report.line(SEED)
    assert report.codes[ResponseCode.NO_PERMISSION] and report.codes[ResponseCode.SUCCESS], "some in, some out"
    assert not [secret for secret in USERS.values() if secret in log]


def test_a_run_sends_all_codes_in_both_forms_and_can_be_repeated() -> None:
    requests = [request_of(SEED, number) for number in range(20_000)]
    assert requests[:1_000] == [request_of(SEED, number) for number in range(1_000)]
    assert {(each.code, each.frame[4]) for each in requests} >= {
        (code, form) for code in RequestCode for form in (0, 1)
    }
