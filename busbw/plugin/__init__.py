"""The pytest face: hooks and fixtures of a few lines each; what they decide is decided elsewhere.

The only room that imports pytest. Nobody imports it; `conftest.py` names it.
"""

from .benchmark import pytest_benchmark_update_json, pytest_collection_modifyitems
from .ending import pytest_sessionfinish
from .grid import pytest_collection_finish, pytest_generate_tests, pytest_pycollect_makeitem
from .items import SessionItem, compiled, verdict
from .loop import pytest_runtestloop
from .options import pytest_addoption
from .outcomes import pytest_report_teststatus, pytest_runtest_makereport
from .selecting import pytest_configure
from .terminal import pytest_report_header, pytest_terminal_summary

__all__ = [
    "SessionItem",
    "compiled",
    "pytest_addoption",
    "pytest_benchmark_update_json",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_pycollect_makeitem",
    "pytest_report_header",
    "pytest_report_teststatus",
    "pytest_runtest_makereport",
    "pytest_runtestloop",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "verdict",
]
