"""Source and sink against servers that ask for signatures over TLS: with the rights of a pipeline, and without."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from pyromq import Admin, Message, Producer
from pyromq.errors import MQError
from pyromq.settings import Credentials, TlsSettings
from pyromq.testing import ServerProcess
from tests.conftest import CANARY

pytestmark = pytest.mark.spark

ROOT = Credentials("root", f"root-{CANARY}")
SPARK = Credentials("spark", f"spark-{CANARY}")
TIMEOUT_S = 300


class Guarded:
    """Both servers, TLS enforced; the user ``spark`` may what the template ``pipeline`` allows on its topics."""

    def __init__(self, nameserver: str, ca: Path) -> None:
        self.nameserver, self.ca = nameserver, ca
        self.tls = TlsSettings(ca_file=ca)

    def options(self, topic: str, credentials: Credentials | None = SPARK, **more: object) -> dict[str, str]:
        found = {"nameserver": self.nameserver, "topic": topic, "tlsCa": self.ca}
        if credentials is not None:
            found |= {"accessKey": credentials.access_key, "secretKey": credentials.secret_key}
        return {name: str(value) for name, value in {**found, **more}.items()}

    def admin(self) -> Admin:
        return Admin(self.nameserver, credentials=ROOT, tls=self.tls)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    made = [sys.executable, "-m", "pyromq", "tls", "init", str(folder / "tls"), "--host", "127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True)
    settings = {"access.enabled": "true", "tls_mode": "enforcing"}
    settings |= {f"tls_{name}_file": str(folder / f"tls/server{end}.pem") for name, end in _FILES}
    first = {"access.initial_user": f'{{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}'}
    flags = [f"{server}.{key}={value}" for server in ("broker", "nameserver") for key, value in settings.items()]
    flags += [f"broker.{key}={value}" for key, value in first.items()]
    with ServerProcess("up", *(part for flag in flags for part in ("--set", flag)), data=folder / "data") as servers:
        each = Guarded(servers.nameserver, folder / "tls/ca.pem")
        with each.admin() as admin:
            for topic in ("guarded-in", "guarded-out", "guarded-secret"):
                admin.topics.create(topic, queues=2)
            admin.access.create_user(SPARK.access_key, SPARK.secret_key)
            admin.access.apply_template(
                "spark", "pipeline", topics=["guarded-in", "guarded-out"], groups=["guarded-group"]
            )
        yield each


_FILES = (("certificate", ""), ("key", "-key"))


def send(guarded: Guarded, topic: str, count: int) -> list[str]:
    with Producer(guarded.nameserver, group="writers", credentials=ROOT, tls=guarded.tls) as producer:
        bodies = [f"{topic}-{time.monotonic_ns()}-{number}" for number in range(count)]
        for body in bodies:
            producer.send(Message(topic, body.encode()))
    return bodies


def bodies_in(spark: Any, options: dict[str, str]) -> Counter[str]:
    return Counter(row.body.decode() for row in spark.read.format("pyromq").options(**options).load().collect())


def test_a_stream_from_topic_to_topic_with_credentials_over_tls(
    spark: Any, guarded: Guarded, checkpoint: str, lane: str
) -> None:
    sent = send(guarded, "guarded-in", 30)
    options = guarded.options("guarded-in", group="guarded-group", startingOffsets="earliest")
    reading = spark.readStream.format("pyromq").options(**options).schema("body binary").load()
    writing = reading.writeStream.format("pyromq").options(**guarded.options("guarded-out"))
    query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S) and query.exception() is None
    assert not Counter(sent) - bodies_in(spark, guarded.options("guarded-out"))
    for path in Path(checkpoint).rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("credentials", "topic", "text"),
    [
        (None, "guarded-in", "username cannot be null"),
        (Credentials("spark", "not-the-secret"), "guarded-in", "check signature failed"),
        (Credentials("nobody", "secret"), "guarded-in", "User:nobody is not found"),
        (SPARK, "guarded-secret", "has no permission"),
    ],
    ids=["unsigned", "a wrong secret", "unknown", "another topic"],
)
def test_others_are_refused_and_told_why(
    spark: Any, guarded: Guarded, lane: str, credentials: Credentials | None, topic: str, text: str
) -> None:
    send(guarded, topic, 1)
    options = guarded.options(topic, credentials)
    with pytest.raises((PySparkException, Py4JJavaError, MQError)) as read:
        bodies_in(spark, options)
    with pytest.raises((PySparkException, Py4JJavaError, MQError)) as written:
        spark.range(1).selectExpr("cast(id as string) as body").write.format("pyromq").options(**options).mode(
            "append"
        ).save()
    for refused in (read, written):
        assert text in str(refused.value)
        assert CANARY not in str(refused.value) and "not-the-secret" not in str(refused.value)


def test_without_tls_or_with_another_authority_nothing_is_read(
    spark: Any, guarded: Guarded, tmp_path: Path, lane: str
) -> None:
    made = [sys.executable, "-m", "pyromq", "tls", "init", str(tmp_path / "tls")]
    subprocess.run(made, check=True, capture_output=True)
    options = guarded.options("guarded-in", requestTimeout="1s", retryTimeout="1s")
    for tls in ({"tls": "false"}, {"tlsCa": str(tmp_path / "tls/ca.pem")}):
        plain = {name: value for name, value in options.items() if name != "tlsCa"}
        with pytest.raises((PySparkException, Py4JJavaError, MQError)) as failed:
            bodies_in(spark, {**plain, **tls})
        assert CANARY not in str(failed.value)
