"""Models by name, and counting by shapes."""

from __future__ import annotations

import pytest

from busbw.studies.estimate.catalog import DTYPE_BYTES, MODELS, model_of, parameters_of


def _parameters(name: str) -> int:
    model = model_of(name)
    assert model is not None and model.parameters is not None
    return model.parameters


def test_estimating_placement_resnet_50_trains_25_583_592_parameters() -> None:
    assert _parameters("ResNet-50") == 25_583_592


def test_distributed_tensorflow_vgg_16_has_138_36_m_parameters() -> None:
    assert round(_parameters("VGG-16") / 1e6, 2) == 138.36


def test_distributed_tensorflow_says_553_44_mb_and_reckons_with_553_36() -> None:
    assert 138.36 * DTYPE_BYTES["float32"] == pytest.approx(553.44)
    assert _parameters("vgg-16") * 4 / 1e6 == pytest.approx(553.43, abs=0.005)
    assert 553.36 < _parameters("vgg-16") * 4 / 1e6 < 553.44


def test_vgg_16_counted_by_its_layers_is_the_figure() -> None:
    channels = [(3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 256)]
    channels += [(256, 512), *[(512, 512)] * 5]
    dense = [(512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)]
    shapes: dict[str, tuple[int, ...]] = {
        f"conv{i}": (3, 3, *pair) for i, pair in enumerate(channels)
    }
    shapes |= {f"dense{i}": pair for i, pair in enumerate(dense)}
    shapes |= {f"{name}/bias": (shape[-1],) for name, shape in list(shapes.items())}
    assert sum(parameters_of(shapes).values()) == _parameters("vgg-16")


def test_what_no_source_counts_is_unknown_and_every_model_says_whose_word_it_is() -> None:
    unknown = {model.name for model in MODELS if model.parameters is None}
    assert {"dssm", "wlm", "seq2seq", "resnext-110"} <= unknown
    assert all(model.source for model in MODELS)
    assert model_of("gpt-17") is None


def test_a_scalar_is_one_parameter() -> None:
    assert parameters_of({"a": [], "b": [512, 512]}) == {"a": 1, "b": 262144}
