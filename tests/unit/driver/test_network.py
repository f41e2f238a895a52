"""Members of a group reach each other without a proxy; a sentence says where they cannot."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from busbw.driver.local import find_free_addresses, proxy_bypass_variables
from busbw.driver.transport import HostError

HOSTS = ("10.0.0.1", "fd00::1")
LISTED = "10.0.0.1,fd00::1"


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
    assert proxy_bypass_variables(user, HOSTS) == {"no_grpc_proxy": listed}


def test_a_worker_address_that_the_host_does_not_have_is_refused() -> None:
    with pytest.raises(HostError, match=r"192\.0\.2\.1 .*no network interface of this host"):
        find_free_addresses(1, "192.0.2.1")
