"""Models by name: how many parameters are trained, who says so, and the memory that each takes.

None where no source was found: no figure is better than an invented one. Activations and buffers
for communication are not in the memory.
"""

from __future__ import annotations

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


# Bytes per parameter for weights and gradients, and what is kept of 16-bit weights in float32.
_PARAMETER_BYTES = {"float32": 4 + 4, "bfloat16": 2 + 2 + 4, "float16": 2 + 2 + 4}
# Values that an optimizer keeps of each parameter, in float32; Adam momentum and variance.
_STATE_VALUES = {"sgd": 0, "momentum": 1, "adam": 2}


def memory_by_optimizer(dtype: str) -> dict[str, int]:
    """Bytes per parameter for weights, gradients and state by optimizer; none for other types.

    4 + 4 + 8 = 16 for Adam in float32, 2 + 2 + 4 + 8 = 16 in mixed precision. Source:
    "placement的估计" (parameters 4, gradients 4, momentum and variance 8); S. Rajbhandari et al.,
    "ZeRO: memory optimizations toward training trillion parameter models", SC 2020, section 3.1,
    for mixed precision.
    """
    if dtype not in _PARAMETER_BYTES:
        return {}
    return {name: _PARAMETER_BYTES[dtype] + 4 * values for name, values in _STATE_VALUES.items()}
