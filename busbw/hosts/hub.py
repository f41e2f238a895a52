"""Where a session's agents connect: a thread accepts them, and each has one that listens to it.

Whoever does not prove in time that it knows the secret is closed, and changes nothing. Each rank
joins once. Knows no starter, no request and no group.
"""

from __future__ import annotations

import contextlib
import platform
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from busbw import wire

from . import messages
from .connection import Connection, Direction, FrameError, Lost, Silent, fresh_nonce
from .handshake import HANDSHAKE_S, is_number
from .messages import PROTOCOL, ToAgent, ToSession
from .peers import BACKLOG, Peer, Stranger

MOST_UNPROVEN = 64
# While that many are there others wait for their turn, and who says nothing for so long goes.
_CROWDED_S = 1.0
# Where the process has no descriptors left, or nobody else is taken.
_NO_ROOM_S = 0.05
_LONGEST_WAIT_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How often a sign of life is given, when it is missed, and how long a handshake may take."""

    beat_s: float = 2.0
    missed_s: float = 10.0
    handshake_s: float = HANDSHAKE_S


class Hub:
    """The threads, and the agents that have joined, by rank; `changed` is notified of each."""

    def __init__(
        self,
        listening: socket.socket | None,
        secret: bytes,
        files: Mapping[str, bytes],
        *,
        ranks: int,
        timing: Timing | None = None,
    ) -> None:
        self.changed = threading.Condition()
        self.peers: dict[int, Peer] = {}
        # What keeps a host from taking part.
        self.incomparable: list[str] = []
        # Connections that gave a wrong proof.
        self.unproven = 0
        # Others that went without having joined, by address; and those of which nothing is known.
        self._silent: Counter[str] = Counter()
        self.pending: set[Stranger] = set()
        self._listening = listening
        self._secret = secret
        self._files = messages.pack(files)
        self._ranks = ranks
        self._expected = set(range(ranks))
        self._timing = timing or Timing()
        self._is_over = False
        self._threads: set[threading.Thread] = set()
        if listening is not None:
            listening.listen(BACKLOG)
            listening.settimeout(_LONGEST_WAIT_S)
            self._start(self._accept, listening)

    def close(self, wait_s: float = 5.0) -> None:
        for peer in list(self.peers.values()):
            peer.post(ToAgent.GOODBYE)
        with self.changed:
            peers = self.peers.values()
            self.changed.wait_for(lambda: all(peer.why_lost for peer in peers), wait_s)
            self._is_over = True
            pending = tuple(self.pending)
        if self._listening is not None:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
        for peer in list(self.peers.values()):
            peer.drop("the session is over")
        for stranger in pending:
            stranger.connection.shut()
        for thread in tuple(self._threads):
            thread.join()
        if self._listening is not None:
            self._listening.close()

    def adopt(self, sock: socket.socket, first: bytes, wait_s: float) -> None:
        """Take a connection that this session made itself, from any thread.

        `first` is sent before anything else; the agent has `wait_s` to prove that it is one.
        """
        self._begin(Stranger(sock), wait_s, first)

    def expect_again(self, rank: int) -> None:
        with self.changed:
            self._expected.add(rank)

    def broke_off(self, ranks: Iterable[int]) -> list[Peer]:
        """Which agents of these ranks have joined and are gone; none is expected again."""
        joined = (self.peers[rank] for rank in ranks if rank in self.peers)
        return [one for one in joined if one.why_lost and one.rank not in self._expected]

    def silent(self) -> Counter[str]:
        """How many connections have said nothing, or not what an agent says, by address."""
        return self._silent + Counter(one.address for one in tuple(self.pending))

    def _accept(self, listening: socket.socket) -> None:
        while not self._is_over:
            # The system keeps those who wait in their order.
            if not self._has_room():
                time.sleep(_NO_ROOM_S)
                continue
            try:
                sock, address = listening.accept()
            except TimeoutError:
                continue
            except OSError:
                time.sleep(_NO_ROOM_S)
                continue
            self._begin(Stranger(sock, address[0]), self._timing.handshake_s)

    def _has_room(self) -> bool:
        with self.changed:
            if len(self.pending) < MOST_UNPROVEN:
                return True
            late = [one for one in self.pending if time.monotonic() > one.since_s + _CROWDED_S]
        for one in late:
            one.connection.shut()
        return False

    def _begin(self, stranger: Stranger, wait_s: float, first: bytes = b"") -> None:
        with self.changed:
            if self._is_over:
                stranger.connection.close()
                return
            self.pending.add(stranger)
        self._start(self._meet, stranger, wait_s, first)

    def _start(self, run: Callable[..., None], *values: object) -> None:
        """Run it in a thread, which `close` waits for."""

        def whole() -> None:
            try:
                run(*values)
            finally:
                with self.changed:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=whole, name="busbw agents", daemon=True)
        with self.changed:
            self._threads.add(thread)
        thread.start()

    def _meet(self, stranger: Stranger, wait_s: float, first: bytes) -> None:
        """Hear what a connection says until it is over."""
        peer = None
        with contextlib.closing(stranger.connection) as connection:
            try:
                connection.write(first, wait_s)
                peer = self._joined(stranger, time.monotonic() + wait_s)
            except Lost:
                with self.changed:
                    self._silent[stranger.address] += 1
            except (FrameError, ValueError, TypeError, KeyError):
                pass
            finally:
                with self.changed:
                    self.pending.discard(stranger)
            if peer is not None:
                self._serve(peer)

    def _joined(self, stranger: Stranger, end_s: float) -> Peer | None:
        """The agent there; None for one that is refused. Raises Lost and whatever no agent says."""
        connection = stranger.connection
        refused = self._proven(stranger, end_s)
        self._answer(connection, refused)
        if refused:
            return None
        join = messages.decoded(messages.Join, connection.receive(end_s))
        refused = self._refusal(join)
        try:
            self._answer(connection, refused)
        except Lost:
            if not refused:
                self.expect_again(join.rank)
            raise
        return None if refused else Peer(connection, join, self.changed)

    def _proven(self, stranger: Stranger, end_s: float) -> str:
        """Why one that knows the secret is refused. Counts whoever does not: FrameError."""
        connection, ours = stranger.connection, fresh_nonce()
        connection.send(messages.encoded(messages.Hello(protocol=PROTOCOL, nonce=ours.hex())))
        frame = connection.received(end_s)
        said = wire.parsed(frame.body)
        connection.prove(self._secret, Direction.TO_AGENT, ours, bytes.fromhex(said["nonce"]))
        try:
            connection.checked(frame)
        except FrameError:
            with self.changed:
                self.unproven += 1
                self.changed.notify_all()
            raise
        # Earlier protocols say all at once.
        who = f"{said.get('host', stranger.address)!s:.100} (rank {said.get('rank', '?')!s:.20})"
        return self._difference(who, "the protocol of agents", said.get("protocol"), PROTOCOL)

    def _answer(self, connection: Connection, refused: str) -> None:
        welcome = messages.Welcome(
            protocol=PROTOCOL,
            refused=refused,
            beat_s=self._timing.beat_s,
            missed_s=self._timing.missed_s,
        )
        connection.send(messages.encoded(welcome))

    def _difference(self, who: str, what: str, theirs: object, ours: object) -> str:
        if theirs == ours:
            return ""
        # A first frame may hold any JSON, of which nothing is checked.
        words = wire.printable(f"{who} has {what} {theirs!s:.20}, this session {ours}")
        with self.changed:
            self.incomparable.append(words)
            self.changed.notify_all()
        return words

    def _refusal(self, join: messages.Join) -> str:
        """Why it takes no part; else its rank is taken."""
        who = f"{join.host:.100} (rank {join.rank})"
        differs = self._difference(who, "Python", join.python, platform.python_version())
        if differs:
            return differs
        if join.address and not is_number(join.address):
            return f"{join.address[:100]!r} is no address"
        if not 0 <= join.rank < self._ranks:
            return f"there is no rank {join.rank} among {self._ranks} agents, which count from 0"
        with self.changed:
            if join.rank not in self._expected:
                return f"rank {join.rank} has joined already"
            self._expected.discard(join.rank)
        return ""

    def _serve(self, peer: Peer) -> None:
        with self.changed:
            before = self.peers.get(peer.rank)
            self.peers[peer.rank] = peer
        if before is not None:
            before.connection.shut()
        if self._is_over:
            peer.drop("the session is over")
        peer.connection.trust()
        peer.post(ToAgent.FILES, self._files)
        missed_s = self._timing.missed_s
        try:
            while not peer.why_lost:
                body = peer.connection.receive(time.monotonic() + missed_s)
                peer.take(messages.read(ToSession, body))
        except Silent:
            peer.drop(f"no sign of life for {missed_s:g} s")
        except (Lost, FrameError, wire.WireError) as error:
            peer.drop(str(error))
