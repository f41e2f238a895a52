"""Models by name: how many parameters are trained, and who says so.

None where no source was found: no figure is better than a made-up one.
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
    Model(name="resnext-110", parameters=None, source=_NAMED),
    Model(name="inception-bn", parameters=None, source=_NAMED),
    Model(name="seq2seq", parameters=None, source=_NAMED),
    Model(name="cnn-text-classification", parameters=None, source=_NAMED),
    Model(name="dssm", parameters=None, source=_NAMED),
    Model(name="wlm", parameters=None, source=_NAMED),
)


def model_of(name: str) -> Model | None:
    """The model of that name, however it is capitalised; None for one that is not known."""
    return next((one for one in MODELS if one.name == name.lower()), None)


def parameters_of(shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """How many values each tensor has: the product of its extents, 1 for a scalar."""
    return {name: math.prod(shape) for name, shape in shapes.items()}
