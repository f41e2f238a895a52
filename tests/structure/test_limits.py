"""No package holds more code, or more places that must be read twice, than `limits.json` allows."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.structure import limits, sources

# A statement packed into an expression saves nothing.
_NODES_PER_STATEMENT = 13.2


@pytest.fixture(scope="module")
def measured() -> dict[str, Counter[str]]:
    return limits.measure(sources.python_files())


def test_each_package_is_within_its_limits_of_code_size_and_language(
    measured: dict[str, Counter[str]],
) -> None:
    assert limits.exceeded(measured, limits.read()) == []


def test_the_statements_of_busbw_are_not_packed_into_large_expressions(
    measured: dict[str, Counter[str]],
) -> None:
    ratio = measured["busbw"]["nodes"] / measured["busbw"]["statements"]
    assert round(ratio, 1) <= _NODES_PER_STATEMENT


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("x = 1", "statements"),
        ("def run(): ...", "functions"),
        ("found = 1", "banned_names"),
        ("def _one(): ...", "banned_names"),
        ("class Found: ...", "banned_names"),
        ("def run(asked): ...", "banned_names"),
        ("for item in (): ...", "vague_names"),
        ('def run():\n    """What is run."""', "fragments"),
        ('print("accepted are a and b")', "accepted_is"),
    ],
)
def test_every_additional_statement_or_banned_name_or_bad_docstring_exceeds_a_limit(
    line: str, name: str
) -> None:
    package = {"busbw/judge": limits.measure([("busbw/judge/rule.py", line)])["busbw/judge"]}
    assert name in str(limits.exceeded(package, {"busbw/judge": {"statements": 0}}))
    allowed = {"busbw/judge": dict(package["busbw/judge"])}
    assert limits.exceeded(package, allowed) == []


def test_a_new_extension_needs_no_size_limits_and_is_not_in_the_sums_of_packages() -> None:
    measured = limits.measure([("busbw/extensions/load/__init__.py", "x = 1\n" * 300)])
    assert limits.exceeded(measured, {"busbw": {}}) == []
    measured["extensions/load"]["statements"] += 1
    assert len(limits.exceeded(measured, {"busbw": {}})) == 1
