"""Frames over a connection: what is believed, what is refused, and for how long it is waited."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from busbw.hosts.connection import (
    MOST_BYTES,
    MOST_UNPROVEN_BYTES,
    Connection,
    Direction,
    FrameError,
    Key,
    Lost,
    Silent,
    Splitter,
    fresh_nonce,
    key_of,
)

SECRET = b"a secret of tests"
SESSION, AGENT = fresh_nonce(), fresh_nonce()
KEY = key_of(SECRET, Direction.TO_AGENT, SESSION, AGENT)


def opened(sent: bytes, checker: Key | None = None) -> list[bytes]:
    """The bodies of all frames in `sent`."""
    splitter = Splitter(MOST_BYTES)
    splitter.add(sent)
    checker = checker or Key(KEY)
    found = []
    while (frame := splitter.frame()) is not None:
        found.append(checker.checked(frame))
    return found


def test_frames_arrive_in_order_however_the_bytes_are_cut() -> None:
    sealer, splitter, checker = Key(KEY), Splitter(), Key(KEY)
    bodies = [b"", b"one", bytes(range(256))]
    found = []
    for byte in b"".join(sealer.sealed(body) for body in bodies):
        splitter.add(bytes([byte]))
        frame = splitter.frame()
        if frame is not None:
            found.append(checker.checked(frame))
    assert found == bodies


def test_a_frame_that_is_repeated_left_out_or_in_another_order_is_refused() -> None:
    sealer = Key(KEY)
    first, second = sealer.sealed(b"kill"), sealer.sealed(b"kill")
    assert opened(first + second) == [b"kill", b"kill"]
    for sent in (first + first, second, second + first):
        with pytest.raises(FrameError, match=r"frame \d was not made with the secret"):
            opened(sent)


@pytest.mark.parametrize("at", [0, 4, 36, -1])
def test_a_frame_of_which_a_bit_was_changed_is_refused_or_never_complete(at: int) -> None:
    sent = bytearray(Key(KEY).sealed(b"a message"))
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
            opened(Key(key).sealed(b"reflected"))


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
    assert opened(Key(KEY).sealed(b"x" * MOST_BYTES)) == [b"x" * MOST_BYTES]
    with pytest.raises(ValueError, match="a frame of 1048577 bytes"):
        Key(KEY).sealed(b"x" * (MOST_BYTES + 1))


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


@contextmanager
def pair() -> Iterator[tuple[Connection, Connection]]:
    """Both ends of a connection, proved: the session's and the agent's."""
    ours, theirs = (Connection(sock) for sock in socket.socketpair())
    ours.prove(SECRET, Direction.TO_AGENT, SESSION, AGENT)
    theirs.prove(SECRET, Direction.TO_SESSION, SESSION, AGENT)
    with contextlib.closing(ours), contextlib.closing(theirs):
        yield ours, theirs


def soon_s() -> float:
    return time.monotonic() + 0.1


def later_s() -> float:
    return time.monotonic() + 60


def test_what_is_sent_by_several_threads_arrives_whole() -> None:
    with pair() as (ours, theirs):
        theirs.trust()
        bodies = [bytes([i]) * 100_000 for i in range(8)]
        threads = [threading.Thread(target=ours.send, args=[body]) for body in bodies]
        for one in threads:
            one.start()
        assert sorted(theirs.receive(later_s()) for _ in bodies) == bodies
        for one in threads:
            one.join()


def test_two_descriptors_that_are_no_sockets_do_as_well() -> None:
    (reading, theirs_out), (theirs_in, writing) = os.pipe(), os.pipe()
    ours, theirs = Connection(None, reading, writing), Connection(None, theirs_in, theirs_out)
    with contextlib.closing(theirs):
        with contextlib.closing(ours):
            ours.send(b"one")
            theirs.send(b"two")
            assert (theirs.receive(later_s()), ours.receive(later_s())) == (b"one", b"two")
        with pytest.raises(Lost, match="it was closed"):
            theirs.receive(later_s())


def test_one_that_says_nothing_is_told_from_one_that_is_gone() -> None:
    with pair() as (ours, theirs):
        with pytest.raises(Silent):
            ours.receive(soon_s())
        # A part of a frame is no sign of life.
        theirs.write(struct.pack(">I", 9), 1)
        with pytest.raises(Silent):
            ours.receive(soon_s())
        theirs.close()
        with pytest.raises(Lost, match="it was closed"):
            ours.receive(later_s())
        with pytest.raises(Lost, match="Broken pipe"):
            ours.send(b"")


def test_one_that_does_not_read_is_not_waited_for_without_end() -> None:
    with pair() as (ours, _), pytest.raises(Silent, match=r"it has read nothing for 0\.1 s"):
        ours.write(bytes(2**24), 0.1)


def test_shutting_it_wakes_who_reads() -> None:
    with pair() as (ours, _):
        timer = threading.Timer(0.1, ours.shut)
        timer.start()
        with pytest.raises(Lost, match="it was closed"):
            ours.receive(later_s())
        timer.join()
