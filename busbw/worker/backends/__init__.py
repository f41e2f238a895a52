"""The only rooms that may import a framework, each behind the narrow door of `base`.

A back end is imported only when it is asked for: it may be absent, heavy, or crash on import.
"""

from __future__ import annotations

from typing import Any

from busbw.model import Device

from .base import AbstractBackend
from .compiler import AbstractCompiler
from .trainer import AbstractTrainer

# Frameworks whose compilers work without the hardware that they are for.
COMPILERS = ("xla", "fake_xla")

# Those that train in groups of processes with roles: a perceptron by parameter servers, or a
# convolutional net by each strategy of `tf.distribute`.
TRAINERS = ("tensorflow_ps", "fake_ps", "tensorflow_strategies", "fake_strategies")


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


def load_compiler(name: str) -> AbstractCompiler:
    """The compilers called `name`: ``xla`` those that JAX has, ``fake_xla`` made-up ones."""
    if name == "xla":
        from .jax_compiler import JaxCompiler

        return JaxCompiler()
    if name == "fake_xla":
        from .fake_compiler import FakeCompiler

        return FakeCompiler()
    raise ValueError(f"no compilers called {name!r}; there are {', '.join(COMPILERS)}")


def load_trainer(name: str) -> AbstractTrainer[Any, Any]:
    """The trainer called `name`, one of TRAINERS; those called ``fake`` are made up."""
    if name == "tensorflow_ps":
        from .tensorflow_parameter_server import TensorflowTrainer

        return TensorflowTrainer()
    if name == "fake_ps":
        from .fake_trainer import FakeTrainer

        return FakeTrainer()
    if name == "tensorflow_strategies":
        from .tensorflow_strategies import TensorflowStrategyTrainer

        return TensorflowStrategyTrainer()
    if name == "fake_strategies":
        from .fake_strategies import FakeStrategyTrainer

        return FakeStrategyTrainer()
    raise ValueError(f"no trainer called {name!r}; there are {', '.join(TRAINERS)}")
