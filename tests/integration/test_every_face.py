"""Every face shows the same: one scenario on our cluster, number by number. ``interop/tests`` has it on Apache's."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from pyromq.testing import LoopbackBroker, metrics_of
from tests.every_face import comparing
from tests.every_face.scenario import Scene, running_scenario

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[LoopbackBroker, str]]:
    with LoopbackBroker(delay_levels_ms=(1_000,) * 18) as broker, metrics_of(broker) as url:
        yield broker, url


@pytest.fixture(scope="module")
def scene(cluster: tuple[LoopbackBroker, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with running_scenario(cluster[0].nameserver, tmp_path_factory.mktemp("offsets")) as running:
        yield running


def metrics_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as response:
        text: bytes = response.read()
    return text.decode()


def test_the_command_line_shows_the_truth(scene: Scene) -> None:
    assert not [each for face in comparing.command_line_faces(scene) for each in comparing.differences(face)]


def test_the_console_shows_the_truth(scene: Scene) -> None:
    assert not [each for face in comparing.console_faces(scene) for each in comparing.differences(face)]


def test_exporter_and_metrics_show_the_truth(scene: Scene, cluster: tuple[LoopbackBroker, str]) -> None:
    found = comparing.metric_faces(scene, metrics_text(cluster[1]))
    assert not [each for face in found for each in comparing.differences(face)]


def test_dead_letters_are_counted_alike(scene: Scene) -> None:
    assert not comparing.letters_differ(scene)


def test_delays_and_open_transactions_are_counted_alike(scene: Scene) -> None:
    assert not comparing.counts_differ(scene)


def test_doctor_names_who_and_what(scene: Scene) -> None:
    assert not comparing.doctor_misses(scene)


def test_an_orderly_queue_that_is_held_up_tells_why_everywhere(scene: Scene) -> None:
    assert not comparing.held_up_differs(scene)


def test_explain_tells_what_became_of_each_message(scene: Scene) -> None:
    assert not comparing.stories_differ(scene)


def test_members_tell_subscriptions_progress_and_rates(scene: Scene) -> None:
    assert not comparing.members_differ(scene)
