"""What compilers make of the same programs for chips that need not be here: with --topology."""


def test_compiled(compiled):
    """It compiles, fits in memory, and is the collective and the algorithm that it was."""
    assert not compiled.failed
