"""Memory that training keeps for each parameter: weights, gradients, the optimizer's state.

Bytes per parameter; activations are not in it, and neither are buffers for communication.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Optimizer(str, enum.Enum):
    """What updates the parameters: it keeps no, one or two values for each."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"


class Precision(str, enum.Enum):
    """`mixed`: 16 bits for weights and gradients, float32 for a copy of the weights and the state.

    `half`: 16 bits (bfloat16, float16) for everything.
    """

    FLOAT32 = "float32"
    MIXED = "mixed"
    HALF = "half"


@dataclass(frozen=True, kw_only=True, slots=True)
class BytesPerParameter:
    """Bytes for each parameter; `copy` is the float32 copy of 16-bit weights."""

    weights: int
    gradients: int
    copy: int
    state: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gradients + self.copy + self.state


_STATE_VALUES = {Optimizer.SGD: 0, Optimizer.MOMENTUM: 1, Optimizer.ADAM: 2}


def bytes_per_parameter(optimizer: Optimizer, precision: Precision) -> BytesPerParameter:
    """4 + 4 + 8 = 16 for Adam in float32, 2 + 2 + 4 + 8 = 16 in mixed precision.

    Momentum keeps one value per parameter, Adam two (momentum and variance). Source:
    "placement的估计" (parameters 4, gradients 4, momentum and variance 8); S. Rajbhandari et al.,
    "ZeRO: memory optimizations toward training trillion parameter models", SC 2020, section 3.1,
    for mixed precision.
    """
    wide = 2 if precision is Precision.HALF else 4
    narrow = 4 if precision is Precision.FLOAT32 else 2
    return BytesPerParameter(
        weights=narrow,
        gradients=narrow,
        copy=4 if precision is Precision.MIXED else 0,
        state=wide * _STATE_VALUES[optimizer],
    )
