"""The same programs compiled for chips that need not be attached. Only with --topology."""


def test_compiled(compiled):
    """It compiles, fits in memory, and has the same collective and algorithm as its baseline."""
    assert not compiled.failed
