"""--program: the collectives of the user's own program, listed and compared."""

from __future__ import annotations

import json
import os

import jsonschema
import pytest

from tests.contract.compiled.fake_compiler import compiled, outcomes, script
from tests.helpers import ssh
from tests.helpers.session_folder import ROOT, Folder, Ran
from tests.helpers.sweep import sweep
from tests.unit.extensions.program.recorded import dump, mesh_of

STEP = "train.py:step"
TRAIN = "def step(devices): ...\n\nraise AssertionError('only a worker may import it')\n"
ID = "v5e:2x4-fake-program-train-step"


def _program(folder: Folder, name: str, *options: str, exit_code: int = 0, **then: object) -> Ran:
    """Run a session whose fake compiler returns a program that a real compiler once made."""
    (folder.path / "train.py").write_text(TRAIN)
    (folder.path / "step.txt").write_text(dump(name))
    hlo = str(folder.path / "step.txt")
    script(folder, {"program": STEP, "hlo": hlo, "mesh": mesh_of(name), **then})
    return compiled(folder, f"--program={STEP}", *options, exit_code=exit_code)


def test_a_compiled_user_program_has_a_row_with_a_source_line_for_each_collective(
    folder: Folder,
) -> None:
    ran = _program(folder, "tensor_parallel.v5e_2x4")
    assert outcomes(ran) == {ID: "NO_BASELINE"}
    assert "v5e:2x4: fake program train-step, 8 ranks by fake 1" in ran.text
    rows = [" ".join(line.split()) for line in ran.text.splitlines()]
    assert "program/steps.py:76" in ran.text
    assert [row.partition(" program/")[0] for row in rows if row.startswith("all-reduce")] == [
        "all-reduce float32 4194308 along data 4 1 per step 6.0 MiB synchronous",
        "all-reduce float32 256K along model 2 1 per step 256.0 KiB synchronous",
        "all-reduce bfloat16 128K along model 2 2 per step 256.0 KiB synchronous",
    ]
    assert "a step: 4.5 MiB of payloads, 6.5 MiB over each rank's link in rings" in ran.text


def test_the_results_of_a_compiled_user_program_list_its_collectives_and_conform_to_the_schema(
    folder: Folder,
) -> None:
    ran = _program(folder, "fsdp.h100")
    schema = json.loads((ROOT / "docs" / "compiled.schema.json").read_text())
    jsonschema.validate(ran.results, schema)
    (case,) = ran.cases
    assert case["spec"]["program"] == STEP
    uses = case["program"]["now"]["uses"]
    assert [(use["kind"], use["times"], use.get("axes")) for use in uses] == [
        ("all_gather", 4, "data"),
        ("reduce_scatter", 4, "data"),
        ("all_reduce", 1, "data"),
    ]


def test_a_changed_collective_of_a_user_program_is_named_with_its_source_line(
    folder: Folder,
) -> None:
    _program(folder, "fsdp.v6e_2x4", "--update-baselines")
    (path,) = folder.path.glob("baselines/compiled/*/8r-2x4/fake.program.all.train-step.json")
    before = path.read_bytes()
    assert outcomes(_program(folder, "fsdp.v6e_2x4")) == {ID: "PASS"}
    ran = _program(folder, "fsdp.tpu7x_2x2x1", exit_code=1)
    assert outcomes(ran) == {ID: "CHANGED"}
    label = "fake v5e:2x4 train-step"
    assert f"1 CHANGED: {label}: reduce-scatter of bfloat16 4M along data: " in ran.text
    for text in (
        "all-gather of bfloat16 2M along data: synchronous -> asynchronous (program/steps.py:52)",
        "reduce-scatter of bfloat16 4M along data: 4 per step -> none (program/steps.py:49)",
        "reduce-scatter of bfloat16 2M along data: none -> 8 per step (program/steps.py:49)",
    ):
        assert text in ran.text
    assert path.read_bytes() == before
    accepted = _program(folder, "fsdp.tpu7x_2x2x1", "--accept-compiled-changes")
    assert outcomes(accepted) == {ID: "CHANGED"}


def test_a_changed_user_program_names_the_arguments_whose_bytes_grew(folder: Folder) -> None:
    argument, grown_argument = "%param.5 = bf16[64,512]", "%param.5 = bf16[512,512]"
    _program(folder, "fsdp.v6e_2x4", "--update-baselines")
    (folder.path / "step.txt").write_text(
        dump("fsdp.tpu7x_2x2x1").replace(argument, grown_argument)
    )
    ran = compiled(folder, f"--program={STEP}", exit_code=1)
    assert outcomes(ran) == {ID: "CHANGED"}
    assert "argument 2, `rows`: 64.0 KiB -> 512.0 KiB" in ran.text
    assert "`weights[" not in ran.text
    # Larger arguments alone are no change.
    (folder.path / "step.txt").write_text(dump("fsdp.v6e_2x4").replace(argument, grown_argument))
    assert outcomes(compiled(folder, f"--program={STEP}", exit_code=0)) == {ID: "PASS"}
    # A baseline from before arguments were stored is compared by its collectives alone.
    (path,) = folder.path.glob("baselines/compiled/*/8r-2x4/fake.program.all.train-step.json")
    document = json.loads(path.read_text())
    assert len(document["entries"][0]["compiled"].pop("arguments")) == 3
    path.write_text(json.dumps(document))
    _program(folder, "fsdp.v6e_2x4")
    assert "`rows`" not in _program(folder, "fsdp.tpu7x_2x2x1", exit_code=1).text


@pytest.mark.parametrize(
    ("then", "outcome", "words"),
    sweep(
        [
            ("error", "COMPILE_ERROR", "INTERNAL: made up"),
            ("out_of_memory", "OUT_OF_MEMORY", "exceeds available HBM (15.75G)"),
            ("exit", "FAILED", "crashed"),
            ("kill", "FAILED", "killed"),
        ]
    ),
)
def test_a_user_program_has_an_outcome_even_if_its_compiler_ends_early(
    folder: Folder, then: str, outcome: str, words: str
) -> None:
    ran = _program(folder, "experts.v5e_2x4", exit_code=1, then=then)
    assert outcomes(ran) == {ID: outcome}
    assert words in ran.text


@pytest.mark.exhaustive
def test_a_user_program_that_lost_its_collectives_is_reported_as_changed(folder: Folder) -> None:
    text = "HloModule x\n\nENTRY %m (p: f32[]) -> f32[] {\n  %p = f32[] copy(%p)\n}\n"
    _program(folder, "experts.v5e_2x4", "--update-baselines")
    (folder.path / "none.txt").write_text(text)
    script(folder, {"program": STEP, "hlo": str(folder.path / "none.txt"), "mesh": {}})
    ran = compiled(folder, f"--program={STEP}", exit_code=1)
    assert "all-to-all of bfloat16 64K along expert: 2 per step -> none" in ran.text


@pytest.mark.exhaustive
def test_a_user_program_fails_if_the_compiler_returns_a_text_that_is_no_hlo(folder: Folder) -> None:
    (folder.path / "train.py").write_text(TRAIN)
    (folder.path / "odd.txt").write_text("no HLO")
    script(folder, {"program": STEP, "hlo": str(folder.path / "odd.txt")})
    ran = compiled(folder, f"--program={STEP}", exit_code=1)
    assert outcomes(ran) == {ID: "FAILED"}
    assert "program error: it is no optimized HLO, or it is cut" in ran.text


@pytest.mark.parametrize(
    ("options", "sentence"),
    sweep(
        [
            (["--program=train.py"], "expected FILE.py:FUNCTION or MODULE:FUNCTION"),
            (["--program=a-b:step"], "expected FILE.py:FUNCTION"),
            (["--program=train:1"], "expected FILE.py:FUNCTION"),
        ],
        in_gate=2,
    ),
)
def test_a_value_of_the_option_program_without_a_function_or_file_is_a_usage_error(
    folder: Folder, options: list[str], sentence: str
) -> None:
    (folder.path / "train.py").write_text(TRAIN)
    assert sentence in compiled(folder, *options, exit_code=4).sentence


def test_two_user_programs_of_the_same_name_are_a_usage_error(folder: Folder) -> None:
    for name in ("one", "two"):
        (folder.path / name).mkdir()
        (folder.path / name / "train.py").write_text(TRAIN)
    ran = compiled(
        folder, "--program=one/train.py:step", "--program=two/train.py:step", exit_code=4
    )
    assert "the same name: one/train.py:step, two/train.py:step" in ran.sentence


@pytest.mark.parametrize(
    "option", sweep(["--payloads=1K", "--collectives=all_gather", "--mesh=2x2"])
)
def test_an_option_that_chooses_collectives_is_a_usage_error_next_to_the_option_program(
    folder: Folder, option: str
) -> None:
    (folder.path / "train.py").write_text(TRAIN)
    ran = folder.pytest("perf", "--frameworks=fake", f"--program={STEP}", option, exit_code=4)
    flag = option.partition("=")[0]
    assert f"{flag}: not with --program" in ran.sentence


def _measured(folder: Folder, source: str, *options: str, exit_code: int = 0) -> Ran:
    words = ("--frameworks=fake", f"--program={source}", "--launches=2", "-p", "no:cacheprovider")
    return folder.pytest("perf", *words, *options, exit_code=exit_code)


def _script_program(folder: Folder, name: str, **other: object) -> None:
    (folder.path / "train.py").write_text(TRAIN)
    (folder.path / "step.txt").write_text(dump(name))
    program = {"hlo": str(folder.path / "step.txt"), "mesh": mesh_of(name)}
    folder.script(**{"ranks": 8, "latency_s": 1e-3, "program": program, **other})


def test_the_measured_times_of_all_collectives_of_a_user_program_are_added_up(
    folder: Folder,
) -> None:
    _script_program(folder, "tensor_parallel.cpu")
    ran = _measured(folder, STEP, "--update-baselines")
    assert ran.ids == {
        "fake-4x2-x-default-float32-8388612": "NO_BASELINE",
        "fake-4x2-y-default-float32-256K": "NO_BASELINE",
    }
    assert "busbw program: train-step: 4 collectives per step in 2 cases" in ran.text
    (note,) = (line for line in ran.text.splitlines() if "communication of" in line)
    assert note.startswith("note: communication of train-step: ")
    assert "all-reduce of float32 256K along model x 3 is 0." in note


def _with_ssh(folder: Folder) -> None:
    programs = ssh.written(folder.path / "programs")
    folder.environment.setenv("PATH", f"{programs}:{os.environ['PATH']}")


@pytest.mark.exhaustive
def test_two_hosts_compile_and_measure_a_user_program(folder: Folder) -> None:
    _with_ssh(folder)
    _script_program(folder, "tensor_parallel.cpu")
    ran = _measured(folder, STEP, "--hosts=one,two", f"--host-python={ssh.python()}")
    assert len(ran.ids) == 2
    assert ran.document["environment"]["key"]["hosts"] == 2
    assert not folder.left_over()


def test_an_unreachable_host_is_a_usage_error_in_a_session_with_a_user_program(
    folder: Folder,
) -> None:
    _with_ssh(folder)
    (folder.path / "train.py").write_text(TRAIN)
    ran = _measured(folder, STEP, f"--hosts={ssh.UNREACHED}", exit_code=4)
    assert "unreached: ssh: connect to host unreached" in ran.sentence


@pytest.mark.exhaustive
def test_a_collective_of_a_user_program_that_cannot_be_measured_separately_is_named(
    folder: Folder,
) -> None:
    _script_program(folder, "experts.cpu")
    text = (folder.path / "step.txt").read_text()
    (folder.path / "step.txt").write_text(text.replace(" all-to-all(", " ragged-all-to-all(", 1))
    assert (
        "busbw program: train-step: not measured: ragged-all-to-all of float32 128K along expert, "
        "1 per step: busbw has no such collective" in " ".join(_measured(folder, STEP).text.split())
    )


# Of a program that was compiled for one device, or whose compiler does not name how many.
ADD = "%add (a: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  ROOT %s = f32[] add(%a, %a)\n}\n\n"
OF_ONE_HEAD = (
    f"HloModule m, is_scheduled=true\n\n{ADD}ENTRY %m (p: c64[512]) -> c64[512] {{\n"
    "  %p = c64[512]{0} parameter(0)\n"
)


def test_the_option_program_measures_the_collectives_in_an_hlo_file(folder: Folder) -> None:
    (folder.path / "module_0001.jit_step.txt").write_text(dump("fsdp.cpu"))
    folder.script(ranks=8, latency_s=1e-3)
    ran = _measured(folder, "module_0001.jit_step.txt")
    assert "module_0001-jit_step: 13 collectives per step in 3 cases" in ran.text
    assert len(ran.ids) == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    sweep(
        [
            (OF_ONE_HEAD + "  ROOT %n = c64[512]{0} copy(%p)", "it has no collective"),
            (
                OF_ONE_HEAD
                + "  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups={{0},{1}}, to_apply=%add",
                "all-reduce of float32 32 in groups of 1, 1 per step: a group of one rank moves "
                "nothing",
            ),
        ]
    ),
    ids=["nothing", "groups of one"],
)
def test_an_hlo_file_without_a_collective_that_can_be_measured_is_a_usage_error(
    folder: Folder, text: str, sentence: str
) -> None:
    (folder.path / "dump.txt").write_text(text + "\n}\n")
    assert sentence in _measured(folder, "dump.txt", exit_code=4).sentence


MOVED = (
    "  %a = c64[512]{0} all-to-all(%p), replica_groups={}, dimensions={0}\n"
    "  ROOT %b = c64[512]{0} all-reduce(%a), replica_groups={}, to_apply=%add"
)


@pytest.mark.exhaustive
def test_a_collective_of_complex64_that_only_moves_bytes_is_measured_as_float32(
    folder: Folder,
) -> None:
    (folder.path / "dump.txt").write_text(OF_ONE_HEAD + MOVED + "\n}\n")
    folder.script(ranks=8, latency_s=1e-3)
    ran = _measured(folder, "dump.txt", "--ranks=4")
    (case,) = ran.cases
    assert (case["case"]["ranks"], case["case"]["dtype"]) == (4, "float32")
    text = " ".join(ran.text.split())
    assert (
        "dump: measured: all-to-all of complex64 4K in groups of 4: as float32, which moves the "
        "same bytes"
    ) in text
    assert (
        "dump: not measured: all-reduce of complex64 4K in groups of 4, 1 per step: expected a "
        "dtype of float32, bfloat16, float16, int32"
    ) in text


# A pipeline, which sends its activations to the next rank until a value of the batch says stop.
PIPELINE = """\
HloModule m, is_scheduled=true

%add (a: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %s = f32[] add(%a, %a)
}

%stage (h: f32[512]) -> f32[512] {
  %h = f32[512]{0} parameter(0)
  ROOT %n = f32[512]{0} collective-permute(%h), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}

%goes_on (g: f32[512]) -> pred[] {
  %g = f32[512]{0} parameter(0)
  ROOT %c = pred[] custom-call(%g), custom_call_target="f"
}

ENTRY %m (p: f32[512]) -> f32[512] {
  %p = f32[512]{0} parameter(0)
  %w = f32[512]{0} while(%p), condition=%goes_on, body=%stage
  ROOT %r = f32[512]{0} all-reduce(%w), replica_groups={}, to_apply=%add
}
"""


def test_a_chain_of_permutes_whose_length_is_unknown_is_named_as_left_out_of_the_sum_of_times(
    folder: Folder,
) -> None:
    (folder.path / "dump.txt").write_text(PIPELINE)
    folder.script(ranks=4, latency_s=1e-3)
    text = " ".join(_measured(folder, "dump.txt", "--ranks=4").text.split())
    assert "all-reduce of float32 2K in groups of 4 x 1 is 1.00 of it; each collective" in text
    assert "; left out: permute of float32 2K in groups of 4, 1 per iteration" in text
