"""Programs of users, compiled for chips that are not there: what changed, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.extensions.compiled.judge import program_differences
from busbw.extensions.compiled.mode import program_spec
from busbw.extensions.compiled.worker import CompiledProgram, CompileSpec
from busbw.extensions.program.worker_values import ProgramDifference
from busbw.model.case import dataclass_from
from busbw.model.launch import Failure
from busbw.model.words import FailureKind
from tests.helpers import compilers
from tests.helpers import frameworks as real
from tests.unit.extensions.program.test_inventory import EXPECTED, make_rows

pytestmark = [real.needs("jax"), real.needs("libtpu")]

STEPS = "tests/unit/extensions/program/steps.py"
VARIANTS = "tests/unit/extensions/program/variants.py"
USUAL = ("data_parallel", "fsdp", "tensor_parallel", "experts")

# What each fault must be called at, and where.
FAULTS: Mapping[str, tuple[str, ...]] = {
    "dropped_psum": (
        "all-reduce of float32 8388612 along data: ",
        "steps.py:3",
    ),
    "replicated": ("reduce-scatter of bfloat16 4M along data: ", "steps.py:"),
    "doubled_gather": (
        "all-gather of bfloat16 2M along data: 8 per step -> 16 per step (",
        "steps.py:",
    ),
    "wide": (
        "reduce-scatter of bfloat16 4M along data: bfloat16 4M -> float32 8M (",
        "steps.py:49",
    ),
    "in_the_loop": ("all-reduce of ", "per step (", "steps.py:49"),
}
# What moves nothing, and what it is compared with.
SILENT = {
    "renamed": "fsdp",
    "reordered": "tensor_parallel",
    "another_name": "experts",
    "another_seed": "seeded",
}

# What a user's module may do: its text, and what is said.
MODULES: Mapping[str, tuple[str, str]] = {
    "raises": (
        "def step(devices):\n    raise ValueError('no such\\nshape')\n",
        "ValueError: no such",
    ),
    "ends": ("import sys\n\ndef step(devices):\n    sys.exit(3)\n", "SystemExit: 3"),
    "is no Python": ("def step(devices:\n", "SyntaxError"),
    "lacks a module": ("import gone\n", "ModuleNotFoundError: No module named 'gone'"),
    "lacks the function": ("def other(devices): ...\n", "has no attribute 'step'"),
    "gives nothing": ("def step(devices): ...\n", "gives NoneType; expected what jax.jit"),
    "is not lowered": (
        "import jax\n\ndef step(devices):\n    return jax.jit(lambda x: x)\n",
        "expected what jax.jit(...).lower(...) gives",
    ),
    "takes other devices": (
        "import jax, jax.numpy as jnp\n\ndef step(devices):\n"
        "    return jax.jit(jnp.sum).lower(jnp.ones(8))\n",
        "it is made for other devices than those that it was given",
    ),
    "wants a larger mesh": (
        "import jax\n\ndef step(devices):\n    jax.make_mesh((16,), ('x',), devices=devices)\n",
        "ValueError: ",
    ),
}
# Files of the same name in folders of these names.
SAME = ("one", "two")
PAIR = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

print("a line that is no reply")

def step(devices):
    mesh = jax.make_mesh((len(devices),), ("x",), devices=devices,
                         axis_types=(jax.sharding.AxisType.Explicit,))
    rows = jax.ShapeDtypeStruct((1024,), jnp.float32, sharding=NamedSharding(mesh, P("x")))
    return jax.jit(lambda rows: jnp.sum(rows)), (rows,)
"""


LOOPS = """
from functools import partial
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

def step(devices):
    mesh = jax.make_mesh((len(devices),), ("x",), devices=devices)

    @partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    def run(rows):
        inner = lambda _, held: jax.lax.psum(held, "x") * 0.1
        outer = lambda _, held: jax.lax.fori_loop(0, 3, inner, held) + 1
        held = jax.lax.fori_loop(0, 4, outer, rows)
        held = jax.lax.cond(held[0] > 0, lambda h: jax.lax.pmax(h, "x"), lambda h: h, held)
        more, turn = lambda h: jnp.sum(h) < 1e3, lambda h: jax.lax.pmin(h, "x") + 1
        return jax.lax.while_loop(more, turn, held)

    rows = jax.ShapeDtypeStruct((8192,), jnp.float32, sharding=NamedSharding(mesh, P("x")))
    return jax.jit(run), (rows,)

def mapped(devices):
    rows = jax.ShapeDtypeStruct((len(devices), 1024), jnp.float32)
    return jax.pmap(lambda row: jax.lax.psum(row, "i"), "i", devices=devices), (rows,)
"""


def _answers(
    sources: Mapping[str, str], topology: str = "v5e:2x4", cache: Path | None = None
) -> dict[str, CompiledProgram | Failure]:
    specs = {
        name: dataclass_from(CompileSpec, program_spec("jax", source), topology=topology)
        for name, source in sources.items()
    }
    return compilers.compile_specs(specs, compilers.compilers([topology]), cache)


def _programs(
    names: Mapping[str, str], topology: str = "v5e:2x4", cache: Path | None = None
) -> dict[str, CompiledProgram]:
    answers = _answers(names, topology, cache)
    assert not [answer for answer in answers.values() if isinstance(answer, Failure)]
    return {name: answer for name, answer in answers.items() if isinstance(answer, CompiledProgram)}


def _steps(*names: str) -> dict[str, str]:
    return {name: f"{STEPS if name in USUAL else VARIANTS}:{name}" for name in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of user modules, each in a separate folder."""
    modules = tmp_path_factory.mktemp("modules")
    texts = {name: text for name, (text, _) in MODULES.items()}
    texts |= {"pair": PAIR, "loops": LOOPS}
    texts |= {name: f"def step(devices):\n    raise ValueError({name!r})\n" for name in SAME}
    for name, text in texts.items():
        (modules / name).mkdir()
        (modules / name / "train.py").write_text(text)
    return modules


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, CompiledProgram | Failure]:
    """Compile all modules, the examples, a training step, a fault and a renamed step."""
    sources = {name: f"{folder / name}/train.py:step" for name in ("pair", *SAME, *MODULES)}
    sources |= {name: f"{folder}/loops/train.py:{name}" for name in ("step", "mapped")}
    sources |= {name: f"examples/{name}.py:{name}" for name in ("dense_step", "fsdp_step")}
    return _answers(sources | _steps("fsdp", "wide", "renamed", "uneven"))


@pytest.fixture(scope="module")
def programs(answers: dict[str, CompiledProgram | Failure]) -> dict[str, CompiledProgram]:
    return {name: answer for name, answer in answers.items() if isinstance(answer, CompiledProgram)}


@pytest.fixture(scope="module")
def every_program() -> dict[str, CompiledProgram]:
    return _programs(_steps(*USUAL, *FAULTS, *SILENT, "seeded"))


@pytest.mark.exhaustive
def test_the_compiled_training_steps_contain_the_collectives_that_were_counted_by_hand(
    every_program: dict[str, CompiledProgram],
) -> None:
    for name in USUAL:
        assert make_rows(every_program[name].uses or ()) == EXPECTED[f"{name}.v5e_2x4"]


@pytest.mark.parametrize(
    ("example", "collectives"),
    [
        ("dense_step", ["all-reduce of float32 1M along data"]),
        (
            "fsdp_step",
            [
                "reduce-scatter of float32 8M along data",
                "all-gather of bfloat16 2M along data",
                "all-gather of bfloat16 2M along data",
            ],
        ),
    ],
)
def test_a_compiled_example_program_has_the_collectives_of_its_step(
    programs: dict[str, CompiledProgram], example: str, collectives: list[str]
) -> None:
    uses = programs[example].uses
    assert [use.name for use in uses] == collectives
    assert all(use.times == 1 and f"{example}.py:" in use.source for use in uses)


def _check_fault(programs: dict[str, CompiledProgram], fault: str) -> None:
    from tests.unit.extensions.program.variants import CHANGES

    changed = [change.text for change in _changes(programs, CHANGES[fault][0], fault)]
    expected = FAULTS[fault]
    assert any(all(word in text for word in expected) for text in changed), changed


def test_a_changed_collective_of_a_user_program_is_named_and_a_renamed_function_is_no_change(
    programs: dict[str, CompiledProgram],
) -> None:
    _check_fault(programs, "wide")
    assert _changes(programs, SILENT["renamed"], "renamed") == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_each_kind_of_changed_collective_of_a_user_program_is_named_with_its_line(
    every_program: dict[str, CompiledProgram], fault: str
) -> None:
    _check_fault(every_program, fault)


@pytest.mark.exhaustive
@pytest.mark.parametrize("variant", SILENT)
def test_a_change_of_a_user_program_that_changes_no_collective_is_not_reported(
    every_program: dict[str, CompiledProgram], variant: str
) -> None:
    assert _changes(every_program, SILENT[variant], variant) == []


def _changes(
    programs: dict[str, CompiledProgram], before: str, after: str
) -> list[ProgramDifference]:
    changes = program_differences(programs[before], programs[after])
    return [change for change in changes if "memory" not in change.name]


def test_a_module_of_a_user_without_a_usable_program_is_refused_with_a_message(
    answers: dict[str, CompiledProgram | Failure],
) -> None:
    texts = {name: text for name, (_, text) in MODULES.items()}
    for name, text in {**texts, "uneven": "should evenly divide"}.items():
        real.refused(answers[name], FailureKind.PROGRAM_ERROR, text)


def test_a_user_program_may_be_a_jitted_function_with_arguments_and_may_print(
    programs: dict[str, CompiledProgram], folder: Path
) -> None:
    (use,) = programs["pair"].uses or ()
    assert (use.kind, use.axes, use.payload_bytes) == ("all_reduce", "x", 4)
    # Nothing is left beside the user's own files.
    assert [path.name for path in (folder / "pair").iterdir()] == ["train.py"]


def test_the_number_of_runs_of_a_tpu_collective_is_counted_in_loops_and_branches(
    programs: dict[str, CompiledProgram],
) -> None:
    _check_loops(programs)


@pytest.mark.exhaustive
@real.needs("jax_plugins.xla_cuda13")
def test_the_number_of_runs_of_a_gpu_collective_is_counted_in_loops_and_branches(
    folder: Path,
) -> None:
    names = {name: f"{folder}/loops/train.py:{name}" for name in ("step", "mapped")}
    _check_loops(_programs(names, "h100:8"))


def _check_loops(programs: Mapping[str, CompiledProgram]) -> None:
    assert {use.name: use.times_text for use in programs["step"].uses} == {
        "all-reduce of float32 4K along x": "12 per step",
        "all-reduce (max) of float32 4K along x": "at most 1 per step",
        "all-reduce (min) of float32 4K along x": "1 per iteration",
    }
    (use,) = programs["mapped"].uses
    assert (use.payload_bytes, use.ranks, use.times) == (4096, 8, 1)


@pytest.mark.exhaustive
def test_a_program_from_the_cache_shows_the_current_line_numbers_of_its_source(
    tmp_path: Path,
) -> None:
    path, sources = tmp_path / "train.py", []
    for above in ("", "\n\n\n"):
        path.write_text(above + PAIR)
        (program,) = _programs({"train": f"{path}:step"}, cache=tmp_path / "cache").values()
        sources.append((program.uses or ())[0].source)
    first, second = (int(source.rpartition(":")[2]) for source in sources)
    assert second == first + 3


def test_two_files_of_the_same_name_in_different_folders_are_two_user_programs(
    answers: dict[str, CompiledProgram | Failure],
) -> None:
    for name in SAME:
        real.refused(answers[name], FailureKind.PROGRAM_ERROR, f"ValueError: {name}")
