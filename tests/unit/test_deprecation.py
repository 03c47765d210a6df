"""A deprecated name works, warns once, and names its replacement."""

from __future__ import annotations

import warnings

import pytest

from pyromq.deprecation import PyroMQDeprecationWarning, deprecated


def test_a_deprecated_function_warns_once_at_its_caller_and_works() -> None:
    @deprecated(since="1.2", removed_in="2.0", instead="Admin.topics.create")
    def create_topic(name: str) -> str:
        """Create a topic."""
        return name.upper()

    with pytest.warns(
        PyroMQDeprecationWarning, match=r"deprecated since 1\.2 .* 2\.0: use Admin\.topics\.create"
    ) as told:
        assert create_topic("a") == "A"
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert create_topic("b") == "B"
    assert create_topic.__name__ == "create_topic"
    assert "Admin.topics.create" in (create_topic.__doc__ or "")


def test_the_warning_is_shown_by_default() -> None:
    assert issubclass(PyroMQDeprecationWarning, FutureWarning)
