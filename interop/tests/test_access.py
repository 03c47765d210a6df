"""Users and policies: clients of Java, Go and ours, against brokers of Apache and ours with access control.

The rights are given by our Admin on both; mqadmin looks at ours. Apache's name server asks nobody, ours does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interop.apache import ApacheBroker, ApacheNameServer
from interop.asking import connected, signed
from interop.driver import DriverError
from interop.drivers import LANGUAGES, Drivers
from interop.jars import Jars
from interop.mqadmin import run_mqadmin
from interop.pyromq_server import PyroMQServer
from interop.tests import conftest
from interop.world import Cluster, World
from pyromq import Admin
from pyromq.settings import Credentials
from pyromq.wire.codes import ResponseCode

SECTION = "Clients × servers with access control"
ROOT = Credentials("interop-root", "interop-root-secret")
USER = Credentials("interop-user", "interop-user-secret")
OTHER = Credentials("interop-other", "interop-other-secret")
_AUTH = "org.apache.rocketmq.auth"
_APACHE = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"{ROOT.access_key}","secretKey":"{ROOT.secret_key}"}}',
}


def case(name: str) -> pytest.MarkDecorator:
    return conftest.case(name, SECTION)


@contextmanager
def apache(jars: Jars, folder: Path) -> Iterator[Cluster]:
    with ApacheNameServer(jars, folder / "namesrv") as names:
        user = (ROOT.access_key, ROOT.secret_key)
        options = {**_APACHE, "authConfigPath": str(folder / "auth")}
        broker = ApacheBroker(jars, folder / "broker", names.address, options=options, user=user)
        broker.start()
        try:
            yield Cluster("apache", names.address, broker.address)
        finally:
            broker.kill()


@contextmanager
def pyromq(folder: Path) -> Iterator[Cluster]:
    with PyroMQServer(folder, user=(ROOT.access_key, ROOT.secret_key)) as server:
        yield Cluster("pyromq", server.nameserver, server.address)


@pytest.fixture(scope="module", params=["apache", "pyromq"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(f"guarded-{request.param}")
    with apache(jars, folder) if request.param == "apache" else pyromq(folder) as running:
        with Admin(running.nameserver, credentials=ROOT) as admin:
            for each in (USER, OTHER):
                admin.access.create_user(each.access_key, each.secret_key)
        yield running


@pytest.fixture(params=LANGUAGES)
def world(request: pytest.FixtureRequest, drivers: Drivers, cluster: Cluster) -> Iterator[World]:
    each = World(drivers.get(request.param), cluster, drivers)
    with Admin(cluster.nameserver, credentials=ROOT) as admin:
        admin.topics.create(each.topic, queues=2)
        admin.groups.create(each.group)
        admin.access.apply_template(USER.access_key, "producer", topics=[f"{each.topic}*"])
        admin.access.apply_template(USER.access_key, "consumer", topics=[each.topic], groups=[each.group])
        entries = admin.access.apply_template(USER.access_key, "pipeline", topics=[each.topic], groups=[each.group])
        assert entries
        assert admin.access.explain(USER.access_key, "Pub", f"Topic:{each.topic}").allowed
        assert not admin.access.explain(OTHER.access_key, "Pub", f"Topic:{each.topic}").allowed
    yield each
    each.close()


def keys(credentials: Credentials) -> dict[str, Any]:
    return {"accessKey": credentials.access_key, "secretKey": credentials.secret_key}


@case("send and consume with rights")
def test_a_user_with_rights_sends_and_consumes(world: World) -> None:
    producer = world.start("producer", **keys(USER))
    sent = world.send(producer, ["a", "b", "c"])
    assert len(sent) == 3
    consumer = world.push(**keys(USER))
    assert sorted(each["body"] for each in consumer.wait(3, timeout_s=60)) == ["a", "b", "c"]


@case("refused without rights, with a wrong secret, unsigned")
def test_others_are_refused(world: World) -> None:
    wrong = Credentials(USER.access_key, "not-the-secret")
    for given in (keys(OTHER), keys(wrong), {}):
        with pytest.raises((DriverError, AssertionError)):
            producer = world.start("producer", group=f"{world.group}-{len(given)}", **given)
            results = world.send(producer, ["x"])
            assert all(each.get("status") == "SEND_OK" for each in results), results
            raise SystemError("it was sent")


@case("mqadmin: users and policies")
def test_mqadmin_manages_users(cluster: Cluster, jars: Jars, tmp_path: Path) -> None:
    folder = tmp_path / "mqadmin"
    (folder / "conf").mkdir(parents=True)
    text = f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n"
    (folder / "conf/tools.yml").write_text(text)
    at = ("-n", cluster.nameserver, "-b", cluster.broker)
    run_mqadmin(jars, folder, "createUser", *at, "-u", "by-mqadmin", "-p", "mqadmin-secret", "-t", "Normal")
    run_mqadmin(
        *(jars, folder, "createAcl", *at, "-s", "User:by-mqadmin", "-r", "Topic:t1,Group:g*", "-a", "Pub,Sub"),
        *("-d", "Allow", "-i", "127.0.0.0/8"),
    )
    listed = run_mqadmin(jars, folder, "listUser", *at)
    assert "by-mqadmin" in listed
    acls = run_mqadmin(jars, folder, "listAcl", *at, "-s", "by-mqadmin")
    assert "Topic:t1" in acls and "Group:g*" in acls and "Allow" in acls
    if cluster.make == "pyromq":
        assert "mqadmin-secret" not in listed, "Apache's tells passwords, ours does not"
    with Admin(cluster.nameserver, credentials=ROOT) as admin:
        assert admin.access.explain("by-mqadmin", "Sub", "Group:g1").allowed
        assert not admin.access.explain("by-mqadmin", "Sub", "Group:g1", ip="10.0.0.1").allowed
        assert all(user.password is None for user in admin.access.users())
        admin.access.delete_user("by-mqadmin")


# Codes for which RocketMQ 5.5.0 has no rule of authorization, as read in its sources: who has a name may use them.
# 46 (check of a subscription) is left out: without a body it asks for nothing.
UNRULED = (
    25, 26, 28, 43, 45, 60, 61, 106, 200, 206, 225, 304, 305, 306, 311, 312, 313, 316, 318, 319, 324, 325, 329, 361,
    400, 401, 402, 513, 907, 1005, 1006, 1007, 1009, 1010, 2001, 2002, 2003, 2004, 5001, 200056, 200070, 200071, 200074,
    200075, 200076, 200077, 200078, 200079, 200151,
)  # fmt: skip
_REFUSED = (ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


def codes_that_get_through(address: str, credentials: Credentials) -> list[int]:
    """Those that a user without any right is not refused; what they are answered is another matter."""
    fields = {"topic": "t", "queueId": "0", "consumerGroup": "g", "group": "g", "offset": "0", "timestamp": "0"}

    async def ask() -> list[int]:
        through = []
        for code in UNRULED:
            async with connected(address) as connection:
                header = signed(fields, credentials.access_key, credentials.secret_key)
                try:
                    answer = await connection.request(code, header, timeout_ms=2_000)
                except TimeoutError:
                    through.append(code)  # it was taken, and is held
                    continue
                if answer.code not in _REFUSED and "is missing" not in (answer.remark or ""):
                    through.append(code)
        return through

    return asyncio.run(ask())


@case("a user without rights is refused every code of the list that 5.5.0 has no rule for")
def test_no_code_is_without_a_rule(cluster: Cluster) -> None:
    through = codes_that_get_through(cluster.broker, OTHER)
    if cluster.make == "pyromq":
        assert through == []
    else:
        assert len(through) > 20, f"5.5.0 lets them through, ours does not; of these it was said here: {through}"
