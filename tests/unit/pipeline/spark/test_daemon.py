"""The daemon of Python workers: which ends are no news."""

from __future__ import annotations

import traceback
from types import ModuleType, SimpleNamespace

import pytest

from pyromq.pipeline.spark.daemon import DAEMON, hush_closed_sockets, quiet


def told_of(error: BaseException, raised_in: str) -> list[str]:
    """What is printed for an error that the daemon catches."""
    told: list[str] = []
    print_exc = quiet(lambda *_, **__: told.append(type(error).__name__), "/pyspark/daemon.py")
    code = compile("raise error", raised_in, "exec")
    try:
        exec(code, {"error": error})
    except BaseException:
        print_exc()
    return told


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_socket_that_the_daemon_finds_closed_is_no_news(error: OSError) -> None:
    assert told_of(error, "/pyspark/daemon.py") == []


def test_all_else_is_printed() -> None:
    assert told_of(BrokenPipeError(), "/our/source.py") == ["BrokenPipeError"]
    assert told_of(ValueError(), "/pyspark/daemon.py") == ["ValueError"]
    assert told_of(OSError("disk"), "/pyspark/daemon.py") == ["OSError"]


def test_only_workers_of_the_daemon_are_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traceback, "print_exc", before := traceback.print_exc)
    assert not hush_closed_sockets() and traceback.print_exc is before
    main = ModuleType("__main__")
    main.__spec__ = SimpleNamespace(name=DAEMON)  # type: ignore[assignment]
    main.__file__ = "/pyspark/daemon.py"
    assert hush_closed_sockets(main) and traceback.print_exc is not before
