"""What users import: the same names for threads and for asyncio, and nothing heavy before it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version

import pytest

import pyromq
from pyromq import aio, errors, hooks, monitoring, offsets, results, selectors, settings
from pyromq.errors import MQError


def test_both_faces_have_the_same_names() -> None:
    alone = {"App", "__version__", "sql"}  # one App takes functions and coroutines; sql is for notebooks
    assert set(pyromq.__all__) == {*aio.__all__, *alone}
    assert set(dir(pyromq)) >= set(pyromq.__all__)


@pytest.mark.parametrize("name", aio.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(pyromq, name) is not None
    is_face = name in (
        "Admin",
        "Client",
        "Producer",
        "PushConsumer",
        "PullConsumer",
        "SimpleConsumer",
        "TransactionProducer",
    )
    assert (getattr(pyromq, name) is getattr(aio, name)) != is_face


def test_the_top_level_is_small_and_the_rest_is_in_modules() -> None:
    assert len(pyromq.__all__) <= 20
    for module in (settings, results, selectors, hooks, offsets, monitoring):
        assert all(hasattr(module, name) for name in module.__all__)


def test_every_error_that_clients_raise_is_in_one_module() -> None:
    found = vars(errors).items()
    defined = {name: each for name, each in found if isinstance(each, type) and issubclass(each, MQError)}
    assert {each.__module__ for each in defined.values()} == {"pyromq.errors"}
    named = set(re.findall(r"\b[A-Z][A-Za-z]+Error\b", errors.__doc__ or ""))
    assert named == set(defined), "the tree in its docstring names every error"


def test_a_name_that_lives_in_a_module_is_found_there() -> None:
    with pytest.raises(AttributeError, match=r"it is in pyromq\.settings"):
        _ = pyromq.PushConsumerSettings  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"it is in pyromq\.selectors"):
        _ = pyromq.by_sharding_key  # type: ignore[attr-defined]


def test_modules_of_the_package_need_no_import_of_their_own() -> None:
    looks = "; ".join(
        f"assert pyromq.{name}.__name__ == 'pyromq.{name}'" for name in pyromq._MODULES if name != "pipeline"
    )
    subprocess.run([sys.executable, "-c", f"import pyromq; {looks}"], check=True)
    assert all(f"``{name}``" in pyromq.__doc__ or f"``pyromq.{name}``" in pyromq.__doc__ for name in pyromq._MODULES)


def test_the_version_is_that_of_the_distribution() -> None:
    assert pyromq.__version__ == version("pyromq")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = pyromq.Nothing  # type: ignore[attr-defined]


def test_importing_the_package_loads_next_to_nothing() -> None:
    code = "import sys; before = set(sys.modules); import pyromq; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) == {"__future__", "pyromq"}
