"""Functions of users, found by module and name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.pipeline.jobs.common.patching import find_function


def test_functions_are_found_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["/nowhere"])
    (tmp_path / "found_beside.py").write_text("def double(x):\n    return 2 * x\nthing = 3\n")
    (tmp_path / "broken_beside.py").write_text("1 / 0")
    assert find_function("found_beside:double", folder=tmp_path)(4) == 8
    for text, told in (
        ("found_beside", "not module:function"),
        ("found_beside:none", "has no none"),
        ("found_beside:thing", "is a int, not a function"),
        ("missing_beside:f", "cannot be imported"),
        ("broken_beside:f", "cannot be imported: ZeroDivisionError: division by zero"),
    ):
        with pytest.raises(ConfigError, match=told):
            find_function(text, folder=tmp_path)
