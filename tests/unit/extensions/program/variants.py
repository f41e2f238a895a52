"""The steps of `steps` with something changed: what must be found, and what moves no collective.

Each is the same text with one piece replaced, so that lines keep their numbers.
"""

from functools import partial
from pathlib import Path

_STEPS = Path(__file__).with_name("steps.py")


def _dropping(seed):
    """Half of what a layer gives is set to zero, as a seed says."""
    whole = "held = jax.nn.relu(held @ up) @ down\n"
    mask = f"jax.random.bernoulli(jax.random.key({seed}), 0.5, held.shape)"
    return whole, f"{whole[:-1]} * {mask}\n"


# The step, and what is replaced in it by what.
CHANGES = {
    "dropped_psum": ("data_parallel", 'jax.lax.psum(grads, "data")', "grads"),
    "replicated": (
        "fsdp",
        '_array(mesh, P(None, "data"), (LAYERS, WIDTH, HIDDEN), jnp.bfloat16)',
        "_array(mesh, P(), (LAYERS, WIDTH, HIDDEN), jnp.bfloat16)",
    ),
    "doubled_gather": ("fsdp", "scan(layer,", "scan(jax.checkpoint(layer),"),
    "wide": ("fsdp", "jnp.bfloat16", "jnp.float32"),
    "in_the_loop": (
        "fsdp",
        "held = jax.nn.relu(held @ up) @ down\n",
        "held = jax.nn.relu(held @ up) @ down - jnp.mean(held)\n",
    ),
    "uneven": (
        "fsdp",
        "(ROWS * len(devices), WIDTH), jnp.bfloat16",
        "(ROWS * 8 - 3, WIDTH), jnp.bfloat16",
    ),
    "renamed": ("fsdp", "held", "hidden"),
    "reordered": (
        "tensor_parallel",
        "value, grads = jax.value_and_grad(loss)(weights, rows)\n        return",
        "grads, value = jax.grad(loss)(weights, rows), loss(weights, rows)\n        return",
    ),
    "seeded": ("fsdp", *_dropping(seed=1)),
    "another_seed": ("fsdp", *_dropping(seed=2)),
    "another_name": ("experts", "step", "train_one_batch"),
}


def _changed(name, devices):
    step, old, new = CHANGES[name]
    text = _STEPS.read_text()
    begin = text.index(f"def {step}(")
    end = text.find("\n\n\ndef ", begin)
    body = text[begin:end].replace(old, new)
    assert body != text[begin:end], name
    names = {"__name__": "steps"}
    exec(compile(text[:begin] + body + text[end:], str(_STEPS), "exec"), names)
    return names[step](devices)


def __getattr__(name):
    if name not in CHANGES:
        raise AttributeError(name)
    return partial(_changed, name)
