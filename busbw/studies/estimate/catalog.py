"""Models and links by name: figures and their sources.

Parameters are the trained ones, whose gradients are exchanged. The bandwidth of a link is that of
one end in one direction: sales figures of NVLink count both directions, and are halved here.
"""

from __future__ import annotations

from collections.abc import Mapping

from busbw.hardware.chips import CHIPS

# Bytes of one gradient.
DTYPE_BYTES: Mapping[str, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}

# The first eight are named in "placement的估计"; names and bandwidths are those of the simulator
# of Y. Peng et al., "DL2: a deep learning-driven scheduler for deep learning clusters", IEEE TPDS
# 32, 2021 (trace.py in github.com/pengyanghua/DL2), which has float32 sizes in MB for them.
MODELS: Mapping[str, int] = {
    # Trainable, as keras.applications.ResNet50 counts them and "placement的估计" says.
    "resnet-50": 25_583_592,
    # As keras.applications.VGG16 counts them; 138.36 M in "tensorflow分布式".
    "vgg-16": 138_357_544,
    # DL2: 6.92, 42.1, 36.5, 24, 6 and 19.2 MB.
    "resnext-110": 1_730_000,
    "inception-bn": 10_525_000,
    "seq2seq": 9_125_000,
    "cnn-text-classification": 6_000_000,
    "dssm": 1_500_000,
    "wlm": 4_800_000,
    # A. Radford et al., "Language models are unsupervised multitask learners", 2019, counted by the
    # layers of table 2's largest (48 of width 1600, 50,257 words, 1024 positions).
    "gpt-2": 1_557_611_200,
    # A. Dubey et al., "The Llama 3 herd of models", 2024, counted by table 3's layers.
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    # A. Q. Jiang et al., "Mixtral of experts", 2024, counted by table 1's layers: all experts.
    "mixtral-8x7b": 46_702_792_704,
}

# Bytes per parameter for weights and gradients, and for the float32 copy of 16-bit weights.
_PARAMETER_BYTES = {"float32": 4 + 4, "bfloat16": 2 + 2 + 4, "float16": 2 + 2 + 4}
# Values that an optimizer keeps of each parameter, in float32; Adam momentum and variance.
_STATE_VALUES = {"sgd": 0, "momentum": 1, "adam": 2}


def memory_by_optimizer(dtype: str) -> dict[str, int]:
    """Bytes per parameter for weights, gradients and state by optimizer; none for other types.

    "placement的估计" (parameters 4, gradients 4, momentum and variance 8, in all 16); S.
    Rajbhandari et al., "ZeRO", SC 2020, section 3.1, for mixed precision.
    """
    if dtype not in _PARAMETER_BYTES:
        return {}
    return {name: _PARAMETER_BYTES[dtype] + 4 * values for name, values in _STATE_VALUES.items()}


# "placement的估计", after NVIDIA: links of a P100, V100 and A100, GB/s of one in both directions.
_NVLINKS = {"nvlink-1": (4, 40), "nvlink-2": (6, 50), "nvlink-3": (12, 50)}
# "placement的估计", MB/s between and inside machines; those of DL2's eight models, in this order.
_INTER_MB_PER_S = (91.875, 233.0, 59.5, 145.875, 120.125, 60.75, 92.125, 10.375)
_INTRA_MB_PER_S = (306.5, 427.75, 63.0, 1082.125, 181.125, 159.625, 65.625, 22.875)

# Bytes per second by name.
LINKS: Mapping[str, float] = {
    **{name: links * gb_per_s / 2 * 1e9 for name, (links, gb_per_s) in _NVLINKS.items()},
    # "placement的估计": 63 GiB/s, measured between a POWER9 and a V100.
    "nvlink-2-cpu": 63 * 2.0**30,
    # 16 lanes, one direction.
    "pcie-3": 16e9,
    # About 31 GiB/s, between two Xeons and between two POWER9.
    "upi": 31 * 2.0**30,
    "x-bus": 31 * 2.0**30,
    # 10 Gbit/s, from a network card through a switch to another.
    "10gbe": 1.25e9,
    # "tensorflow分布式": 1000 Mbit/s.
    "1gbe": 125e6,
    **{f"measured-intra-{i}": rate * 1e6 for i, rate in enumerate(_INTRA_MB_PER_S, 1)},
    **{f"measured-inter-{i}": rate * 1e6 for i, rate in enumerate(_INTER_MB_PER_S, 1)},
}


def known_links() -> dict[str, tuple[str, float]]:
    """Name and bytes per second of all links, by name in lower case; chips are links too."""
    chips = {one.device_kind: one.link_bytes_per_s or 0.0 for one in CHIPS}
    return {name.lower(): (name, rate) for name, rate in {**LINKS, **chips}.items() if rate}
