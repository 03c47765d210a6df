"""Where name servers are: addresses, or an address server that is asked again and again."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.errors import ConfigError, ConnectFailedError
from pyromq.net.nameserver_list import (
    REFRESH_MS,
    NameServerList,
    address_url,
    check_nameservers,
    host_of,
    parse_nameservers,
)
from pyromq.testing import ManualClock


class AddressServer:
    """Answers with texts in turn; an exception is raised instead."""

    def __init__(self, *responses: str | Exception) -> None:
        self.responses, self.asked = list(responses), 0

    async def fetch(self, url: str) -> str:
        self.asked += 1
        await asyncio.sleep(0)
        response = self.responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response


def listed(server: AddressServer, clock: ManualClock) -> NameServerList:
    return NameServerList(["http://list.example"], clock=clock, fetch=server.fetch)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://mq.example", "http://mq.example:8080/rocketmq/nsaddr"),
        ("http://mq.example/", "http://mq.example:8080/rocketmq/nsaddr"),
        ("http://mq.example:80", "http://mq.example:80/rocketmq/nsaddr"),
        ("https://mq.example", "https://mq.example/rocketmq/nsaddr"),
        ("http://[fd00::1]:81/list?x=1", "http://[fd00::1]:81/list?x=1"),
    ],
)
def test_a_bare_host_has_rocketmqs_port_and_path(given: str, url: str) -> None:
    assert address_url(given) == url


def test_a_unit_has_its_own_list() -> None:
    assert address_url("http://h:1/rocketmq/nsaddr", "u1") == "http://h:1/rocketmq/nsaddr-u1?nofix=1"
    assert address_url("http://h:1/list", "u1") == "http://h:1/list"


@pytest.mark.parametrize("wrong", [["a:1", "http://h/x"], ["ftp://h/x"], ["http://"], ["http://h:x/"], ["a"]])
def test_what_leads_nowhere_is_refused(wrong: list[str]) -> None:
    with pytest.raises(ConfigError):
        check_nameservers(wrong)


def test_texts_become_single_addresses_with_hosts() -> None:
    assert parse_nameservers(["a:1; b:2;", "c:3"]) == ("a:1", "b:2", "c:3")
    assert [host_of(text) for text in ("a:1", "[fd00::1]:2", "http://h:1/x")] == ["a", "fd00::1", "h"]


async def test_given_addresses_are_never_asked_for() -> None:
    known = NameServerList(["a:1", "b:2"], clock=ManualClock())
    assert not await known.refresh()
    assert (known.addresses, known.url, known.is_due) == (("a:1", "b:2"), "", False)


async def test_an_address_server_is_asked_again_after_two_minutes() -> None:
    clock, server = ManualClock(), AddressServer(" a:1;b:2 \r\nsomething else", "b:2;a:1", "c:3")
    known = listed(server, clock)
    assert await known.refresh() and known.addresses == ("a:1", "b:2")
    clock.advance_ms(REFRESH_MS - 1)
    assert not await known.refresh() and server.asked == 1
    clock.advance_ms(1)
    assert not await known.refresh(), "another order is no change"
    clock.advance_ms(REFRESH_MS)
    assert await known.refresh() and known.addresses == ("c:3",)


@pytest.mark.parametrize("failure", ["", "\n", "<html>not here</html>", "a:1;nowhere", ConnectFailedError("refused")])
async def test_a_list_stays_in_use_when_it_cannot_be_renewed(
    failure: str | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    clock, server = ManualClock(), AddressServer("a:1", failure, "b:2")
    known = listed(server, clock)
    await known.refresh()
    clock.advance_ms(REFRESH_MS)
    assert not await known.refresh() and known.addresses == ("a:1",)
    assert "list of name servers not renewed" in caplog.text
    assert not await known.refresh() and server.asked == 2, "the next attempt has its time too"
    clock.advance_ms(REFRESH_MS)
    assert await known.refresh() and known.addresses == ("b:2",)


@pytest.mark.parametrize("failure", ["", "nowhere", ConnectFailedError("refused")])
async def test_without_any_list_a_failure_is_an_error_and_the_next_call_asks_again(failure: str | Exception) -> None:
    known = listed(AddressServer(failure, "a:1"), ManualClock())
    with pytest.raises(ConnectFailedError):
        await known.refresh()
    assert await known.refresh() and known.addresses == ("a:1",)


async def test_many_who_want_the_list_ask_once() -> None:
    server = AddressServer("a:1")
    known = listed(server, ManualClock())
    assert sorted(await asyncio.gather(*(known.refresh() for _ in range(5)))) == [False] * 4 + [True]
    assert server.asked == 1
