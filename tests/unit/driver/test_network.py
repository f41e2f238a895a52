"""Members of a group reach each other without a proxy; a sentence says where they cannot."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from busbw.driver.local import free_ports, proxy_exception, worker_environment
from busbw.driver.transport import HostError
from busbw.model.machine import ClusterMember
from tests.helpers.workers import starter

HOSTS = ("10.0.0.1", "fd00::1")
LISTED = "10.0.0.1,fd00::1"
MEMBER = ClusterMember(index=1, addresses=("10.0.0.1:1", "10.0.0.1:2", "[fd00::1]:3"))


@pytest.mark.parametrize(
    ("user", "listed"),
    [
        ({}, LISTED),
        ({"NO_PROXY": "c"}, f"c,{LISTED}"),
        ({"no_proxy": "a,b", "NO_PROXY": "c"}, f"a,b,{LISTED}"),
        ({"no_proxy": "a", "no_grpc_proxy": "d"}, f"d,{LISTED}"),
    ],
)
def test_the_hosts_of_a_group_are_added_to_the_list_of_hosts_without_a_proxy_for_grpc(
    user: Mapping[str, str], listed: str
) -> None:
    assert proxy_exception(user, HOSTS) == {"no_grpc_proxy": listed}


def test_a_worker_of_a_group_bypasses_the_proxy_and_a_single_worker_keeps_the_proxy() -> None:
    base = {"http_proxy": "http://127.0.0.1:9", "NO_PROXY": "a"}
    member = worker_environment(starter(), base, MEMBER)
    assert (member["no_grpc_proxy"], member["NO_PROXY"]) == (f"a,{LISTED}", "a")
    assert member["http_proxy"] == base["http_proxy"]
    single = worker_environment(starter(), base)
    assert (single["NO_PROXY"], single.get("no_grpc_proxy")) == ("a", None)


def test_a_worker_address_that_the_host_does_not_have_is_refused() -> None:
    with pytest.raises(HostError, match=r"192\.0\.2\.1 .*no network interface of this host"):
        free_ports(1, "192.0.2.1", socket.AF_INET)
