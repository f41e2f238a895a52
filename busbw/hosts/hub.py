"""Where a session's agents connect: one thread accepts them, listens to them, and says who is gone.

Whoever does not prove in time that it knows the secret is closed, and changes nothing. Each rank
joins once. Knows no starter, no request and no group.
"""

from __future__ import annotations

import contextlib
import platform
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from busbw import wire

from . import messages
from .connection import Connection, Direction, Frame, FrameError, Lost, SocketChannel
from .handshake import HANDSHAKE_S
from .messages import hash_of, parts_of
from .peers import BACKLOG, OwnConnection, Peer, Unauthenticated, is_number

MOST_UNPROVEN = 64
# While that many are there others wait for their turn, and who says nothing for so long goes.
_CROWDED_S = 1.0
_LONGEST_WAIT_S = 0.5
# Where the process has no descriptors left.
_NO_ROOM_S = 0.05
_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How often a sign of life is sent, when it is missed, and how long a handshake may take."""

    beat_s: float = 2.0
    missed_s: float = 10.0
    handshake_s: float = HANDSHAKE_S


class Hub:
    """The thread, and the agents that have joined, by rank; `changed` is notified of each."""

    def __init__(
        self,
        listening: socket.socket | None,
        secret: bytes,
        files: Mapping[str, bytes],
        *,
        ranks: int,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.changed = threading.Condition()
        self.peers: dict[int, Peer] = {}
        # What keeps a host from taking part.
        self.incomparable: list[str] = []
        # Connections that gave a wrong proof.
        self.unproven = 0
        # Others that went without having joined, by address.
        self._silent: Counter[str] = Counter()
        self._is_full = False
        self._listening = listening
        self._secret = secret
        self._parts, self._hash = parts_of(files), hash_of(files)
        self._ranks = ranks
        self._expected = set(range(ranks))
        self._adopted: list[OwnConnection] = []
        self._timing = timing or Timing()
        self._clock = clock
        self.pending: dict[int, Unauthenticated] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, self._waking = socket.socketpair()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="busbw agents", daemon=True)
        for one in (self._woken, self._waking):
            one.setblocking(False)
        if listening is not None:
            listening.listen(BACKLOG)
            listening.setblocking(False)
            self._selector.register(listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._awake)
        self._thread.start()

    def wake(self) -> None:
        """Have the thread send what is to be sent, from any thread."""
        with contextlib.suppress(OSError):
            self._waking.send(b".")

    def close(self, wait_s: float = 5.0) -> None:
        for peer in list(self.peers.values()):
            peer.post(messages.Goodbye())
        with self.changed:
            peers = self.peers.values()
            self.changed.wait_for(lambda: all(peer.why_lost for peer in peers), wait_s)
        self._is_over = True
        self.wake()
        self._thread.join()
        for one in (self._listening, self._woken, self._waking, *self._adopted_now()):
            if one is not None:
                one.close()
        self._selector.close()

    def adopt(self, sock: socket.socket, first: bytes, wait_s: float) -> None:
        """Take a connection that this session made itself, from any thread.

        `first` is sent before anything else; the agent has `wait_s` to prove that it is one.
        """
        with self.changed:
            self._adopted.append(OwnConnection(sock, first, wait_s))
        self.wake()

    def expect_again(self, rank: int) -> None:
        with self.changed:
            self._expected.add(rank)

    def broke_off(self, ranks: Iterable[int]) -> list[str]:
        """Which agents of these ranks have joined and are gone, and how; none is expected again."""
        joined = (self.peers[rank] for rank in ranks if rank in self.peers)
        return [one.why_lost for one in joined if one.why_lost and one.rank not in self._expected]

    def silent(self) -> Counter[str]:
        """How many connections have said nothing, or not what an agent says, by address."""
        return self._silent + Counter(one.address for one in list(self.pending.values()))

    def drop(self, peer: Peer, why: str) -> None:
        """Close an agent's connection, which its workers are told; from any thread."""
        with self.changed:
            if peer.why_lost:
                return
            peer.why_lost = f"{peer.name} is gone: {why}"
            self.changed.notify_all()
        for worker in list(peer.workers.values()):
            worker.lost(peer.why_lost)
        self.wake()

    def _run(self) -> None:
        try:
            while not self._is_over:
                self._turn()
        finally:
            for peer in list(self.peers.values()):
                self.drop(peer, "the session is over")
                peer.connection.close()
            for unknown in list(self.pending.values()):
                unknown.connection.close()

    def _turn(self) -> None:
        now_s = self._clock()
        early_s = max(0.0, self._timing.handshake_s - _CROWDED_S) if self._is_full else 0.0
        for unknown in list(self.pending.values()):
            if now_s > unknown.deadline_s - early_s:
                self._silent[unknown.address] += 1
                self._dismiss(unknown)
        if self._is_full and len(self.pending) < MOST_UNPROVEN and self._listening is not None:
            self._is_full = False
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        for peer in list(self.peers.values()):
            self._keep_up(peer, now_s)
        wait_s = _NO_ROOM_S if self._is_full else min(_LONGEST_WAIT_S, self._timing.beat_s / 2)
        for key, events in self._selector.select(wait_s):
            key.data(events)

    def _keep_up(self, peer: Peer, now_s: float) -> None:
        connection = peer.connection
        if peer.why_lost:
            self._unwatch(connection)
            return
        if now_s - connection.heard_s > self._timing.missed_s:
            self.drop(peer, f"no sign of life for {self._timing.missed_s:g} s")
        elif now_s - connection.beat_s >= self._timing.beat_s:
            connection.beat_s = now_s
            connection.post(messages.Beat())
        self._flush(peer)

    def _flush(self, peer: Peer) -> None:
        try:
            peer.connection.flush()
        except Lost as error:
            self.drop(peer, str(error))
        if peer.why_lost:
            self._unwatch(peer.connection)
            return
        events = selectors.EVENT_READ
        events |= selectors.EVENT_WRITE if peer.connection.waiting_bytes else 0
        if self._selector.get_key(peer.connection).events != events:
            self._selector.modify(peer.connection, events, self._handler(peer))

    def _handler(self, peer: Peer) -> Callable[[int], None]:
        return lambda events: self._serve(peer, events)

    def _unwatch(self, connection: Connection) -> None:
        if connection.fileno() >= 0:
            with contextlib.suppress(KeyError):
                self._selector.unregister(connection)
            connection.close()

    def _awake(self, events: int) -> None:
        with contextlib.suppress(OSError):
            self._woken.recv(4096)
        for one in self._adopted_now():
            self._greet(one.sock, one.wait_s, one.first)

    def _adopted_now(self) -> list[OwnConnection]:
        with self.changed:
            found, self._adopted = self._adopted, []
        return found

    def _accept(self, events: int) -> None:
        assert self._listening is not None
        if len(self.pending) >= MOST_UNPROVEN:
            # The system keeps those who wait in their order.
            self._selector.unregister(self._listening)
            self._is_full = True
            return
        try:
            sock, address = self._listening.accept()
        except OSError:
            time.sleep(_NO_ROOM_S)
            return
        with contextlib.suppress(OSError):
            # Of one that has been reset already, reading says so.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._greet(sock, self._timing.handshake_s, address=address[0])

    def _greet(
        self, sock: socket.socket, wait_s: float, first: bytes = b"", address: str = ""
    ) -> None:
        connection = Connection(SocketChannel(sock), self._clock, first)
        unknown = Unauthenticated(connection, self._clock() + wait_s, address)
        self.pending[id(unknown)] = unknown
        self._selector.register(connection, _BOTH, lambda events: self._meet(unknown, events))
        connection.post(messages.Hello(protocol=messages.PROTOCOL, nonce=unknown.nonce.hex()))

    def _dismiss(self, unknown: Unauthenticated) -> None:
        self.pending.pop(id(unknown), None)
        self._unwatch(unknown.connection)

    def _meet(self, unknown: Unauthenticated, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send_hello(unknown.connection)
            if events & selectors.EVENT_READ:
                self._hear(unknown)
        except Lost:
            self._silent[unknown.address] += 1
            self._dismiss(unknown)
        except (FrameError, OSError, ValueError, TypeError, KeyError):
            self._dismiss(unknown)

    def _send_hello(self, connection: Connection) -> None:
        connection.flush()
        if not connection.waiting_bytes:
            key = self._selector.get_key(connection)
            self._selector.modify(connection, selectors.EVENT_READ, key.data)

    def _hear(self, unknown: Unauthenticated) -> None:
        connection = unknown.connection
        connection.receive()
        frame = connection.frame()
        if frame is None:
            return
        document = wire.parsed(frame.body)
        if unknown.is_proven:
            connection.checked(frame)
            self._join(unknown, wire.from_json(messages.Join, document, "join"))
        else:
            self._check_proof(unknown, frame, document)

    def _check_proof(self, unknown: Unauthenticated, frame: Frame, said: Any) -> None:
        """Raises FrameError, counted, for a frame that was made without the secret."""
        connection, nonce = unknown.connection, bytes.fromhex(said["nonce"])
        connection.prove(self._secret, Direction.TO_AGENT, unknown.nonce, nonce)
        try:
            connection.checked(frame)
        except FrameError:
            with self.changed:
                self.unproven += 1
                self.changed.notify_all()
            raise
        unknown.is_proven = True
        # Earlier protocols say all at once.
        who = f"{said.get('host', unknown.address)!s:.100} (rank {said.get('rank', '?')!s:.20})"
        what, theirs = "the protocol of agents", said.get("protocol")
        self._answer(unknown, self._difference(who, what, theirs, messages.PROTOCOL))

    def _join(self, unknown: Unauthenticated, join: messages.Join) -> None:
        if not self._answer(unknown, self._refusal(join)):
            return
        connection = unknown.connection
        peer = Peer(connection, join, self.wake)
        del self.pending[id(unknown)]
        connection.trust()
        self._selector.modify(connection, selectors.EVENT_READ, self._handler(peer))
        with self.changed:
            before = self.peers.get(peer.rank)
            self.peers[peer.rank] = peer
            self._expected.discard(peer.rank)
        if before is not None:
            self._unwatch(before.connection)
        for part in self._parts:
            connection.post(part)
        self._flush(peer)

    def _answer(self, unknown: Unauthenticated, refused: str) -> bool:
        unknown.connection.post(
            messages.Welcome(
                protocol=messages.PROTOCOL,
                refused=refused,
                beat_s=self._timing.beat_s,
                missed_s=self._timing.missed_s,
            )
        )
        unknown.connection.flush()
        if refused:
            self._dismiss(unknown)
        return not refused

    def _difference(self, who: str, what: str, theirs: object, ours: object) -> str:
        if theirs == ours:
            return ""
        words = f"{who} has {what} {theirs!s:.20}, this session {ours}"
        with self.changed:
            self.incomparable.append(words)
            self.changed.notify_all()
        return words

    def _refusal(self, join: messages.Join) -> str:
        who = f"{join.host:.100} (rank {join.rank})"
        differs = self._difference(who, "Python", join.python, platform.python_version())
        if differs:
            return differs
        if join.address and not is_number(join.address):
            return f"{join.address[:100]!r} is no address"
        if not 0 <= join.rank < self._ranks:
            return f"there is no rank {join.rank} among {self._ranks} agents, which count from 0"
        with self.changed:
            is_expected = join.rank in self._expected
        return "" if is_expected else f"rank {join.rank} has joined already"

    def _serve(self, peer: Peer, events: int) -> None:
        if peer.why_lost:
            return
        try:
            if events & selectors.EVENT_READ:
                peer.connection.receive()
                while (body := peer.connection.body()) is not None:
                    self._take(peer, messages.read(messages.ToSession, body))
        except (Lost, FrameError, wire.WireError) as error:
            self.drop(peer, str(error))
        self._flush(peer)

    def _take(self, peer: Peer, message: messages.ToSession) -> None:
        if isinstance(message, messages.FilesReady) and message.hash != self._hash:
            raise wire.WireError("it has other files")
        if isinstance(message, (messages.FilesReady, messages.Locked, messages.FreePorts)):
            with self.changed:
                peer.note(message)
                self.changed.notify_all()
        elif isinstance(message, (messages.Output, messages.State, messages.Exited)):
            worker = peer.workers.get(message.worker)
            if worker is not None:
                worker.take(message)
            if isinstance(message, messages.Exited):
                peer.workers.pop(message.worker, None)
