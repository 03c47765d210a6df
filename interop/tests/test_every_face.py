"""Every face shows the same, on Apache's cluster and on ours as a process: the scenario of ``tests/every_face``.

What Apache's brokers do not tell: which members of a group disagree (lists, pages of lists and metrics have it from
our brokers alone; describe and doctor ask members), and metrics in the form of ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.every_face import comparing
from tests.every_face.scenario import Scene, running_scenario

from interop.jars import Jars
from interop.tests import conftest
from interop.tests.conftest import LADDER, apache_cluster, pyromq_cluster
from interop.world import Cluster

SECTION = "Every face shows the same × servers"
OPTIONS = {
    "messageDelayLevel": LADDER,
    "traceTopicEnable": "true",
    "timerPrecisionMs": "100",
    "transactionCheckInterval": "600000",  # a transaction that is checked too often is given up
    "transactionTimeOut": "600000",
}
OUR_OPTIONS = {"ladder": LADDER, "check_ms": 600_000}


def case(name: str) -> pytest.MarkDecorator:
    return conftest.case(name, SECTION)


@pytest.fixture(scope="module", params=["apache", "pyromq"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> Iterator[Cluster]:
    folder, is_apache = tmp_path_factory.mktemp(request.param), request.param == "apache"
    with apache_cluster(jars, folder, **OPTIONS) if is_apache else pyromq_cluster(folder, **OUR_OPTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def scene(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with running_scenario(cluster.nameserver, tmp_path_factory.mktemp("offsets")) as running:
        yield running


@case("command line and mqadmin: groups")
def test_command_line(scene: Scene) -> None:
    assert not [each for face in comparing.command_line_faces(scene) for each in comparing.differences(face)]


@case("console: API and pages of groups")
def test_console(scene: Scene, cluster: Cluster) -> None:
    faces = comparing.console_faces(scene)
    assert not [each for face in faces for each in comparing.differences(face, brokers_compare=_compares(cluster))]


@case("exporter: lag, retries, members")
def test_exporter(scene: Scene, cluster: Cluster) -> None:
    faces = comparing.metric_faces(scene)
    assert not [each for face in faces for each in comparing.differences(face, brokers_compare=_compares(cluster))]


@case("dead letters: waiting and in total")
def test_dead_letters(scene: Scene) -> None:
    assert not comparing.letters_differ(scene)


@case("delays and open transactions")
def test_counts(scene: Scene) -> None:
    assert not comparing.counts_differ(scene)


@case("doctor: who and what")
def test_doctor(scene: Scene) -> None:
    assert not comparing.doctor_misses(scene)


@case("orderly queue that is held up")
def test_held_up(scene: Scene) -> None:
    assert not comparing.held_up_differs(scene)


@case("message explain: redriven, twice, delayed, prepared")
def test_explain(scene: Scene) -> None:
    assert not comparing.stories_differ(scene)


@case("members: subscriptions, progress, rates")
def test_members(scene: Scene) -> None:
    assert not comparing.members_differ(scene)


def _compares(cluster: Cluster) -> bool:
    """Whether brokers say which members disagree."""
    return cluster.make == "pyromq"
