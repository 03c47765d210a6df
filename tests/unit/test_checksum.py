"""The fast checksum is Python's, for all kinds of buffers and in steps."""

from __future__ import annotations

import subprocess
import sys
import zlib

from hypothesis import given
from hypothesis import strategies as st

from pyromq.checksum import crc32


@given(st.binary(max_size=5_000), st.integers(0, 2**32 - 1), st.integers(0, 40))
def test_it_is_pythons(data: bytes, begun: int, skipped: int) -> None:
    assert crc32(data) == zlib.crc32(data)
    assert crc32(memoryview(data)[skipped:], begun) == zlib.crc32(data[skipped:], begun)
    assert crc32(bytearray(data)) == zlib.crc32(data)


def test_the_check_value_of_the_polynomial() -> None:
    assert crc32(b"123456789") == 0xCBF43926


def test_without_the_library_pythons_own_is_taken() -> None:
    program = "import sys; sys.modules['zlib_ng'] = None\nfrom pyromq.checksum import crc32\nprint(crc32.__module__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["zlib"]
