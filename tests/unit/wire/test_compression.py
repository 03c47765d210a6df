from __future__ import annotations

import random
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError
from pyromq.wire.compression import (
    DecompressionError,
    InflatedTooLargeError,
    compress,
    compressed_flag,
    decompress,
    inflate_zlib,
)
from pyromq.wire.flags import SysFlag

ALGORITHMS = [SysFlag.ZLIB, SysFlag.LZ4, SysFlag.ZSTD]
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
BODY = b"the quick brown fox " * 300


@given(st.binary(max_size=5_000), st.sampled_from(ALGORITHMS))
@settings(max_examples=150)
def test_what_was_compressed_comes_back(body: bytes, algorithm: SysFlag) -> None:
    assert decompress(compress(body, algorithm), compressed_flag(0, algorithm)) == body


def test_an_uncompressed_body_is_handed_back_whatever_the_other_bits_say() -> None:
    assert decompress(b"\xff", int(SysFlag.ZSTD | SysFlag.MULTI_TAGS)) == b"\xff"


def test_the_flag_of_old_producers_means_zlib() -> None:
    assert decompress(zlib.compress(BODY), 0x1) == BODY
    assert decompress(zlib.compress(BODY), 0x301) == BODY
    assert compress(BODY, SysFlag(0))[:1] == b"\x78"


def test_the_compressed_flag_keeps_the_other_bits() -> None:
    assert compressed_flag(0x6) == 0x307
    assert compressed_flag(0x302, SysFlag.LZ4) == 0x103


@every_algorithm
def test_every_truncation_is_a_typed_error(algorithm: SysFlag) -> None:
    packed = compress(BODY, algorithm)
    for size in range(len(packed)):
        with pytest.raises(DecompressionError):
            decompress(packed[:size], compressed_flag(0, algorithm))


@every_algorithm
def test_a_bomb_is_refused_before_it_unfolds(algorithm: SysFlag) -> None:
    bomb = compress(b"\0" * 20_000_000, algorithm)
    with pytest.raises(InflatedTooLargeError) as caught:
        decompress(bomb, compressed_flag(0, algorithm), bytes_max=100_000)
    assert caught.value.bytes_max == 100_000


@every_algorithm
def test_the_bound_itself_is_allowed(algorithm: SysFlag) -> None:
    packed = compress(BODY, algorithm)
    assert decompress(packed, compressed_flag(0, algorithm), bytes_max=len(BODY)) == BODY
    with pytest.raises(InflatedTooLargeError):
        decompress(packed, compressed_flag(0, algorithm), bytes_max=len(BODY) - 1)


@pytest.mark.parametrize("algorithm", [SysFlag.LZ4, SysFlag.ZSTD])
def test_several_frames_make_one_body(algorithm: SysFlag) -> None:
    packed = compress(b"one", algorithm) + compress(b"", algorithm) + compress(b"two", algorithm)
    assert decompress(packed, compressed_flag(0, algorithm)) == b"onetwo"
    with pytest.raises(DecompressionError):
        decompress(packed + b"garbage", compressed_flag(0, algorithm))


def test_bytes_behind_a_zlib_stream_are_ignored_as_java_does() -> None:
    assert inflate_zlib(zlib.compress(BODY) + b"tail") == BODY


def test_frames_of_streaming_writers_that_do_not_know_the_size_are_read() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    assert decompress(stream.compress(BODY) + stream.flush(), compressed_flag(0, SysFlag.ZSTD)) == BODY
    packed = lz4.frame.compress(BODY, store_size=False, block_linked=False, content_checksum=True)
    assert decompress(packed, compressed_flag(0, SysFlag.LZ4)) == BODY


@pytest.mark.parametrize("flag", [0x401, 0x501, 0x701])
def test_an_unknown_algorithm_is_a_typed_error(flag: int) -> None:
    with pytest.raises(DecompressionError):
        decompress(b"", flag)
    with pytest.raises(LocalProtocolError):
        compress(b"", flag)


@every_algorithm
def test_garbage_and_flipped_bytes_give_bytes_or_a_typed_error(algorithm: SysFlag) -> None:
    seed = 4711
    print(f"seed={seed}")
    rng = random.Random(seed)
    packed = compress(rng.randbytes(100) + BODY[:200], algorithm)
    for case in range(2_000):
        damaged = bytearray(packed if case % 2 else packed[:7] + rng.randbytes(rng.randrange(60)))
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            decompress(bytes(damaged), compressed_flag(0, algorithm), bytes_max=1_000_000)
        except DecompressionError:
            continue
