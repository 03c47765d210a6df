"""Garbage collection in Spark's Python workers."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from pyromq.pipeline.core import workers
from pyromq.pipeline.core.workers import settle


def test_a_worker_of_spark_does_not_look_through_modules_after_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_freeze_count()  # what pytest has collected
    settle()
    assert gc.get_freeze_count() == before, "elsewhere it does nothing"
    monkeypatch.setattr(workers, "_settled", set())
    monkeypatch.setitem(sys.modules, "pyspark.worker", ModuleType("pyspark.worker"))
    try:
        settle()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
