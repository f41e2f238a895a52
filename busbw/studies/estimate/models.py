"""Models by name: how many parameters are trained, who says so, and the memory that each takes.

None where no source was found: no figure is better than an invented one. Activations and buffers
for communication are not in the memory.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Bytes of one gradient.
DTYPE_BYTES: Mapping[str, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """`parameters` are the trainable ones, whose gradients are exchanged; None: unknown."""

    name: str
    parameters: int | None
    source: str


_NAMED = 'named in "placement的估计" without a number; several networks have this name'

MODELS = (
    Model(
        name="resnet-50",
        parameters=25_583_592,
        source='trainable, as keras.applications.ResNet50 counts them and "placement的估计" says; '
        "25,636,712 with the moving statistics, which are not exchanged",
    ),
    Model(
        name="vgg-16",
        parameters=138_357_544,
        source='as keras.applications.VGG16 counts them; 138.36 M in "tensorflow分布式", after '
        "https://dgschwend.github.io/netscope/#/preset/vgg-16",
    ),
    *(
        Model(name=name, parameters=None, source=_NAMED)
        for name in (
            "resnext-110",
            "inception-bn",
            "seq2seq",
            "cnn-text-classification",
            "dssm",
            "wlm",
        )
    ),
)


def model_of(name: str) -> Model | None:
    """The model of that name, however it is capitalised; None for one that is not known."""
    return next((one for one in MODELS if one.name == name.lower()), None)


def parameters_of(shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """How many values each tensor has: the product of its extents, 1 for a scalar."""
    return {name: math.prod(shape) for name, shape in shapes.items()}


class Optimizer(str, enum.Enum):
    """What updates the parameters."""

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


def memory_by_optimizer(dtype: str) -> dict[str, int]:
    """Bytes per parameter, for gradients of float32 or 16 bits; else none."""
    if dtype not in ("float32", "bfloat16", "float16"):
        return {}
    precision = Precision.FLOAT32 if dtype == "float32" else Precision.MIXED
    return {one.value: bytes_per_parameter(one, precision).total for one in Optimizer}
