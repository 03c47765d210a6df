"""What users import: the same names for threads and for asyncio, and nothing heavy before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pyromq
from pyromq import aio


def test_both_faces_have_the_same_names() -> None:
    assert set(pyromq.__all__) == set(aio.__all__)
    assert set(dir(pyromq)) >= set(pyromq.__all__)


@pytest.mark.parametrize("name", pyromq.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(pyromq, name) is not None
    is_face = name in ("Admin", "Client", "Producer", "PushConsumer", "PullConsumer", "TransactionProducer")
    assert (getattr(pyromq, name) is getattr(aio, name)) != is_face


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = pyromq.Nothing  # type: ignore[attr-defined]


def test_importing_the_package_loads_next_to_nothing() -> None:
    code = "import sys; before = set(sys.modules); import pyromq; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) == {"__future__", "pyromq"}
