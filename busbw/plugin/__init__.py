"""The pytest plugin, alone to import pytest. Nothing imports it; `conftest.py` names it."""

from .collection import pytest_collection_finish, pytest_generate_tests, pytest_pycollect_makeitem
from .config import (
    pytest_addhooks,
    pytest_addoption,
    pytest_configure,
    pytest_load_initial_conftests,
)
from .items import (
    SessionItem,
    busbw_compiled,
    busbw_verdict,
    pytest_benchmark_group_stats,
    pytest_benchmark_update_json,
    pytest_collection_modifyitems,
    pytest_report_teststatus,
    pytest_runtest_makereport,
)
from .phases import (
    pytest_deselected,
    pytest_itemcollected,
    pytest_runtestloop,
    pytest_sessionfinish,
    pytest_sessionstart,
)
from .terminal import pytest_report_collectionfinish, pytest_terminal_summary

__all__ = [
    "SessionItem",
    "busbw_compiled",
    "busbw_verdict",
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_benchmark_group_stats",
    "pytest_benchmark_update_json",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_deselected",
    "pytest_generate_tests",
    "pytest_itemcollected",
    "pytest_load_initial_conftests",
    "pytest_pycollect_makeitem",
    "pytest_report_collectionfinish",
    "pytest_report_teststatus",
    "pytest_runtest_makereport",
    "pytest_runtestloop",
    "pytest_sessionfinish",
    "pytest_sessionstart",
    "pytest_terminal_summary",
]
