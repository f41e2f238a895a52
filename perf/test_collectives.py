"""Collectives. Everything is measured before the first test; each test reads its own verdict."""


def test_collective(busbw_verdict):
    """The collective of this payload fits in memory and is as fast as its baseline."""
    assert not busbw_verdict.failed
