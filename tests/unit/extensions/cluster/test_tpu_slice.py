"""The hosts of a TPU slice, read from variables or from the metadata server."""

from __future__ import annotations

import pytest

from busbw.extensions.cluster import settings

ENDPOINTS = "unknown:unknown:10.0.0.1,unknown:unknown:10.0.0.2,broken"


@pytest.mark.parametrize(
    ("environment", "has_chips", "hosts"),
    [
        ({"TPU_WORKER_HOSTNAMES": "t0, t1"}, False, ("t0", "t1")),
        ({}, True, ("10.0.0.1", "10.0.0.2", "")),
        ({}, False, ()),
        ({"TPU_SKIP_MDS_QUERY": "1"}, True, ()),
        ({"TPU_WORKER_HOSTNAMES": "t0,t1", "TPU_PROCESS_BOUNDS": "1,1,1"}, True, ()),
    ],
)
def test_the_hosts_of_a_tpu_slice_are_read_from_variables_or_from_the_metadata_server(
    environment: dict[str, str],
    has_chips: bool,
    hosts: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "fetch_slice_endpoints", lambda: ENDPOINTS)
    assert settings.find_slice_hosts(environment, has_chips) == hosts
