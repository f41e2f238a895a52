"""Frames: what the other side sent arrives, and nothing else does."""

from __future__ import annotations

import random
import struct

import pytest

from busbw.agent.frames import (
    MOST_BYTES,
    MOST_UNPROVEN_BYTES,
    Checker,
    Direction,
    FrameError,
    Sealer,
    Splitter,
    fresh_nonce,
    key_of,
)

SECRET = b"a secret of tests"
SESSION, AGENT = fresh_nonce(), fresh_nonce()
KEY = key_of(SECRET, Direction.TO_AGENT, SESSION, AGENT)


def opened(sent: bytes, checker: Checker | None = None) -> list[bytes]:
    """The bodies of all frames in `sent`."""
    splitter = Splitter(MOST_BYTES)
    splitter.add(sent)
    checker = checker or Checker(KEY)
    found = []
    while (frame := splitter.frame()) is not None:
        found.append(checker.checked(frame))
    return found


def test_frames_arrive_in_order_however_the_bytes_are_cut() -> None:
    sealer, splitter, checker = Sealer(KEY), Splitter(), Checker(KEY)
    bodies = [b"", b"one", bytes(range(256))]
    found = []
    for byte in b"".join(sealer.sealed(body) for body in bodies):
        splitter.add(bytes([byte]))
        frame = splitter.frame()
        if frame is not None:
            found.append(checker.checked(frame))
    assert found == bodies


def test_a_frame_that_is_repeated_left_out_or_in_another_order_is_refused() -> None:
    sealer = Sealer(KEY)
    first, second = sealer.sealed(b"kill"), sealer.sealed(b"kill")
    assert opened(first + second) == [b"kill", b"kill"]
    for sent in (first + first, second, second + first):
        with pytest.raises(FrameError, match=r"frame \d was not made with the secret"):
            opened(sent)


@pytest.mark.parametrize("at", [0, 4, 36, -1])
def test_a_frame_of_which_a_bit_was_changed_is_refused_or_never_complete(at: int) -> None:
    sent = bytearray(Sealer(KEY).sealed(b"a message"))
    sent[at] ^= 1
    try:
        assert opened(bytes(sent)) == []
    except FrameError:
        return
    assert at == 0


def test_each_direction_connection_and_secret_has_a_key_of_its_own() -> None:
    others = [
        key_of(SECRET, Direction.TO_SESSION, SESSION, AGENT),
        key_of(SECRET, Direction.TO_AGENT, fresh_nonce(), AGENT),
        key_of(SECRET, Direction.TO_AGENT, SESSION, fresh_nonce()),
        key_of(SECRET, Direction.TO_AGENT, AGENT, SESSION),
        key_of(b"another secret of tests", Direction.TO_AGENT, SESSION, AGENT),
    ]
    assert len({KEY, *others}) == 6
    for key in others:
        with pytest.raises(FrameError, match="frame 0 was not made with the secret"):
            opened(Sealer(key).sealed(b"reflected"))


def test_a_nonce_of_another_length_makes_no_key() -> None:
    with pytest.raises(FrameError, match="a nonce has 32 bytes"):
        key_of(SECRET, Direction.TO_AGENT, SESSION, AGENT[:-1])


@pytest.mark.parametrize("length", [MOST_UNPROVEN_BYTES + 1, 2**30, 2**32 - 1])
def test_a_length_above_the_limit_is_refused_before_anything_of_the_body_is_there(
    length: int,
) -> None:
    splitter = Splitter()
    splitter.add(struct.pack(">I", length))
    with pytest.raises(FrameError, match=f"a frame of {length} bytes; the most is 1024"):
        splitter.frame()


def test_a_frame_of_the_longest_body_is_taken_and_a_longer_one_cannot_be_made() -> None:
    assert opened(Sealer(KEY).sealed(b"x" * MOST_BYTES)) == [b"x" * MOST_BYTES]
    with pytest.raises(ValueError, match="a frame of 1048577 bytes"):
        Sealer(KEY).sealed(b"x" * (MOST_BYTES + 1))


def test_random_bytes_are_no_frame() -> None:
    draw = random.Random(19)
    for _ in range(2000):
        sent = draw.randbytes(draw.randrange(200))
        if draw.random() < 0.5:
            sent = struct.pack(">I", draw.randrange(64)) + sent
        try:
            assert opened(sent) == []
        except FrameError:
            continue
