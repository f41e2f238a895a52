"""Hosts on which somebody started Dask workers: on each an actor is the Host."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ipaddress
import json
import logging
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cloudpickle
from distributed import Client, get_worker

from busbw.driver.folder import Folder
from busbw.driver.transport import HostError, IncomparableHostsError

from . import bootstrap

_CONNECT_S = 30.0
_LOOK_S = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class DaskCluster:
    """A scheduler's address or scheduler file; `count` workers are waited for, or taken as found.

    `trusts_network`: the user says that everybody who reaches the scheduler may run code there.
    """

    scheduler: str
    count: int
    trusts_network: bool = False

    def engine(self, folder: Folder) -> DaskEngine:
        return DaskEngine(self)


# What a Dask worker measures of itself a hundred times a second; during a session each _SLOW_MS.
_OWN_MEASUREMENTS = ("tick", "profile")
_SLOW_MS = 1000.0
# The states of a Dask worker that is not closing.
_OPEN = ("running", "paused")


class HostActor:
    """A Host inside a Dask worker; it is sent by value, since busbw is not installed there.

    It ends once Dask has released the actor, as Dask does when its client is gone, even if that was
    killed.
    """

    def __init__(self, code: str, archive: bytes) -> None:
        names: dict[str, Any] = {"__name__": "busbw_bootstrap"}
        exec(code, names)
        self._host = names["host_of"](archive)
        self._worker = get_worker()
        self._watch: asyncio.Task[None] | None = None

    async def call(self, *request: Any) -> Any:
        if self._watch is None:
            self._watch = asyncio.create_task(self._end_with_session())
        return await self._host.call(*request)

    async def _end_with_session(self) -> None:
        callbacks = self._worker.periodic_callbacks
        slowed = [callbacks[name] for name in _OWN_MEASUREMENTS if name in callbacks]
        usual_ms = [callback.callback_time for callback in slowed]
        for callback in slowed:
            callback.callback_time = _SLOW_MS
        # A worker without a scheduler closes, and releases no actor.
        while self in self._worker.state.actors.values() and self._worker.status.name in _OPEN:
            await asyncio.sleep(_LOOK_S)
        self._host.close()
        for callback, time_ms in zip(slowed, usual_ms):
            callback.callback_time = time_ms


class DaskConnection:
    """The actor on one Dask worker, whose host has this `address`."""

    def __init__(self, client: Any, actor: Any, address: str) -> None:
        self.address = address
        self._client = client
        self._actor = actor

    def call(self, *request: Any) -> Future[tuple[Any, str]]:
        return asyncio.run_coroutine_threadsafe(
            self._called(*request), self._client.loop.asyncio_loop
        )

    async def _called(self, *request: Any) -> tuple[Any, str]:
        try:
            value, why = await self._actor.call(*request)
        except (OSError, RuntimeError, AttributeError) as error:
            # RuntimeError: Dask has lost the actor. AttributeError: it was closed here.
            raise ConnectionError(str(error)) from error
        return value, why

    def close(self) -> None:
        """Have Dask release the actor."""
        self._actor = None


class DaskEngine:
    """Connects to the workers of a Dask cluster, by the names that they were started with."""

    shares_machines = True

    def __init__(self, cluster: DaskCluster) -> None:
        self._cluster = cluster
        self._left = contextlib.ExitStack()
        self._addresses: dict[str, str] = {}

    def join(self, wait_s: float) -> Sequence[str]:
        end_s, count = time.monotonic() + wait_s, self._cluster.count
        self._client = self._left.enter_context(client_of(self._cluster, wait_s))
        while len(workers := workers_of(self._client)) < count:
            if time.monotonic() >= end_s:
                raise HostError(
                    f"{self._cluster.scheduler}: {len(workers)} of {count} Dask workers joined "
                    f"within {wait_s:g} s"
                )
            time.sleep(_LOOK_S)
        if len(workers) > count:
            raise HostError(
                f"{self._cluster.scheduler} has {len(workers)} Dask workers; expected {count}, the "
                "number of --processes"
            )
        _check_workers(workers)
        _check_versions(self._client, workers)
        self._addresses = self._named(workers)
        return list(self._addresses)

    def _named(self, workers: Mapping[str, Any]) -> dict[str, str]:
        """Return the address of each worker by its --name, else the name of its host, sorted."""
        unnamed = [address for address in workers if str(workers[address]["name"]) == address]
        hosts = self._client.run(platform.node, workers=unnamed) if unnamed else {}
        names = [hosts.get(address) or str(workers[address]["name"]) for address in workers]
        if len(set(names)) < len(names):
            raise HostError(
                f"two Dask workers on {max(names, key=names.count)} have no --name; expected one "
                "worker on each host, or a name for each"
            )
        return dict(sorted(zip(names, workers), key=lambda named: _numbered(named[0])))

    def connect(self, name: str, archive: bytes, wait_s: float) -> DaskConnection:
        if self._addresses[name] not in (workers := workers_of(self._client)):
            # A worker that was started again has another address.
            self._addresses |= self._named(workers)
        if self._addresses[name] not in workers:
            raise ConnectionError("its Dask worker has left the cluster")
        address, code = self._addresses[name], inspect.getsource(bootstrap)
        created = self._client.submit(
            HostActor, code, archive, actor=True, workers=[address], pure=False
        )
        try:
            actor = created.result(wait_s)
        except Exception as error:
            # Whatever its constructor raised there, or Dask for a worker that is gone.
            raise ConnectionError(str(error) or type(error).__name__) from error
        return DaskConnection(self._client, actor, urlsplit(address).hostname or "")

    def close(self) -> None:
        self._left.close()


@contextlib.contextmanager
def client_of(cluster: DaskCluster, wait_s: float) -> Iterator[Any]:
    """Connect to a scheduler. Raises HostError where it is not reached, or not protected."""
    address = _address_of(cluster.scheduler, wait_s)
    _check_protected(cluster, address)
    # It would log to the terminal what this process says itself.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        client = Client(address, timeout=_CONNECT_S)
    except (OSError, TypeError, RuntimeError) as error:
        # TypeError: there is no certificate for tls://.
        raise HostError(f"{cluster.scheduler}: {error}") from error
    with client:
        _check_protected(cluster, client.scheduler_info()["address"])
        yield client


def _address_of(scheduler: str, wait_s: float) -> str:
    """Return the address that `scheduler` is, or that is in the file of that name."""
    end_s = time.monotonic() + wait_s
    while "://" not in scheduler:
        try:
            return str(json.loads(Path(scheduler).read_text())["address"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            if time.monotonic() >= end_s:
                raise HostError(
                    f"{scheduler}: expected the file that `dask scheduler --scheduler-file` writes "
                    f"({error})"
                ) from error
        time.sleep(_LOOK_S)
    return scheduler


def _check_protected(cluster: DaskCluster, address: str) -> None:
    """Raise HostError if strangers who reach the scheduler could run code through it."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    is_here = host == "localhost" or _is_loopback(host)
    if not (parts.scheme == "tls" or is_here or cluster.trusts_network):
        raise HostError(
            f"{cluster.scheduler}: whoever reaches {address} can run programs on its hosts; "
            "expected tls://, or --cluster-trust-network in a network that you trust"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def count_of(cluster: DaskCluster) -> int:
    """Return how many workers a scheduler has now."""
    with client_of(cluster, 0.0) as client:
        return len(workers_of(client))


def workers_of(client: Any) -> dict[str, Any]:
    """Return what Dask knows of each worker, by its address."""
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


def _numbered(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which node2 is before node10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def _check_workers(workers: Mapping[str, Any]) -> None:
    for worker in workers.values():
        if worker["nanny"]:
            raise HostError(
                f"Dask worker {worker['name']} has a nanny, which sets OMP_NUM_THREADS=1 and the "
                "like for it; start it with --no-nanny"
            )


def _check_versions(client: Any, workers: Mapping[str, Any]) -> None:
    """Raise IncomparableHostsError where Python or Dask differ, before anything is sent."""
    versions = client.get_versions()
    known = {
        f"Dask worker {worker['name']}": versions["workers"].get(address)
        for address, worker in workers.items()
    }
    known["the Dask scheduler"] = versions["scheduler"]
    texts = {name: _version_text(version) for name, version in known.items() if version}
    ours = _version_text(versions["client"])
    other = [f"{name} has {text}" for name, text in texts.items() if text != ours]
    if other:
        raise IncomparableHostsError(f"{'; '.join(other)}; this session has {ours}")


def _version_text(version: Any) -> str:
    """Return the minor version of Python, and the version of Dask."""
    python = ".".join(version["host"]["python"].split(".")[:2])
    return f"Python {python} and distributed {version['packages']['distributed']}"
