"""The only rooms that may import a framework, each behind the narrow door of `base`.

A back end is imported only when it is asked for: it may be absent, heavy, or crash on import.
"""

from __future__ import annotations

from busbw.model import Device, Place

from .base import AbstractBackend
from .compiler import AbstractCompiler
from .trainer import AbstractTrainer


def load(framework: str, device: Device | None, ranks: int | None) -> AbstractBackend:
    """The back end of `framework`, opened on `device` (None: whatever there is) with `ranks`.

    Raises MeasuringError UNAVAILABLE where the framework is too old.
    """
    if framework == "jax":
        from . import jax_versions

        # Before what an older JAX cannot even import.
        jax_versions.check()
        from .jax_backend import JaxBackend

        return JaxBackend(device, ranks)
    if framework == "tensorflow":
        from . import tensorflow_versions

        tensorflow_versions.check()
        from .tensorflow_backend import TensorflowBackend

        return TensorflowBackend(device, ranks)
    if framework == "fake":
        from .fake import FakeBackend

        return FakeBackend(device, ranks)
    raise ValueError(f"no back end for {framework!r}; there are jax, tensorflow and fake")


def load_compiler(framework: str) -> AbstractCompiler:
    """The compilers of `framework`: those that JAX has, or scripted ones."""
    if framework == "jax":
        from .jax_compiler import JaxCompiler

        return JaxCompiler()
    if framework == "fake":
        from .fake_compiler import FakeCompiler

        return FakeCompiler()
    raise ValueError(f"{framework!r} compiles nothing; jax and fake do")


def load_trainer(framework: str, place: Place) -> AbstractTrainer:
    """What takes part, at `place`, in a group of processes that train."""
    if framework == "tensorflow":
        from .tensorflow_trainer import TensorflowTrainer

        return TensorflowTrainer(place)
    if framework == "fake":
        from .fake_trainer import FakeTrainer

        return FakeTrainer(place)
    raise ValueError(f"{framework!r} trains nothing in groups; tensorflow and fake do")
