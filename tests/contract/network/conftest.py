"""Hosts are made only where they are asked for: `tox -e hosts`. Else these tests skip, with why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.network.debian import missing_packages
from tests.contract.network.namespaces import missing
from tests.contract.network.network import Network, network
from tests.contract.network.sessions import Place
from tests.contract.network.sshd import Ssh, sshd


@pytest.fixture
def on_linux() -> None:
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture
def two(on_linux: None) -> Iterator[Network]:
    """Two hosts, 5 ms apart, with 200 Mbit/s each way."""
    with network(2) as made:
        yield made


@pytest.fixture
def installed(on_linux: None) -> None:
    if packages := missing_packages():
        pytest.skip(
            f"not installed: {', '.join(packages)}; `python -m tests.contract.network.debian`"
        )


@pytest.fixture
def reached(installed: None, two: Network, tmp_path: Path) -> Iterator[Ssh]:
    with sshd(two.hosts, tmp_path) as ssh:
        yield ssh


@pytest.fixture
def place(two: Network, reached: Ssh, tmp_path: Path) -> Place:
    """Sessions on the first host, from which ssh leads to both."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    return Place(host=two.hosts[0], folder=folder)
