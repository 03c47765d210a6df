"""The daemon of Python workers: which ends are no news."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from pyromq.pipeline.spark.daemon import quiet
from pyromq.pipeline.spark.session import default_settings


class LeftError(Exception):
    """Instead of ending the process."""


def leave(code: int) -> NoReturn:
    raise LeftError(code)


def failing(error: BaseException) -> Any:
    def work(sock: Any, authenticated: bool) -> int:
        raise error

    return quiet(work, leave)


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_whose_socket_is_closed_ends_without_a_word(error: OSError) -> None:
    with pytest.raises(LeftError, match="1"):
        failing(error)(None, True)


@pytest.mark.parametrize("error", [ValueError("ours"), OSError("disk"), SystemExit(3)])
def test_other_errors_are_the_daemons(error: BaseException) -> None:
    with pytest.raises(type(error)):
        failing(error)(None, True)


def test_work_that_ends_well_is_left_alone() -> None:
    assert quiet(lambda sock, authenticated: 7, leave)(None, True) == 7


def test_workers_of_this_machine_have_it() -> None:
    assert default_settings("local[2]")["spark.python.daemon.module"] == "pyromq.pipeline.spark.daemon"
    assert "spark.python.daemon.module" not in default_settings("spark://host:7077")
