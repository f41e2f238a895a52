"""Reach hosts through the Dask workers that a user started on the hosts.

On each host a Dask actor (an object in a Dask worker) starts a Python process, in which a Host then
runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cloudpickle
from distributed import Client

from busbw import storage
from busbw.driver.transport import HostError, IncomparableHostsError

from .host import BOOTSTRAP_CODE

_POLL_INTERVAL_S = 0.5

_CHUNK_BYTES = 65536
# The longest time of a read, which then begins again. If a session is killed, its actors run this
# much longer than the session.
_READ_TIMEOUT_S = 5.0


class HostPipe:
    """A Dask actor that starts a Python process on its host, and reads from it and writes to it.

    `python_code` is the program that the process runs. Dask sends the code of this class to the
    host, because busbw is not installed there. When the session ends, Dask releases the actor, and
    the input of the process ends.
    """

    def __init__(self, python_code: str) -> None:
        self._stream, other_end = socket.socketpair()
        self._stream.setblocking(False)
        command = [sys.executable, "-I", "-u", "-c", python_code]
        with other_end:
            self._process = subprocess.Popen(
                command, stdin=other_end.fileno(), stdout=other_end.fileno()
            )

    async def read(self) -> bytes | None:
        """Return the next bytes that the process writes, or ``b""`` after the process has ended.

        Returns None if the process writes nothing for a few seconds.
        """
        content = asyncio.get_running_loop().sock_recv(self._stream, _CHUNK_BYTES)
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(content, _READ_TIMEOUT_S)
        return None

    async def write(self, content: bytes) -> None:
        """Write `content` to the standard input of the process."""
        await asyncio.get_running_loop().sock_sendall(self._stream, content)


class DaskLink:
    """A connection to a Python process on another host, through an actor of a Dask worker.

    The attribute `stream` is a socket to the input and output of the process.

    Args:
        client: Dask's client, which is connected to the scheduler.
        actor: Dask's reference to the HostPipe on the host.
        address: The address of the host, without a port.

    """

    def __init__(self, client: Any, actor: Any, address: str) -> None:
        self.address = address
        self.stream, other_end = socket.socketpair()
        other_end.setblocking(False)
        self._transfer = asyncio.run_coroutine_threadsafe(
            _transfer_bytes(other_end, actor), client.loop.asyncio_loop
        )

    def end_reason(self) -> str:
        """Return why the connection has ended, such as ``its process has ended``, for messages."""
        try:
            self._transfer.result(_POLL_INTERVAL_S)
        except TimeoutError:
            return "it does not answer"
        except Exception as error:
            # Dask raises errors of several types for an actor that it has lost.
            return str(error) or type(error).__name__
        return "its process has ended"

    def close(self) -> None:
        """End the connection, so that Dask releases the actor."""
        self._transfer.cancel()
        self.stream.close()


async def _transfer_bytes(stream: socket.socket, actor: Any) -> None:
    """Pass bytes in both directions between a socket of this process and a HostPipe.

    `stream` is the socket, and `actor` is Dask's reference to the HostPipe. Returns when the Python
    process of the HostPipe ends.
    """
    loop = asyncio.get_running_loop()

    async def upload() -> None:
        while content := await loop.sock_recv(stream, _CHUNK_BYTES):
            await actor.write(content)

    uploading = loop.create_task(upload())
    # Errors of the actor are also raised by its `read` below, so they are read and dropped here.
    uploading.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        while (content := await actor.read()) != b"":
            await loop.sock_sendall(stream, content or b"")
    finally:
        uploading.cancel()
        stream.close()


@dataclass(kw_only=True)
class DaskEngine:
    """An engine that reaches hosts through the Dask workers of a scheduler.

    Attributes:
        scheduler: The address of the scheduler, or the path of its scheduler file.
        worker_count: The expected number of Dask workers.
        trusts_network: Whether the user accepts that everybody who reaches the scheduler can run
            code on its hosts.
        shares_machines: Whether several Dask workers may be on the same machine.

    """

    scheduler: str
    worker_count: int
    trusts_network: bool
    shares_machines: bool = True
    _client_stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def connect_hosts(self, wait_s: float) -> Sequence[str]:
        """Connect to the scheduler, wait for its Dask workers, and return the workers' names.

        Waits for at most `wait_s` seconds.

        Raises:
            HostError: The scheduler cannot be reached, or another number of workers than expected
                has joined. Or strangers could run code through the scheduler, and the user does not
                accept this risk. Or a worker has a nanny (a process of Dask that restarts it).
            IncomparableHostsError: The versions of Python or Dask differ.

        """
        address = _scheduler_address(self.scheduler, wait_s)
        self._check_scheduler_is_protected(address)
        # Dask would log errors to the terminal that this process reports itself.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        # A TypeError means that there is no certificate for tls://, and a ValueError that Dask
        # cannot read the address.
        errors = (OSError, RuntimeError, TypeError, ValueError)
        with storage.reraise_as(HostError, *errors, where=f"{self.scheduler}: "):
            self._client = self._client_stack.enter_context(Client(address))
        self._check_scheduler_is_protected(self._client.scheduler_info()["address"])
        with contextlib.suppress(TimeoutError):
            self._client.wait_for_workers(self.worker_count, timeout=wait_s)
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        if len(workers) != self.worker_count:
            raise HostError(
                f"{self.scheduler}: {len(workers)} of {self.worker_count} Dask workers joined "
                f"within {wait_s:g} s; expected as many as --processes"
            )
        for worker in workers.values():
            if worker["nanny"]:
                raise HostError(
                    f"Dask worker {worker['name']} has a nanny, which sets OMP_NUM_THREADS=1 and "
                    "the like for it; start it with --no-nanny"
                )
        self._addresses = _addresses_by_name(self._client, workers)
        _check_versions(self._client, self._addresses)
        return list(self._addresses)

    def connect(self, name: str, wait_s: float) -> DaskLink:
        """Start a Python process on the host of the Dask worker `name`; return the connection.

        Raises ConnectionError if the worker has left, or if the process cannot be started within
        `wait_s` seconds.
        """
        address = self._addresses[name]
        if address not in self._client.scheduler_info(n_workers=-1)["workers"]:
            raise ConnectionError("its Dask worker has left the cluster")
        created = self._client.submit(
            HostPipe, BOOTSTRAP_CODE, actor=True, workers=[address], pure=False
        )
        # The constructor of HostPipe can fail, and Dask can lose the worker.
        with storage.reraise_as(ConnectionError, Exception, where="its Dask worker failed: "):
            actor = created.result(wait_s)
        return DaskLink(self._client, actor, urlsplit(address).hostname or "")

    def close(self) -> None:
        """Close Dask's client, so that Dask releases all actors."""
        self._client_stack.close()

    def _check_scheduler_is_protected(self, address: str) -> None:
        """Raise HostError if strangers could run code through the scheduler at `address`.

        A scheduler is protected if `address` begins with ``tls://`` or is on this machine. If the
        user trusts the network, every scheduler is accepted.
        """
        is_local = urlsplit(address).hostname in ("localhost", "127.0.0.1", "::1")
        if not (is_local or address.startswith("tls://") or self.trusts_network):
            raise HostError(
                f"whoever reaches {address} can run programs on its hosts; "
                "expected tls://, or --cluster-trust-network in a network that you trust"
            )


def _scheduler_address(scheduler: str, wait_s: float) -> str:
    """Return the address of the Dask scheduler, such as ``tcp://10.0.0.2:8786``.

    `scheduler` is the address, or the path of the scheduler file that contains the address. Raises
    HostError if the file still cannot be read after `wait_s` seconds.
    """
    end_s, path = time.monotonic() + wait_s, Path(scheduler)
    while "://" not in scheduler:
        try:
            return str(json.loads(storage.read(path))["address"])
        except (ValueError, KeyError, TypeError) as error:
            if time.monotonic() >= end_s or (path.exists() and not path.is_file()):
                raise HostError(
                    f"{scheduler}: expected the file that `dask scheduler --scheduler-file` writes "
                    f"({error})"
                ) from error
        time.sleep(_POLL_INTERVAL_S)
    return scheduler


def _addresses_by_name(client: Any, workers: Mapping[str, Any]) -> dict[str, str]:
    """Return a mapping from the names of Dask workers to their addresses, in the order of names.

    Shorter names come first: ``node2`` comes before ``node10``. The name of a worker is its --name,
    or the name of its host. `workers` maps the address of each worker to Dask's description of the
    worker. Raises HostError if two workers have the same name.
    """
    hosts = client.run(platform.node)
    # The default name of a worker is its address.
    names = [str(hosts.get(worker["name"], worker["name"])) for worker in workers.values()]
    if len(set(names)) < len(names):
        raise HostError(
            f"two Dask workers on {max(names, key=names.count)} have no --name; expected one "
            "worker on each host, or a name for each"
        )
    ordered = sorted(zip(map(len, names), names, workers))
    return {name: address for _, name, address in ordered}


def _check_versions(client: Any, addresses: Mapping[str, str]) -> None:
    """Raise IncomparableHostsError if a Dask worker has another version of Python or Dask.

    This process sends code to the workers, and the code runs only under the same version of Python.
    `addresses` maps the name of each worker to its address.
    """
    versions = client.get_versions()
    ours = _versions_text(versions["client"])
    for name, address in addresses.items():
        # A worker that has just left the cluster has no versions.
        theirs = _versions_text(versions["workers"].get(address, versions["client"]))
        if theirs != ours:
            raise IncomparableHostsError(
                f"Dask worker {name} has {theirs}; this session has {ours}"
            )


def _versions_text(software: Any) -> str:
    """Return a text such as ``Python 3.12 and distributed 2025.5.1`` with versions of a process.

    `software` is Dask's description of the software of the process.
    """
    python = ".".join(software["host"]["python"].split(".")[:2])
    return f"Python {python} and distributed {software['packages']['distributed']}"
