"""--topology and --libtpu: compile for chips that are not attached, and compare the programs."""

from __future__ import annotations

import pytest

from tests.contract.compiled.fake_compiler import compiled, outcomes, script, stored
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep


def test_a_compiling_session_without_baselines_judges_no_program_and_measures_no_case(
    folder: Folder,
) -> None:
    ran = compiled(folder, exit_code=0)
    assert outcomes(ran) == {
        "v5e:2x4-fake-default-float32-1K": "NO_BASELINE",
        "v5e:2x4-fake-default-float32-1M": "NO_BASELINE",
    }
    assert "busbw compiler for v5e:2x4: fake 1" in ran.text
    assert "busbw: measured" not in ran.text
    assert "= 2 without baseline in " in ran.text


def test_a_compiled_program_that_equals_its_baseline_passes_and_the_file_stays_unchanged(
    folder: Folder,
) -> None:
    stored(folder)
    (path,) = folder.path.glob("baselines/compiled/tpu-v5-lite/8r-2x4/fake.all_reduce.fake.json")
    before = path.read_bytes()
    ran = compiled(folder, "--update-baselines=all", exit_code=0)
    assert set(outcomes(ran).values()) == {"PASS"}
    assert "2 passed" in ran.text
    assert path.read_bytes() == before
    assert "wrote" not in ran.text


def test_a_compiled_program_with_another_algorithm_fails_unless_the_change_is_accepted(
    folder: Folder,
) -> None:
    stored(folder)
    script(folder, {"payload_bytes": 1 << 20, "strategy": "FakeTree"})
    ran = compiled(folder, exit_code=1)
    assert list(outcomes(ran).values()) == ["PASS", "CHANGED"]
    assert "strategy: FakeRing -> FakeTree" in ran.text
    (failure,) = ran.failures
    assert "FakeRing -> FakeTree" in failure
    assert "FAILED: 1 of 2 cases failed: 1 CHANGED" in ran.text
    assert "1 changed" in compiled(folder, "--accept-compiled-changes", exit_code=0).text


@pytest.mark.exhaustive
def test_the_option_update_baselines_stores_a_changed_compiled_program(
    folder: Folder,
) -> None:
    stored(folder)
    script(folder, {"strategy": "FakeTree"})
    ran = compiled(folder, "--update-baselines=all", exit_code=0)
    (change,) = [line for line in ran.text.splitlines() if line.startswith("    float32 1K ")]
    assert "strategy FakeRing -> colors 2, phases 1, strategy FakeTree" in change
    assert set(outcomes(compiled(folder, exit_code=0)).values()) == {"PASS"}


@pytest.mark.exhaustive
def test_a_compiled_program_that_needs_more_memory_fails_even_if_changes_are_accepted(
    folder: Folder,
) -> None:
    stored(folder)
    script(folder, {"temporary_bytes": 1 << 22})
    ran = compiled(folder, "--accept-compiled-changes", exit_code=1)
    assert "temporary memory: 0 bytes -> 4.0 MiB" in ran.text


@pytest.mark.parametrize(
    "options", sweep([["--update-baselines=all"], [], ["--accept-compiled-changes"]])
)
def test_a_compiled_program_without_its_collective_fails_and_is_never_stored(
    folder: Folder, options: list[str]
) -> None:
    script(folder, {"loses_collective": True})
    ran = compiled(folder, *options, exit_code=1)
    assert set(outcomes(ran).values()) == {"FAILED"}
    assert "not a collective: expected 1 all-reduce of 1024 bytes" in ran.text
    assert not (folder.path / "baselines").exists()


@pytest.mark.exhaustive
def test_a_compiled_program_that_is_out_of_memory_fails_until_an_update_accepts_the_outcome(
    folder: Folder,
) -> None:
    too_large = {"payload_bytes": 1 << 20, "then": "out_of_memory"}
    script(folder, too_large)
    unknown = compiled(folder, exit_code=0)
    assert list(outcomes(unknown).values()) == ["NO_BASELINE", "OUT_OF_MEMORY"]
    script(folder)
    stored(folder)
    script(folder, too_large)
    new = compiled(folder, exit_code=1)
    assert "exceeds available HBM (15.75G); it compiled with fake 1" in new.text
    assert list(outcomes(new).values()) == ["PASS", "OUT_OF_MEMORY"]
    compiled(folder, "--update-baselines=all", exit_code=0)
    assert "1 passed, 1 out of memory" in compiled(folder, exit_code=0).text
    script(folder)
    assert list(outcomes(compiled(folder, exit_code=0)).values()) == ["PASS", "IMPROVED"]


@pytest.mark.parametrize(
    ("then", "outcome", "message"),
    sweep(
        [
            ("error", "COMPILE_ERROR", "INTERNAL: made up: this compiler refuses the program"),
            ("kill", "FAILED", "the worker was killed (SIGKILL) while compiling"),
            (
                "exit",
                "FAILED",
                "the worker ended with exit code 3 while compiling: the script says exit",
            ),
            ("hang", "FAILED", "the worker did not answer within 2 s"),
        ]
    ),
)
def test_a_compiler_that_fails_or_dies_fails_only_its_case_and_stores_no_baseline(
    folder: Folder, then: str, outcome: str, message: str
) -> None:
    script(folder, {"payload_bytes": 1024, "then": then})
    ran = compiled(folder, "--case-timeout=2", "--update-baselines=all", exit_code=1)
    assert list(outcomes(ran).values()) == [outcome, "NO_BASELINE"]
    assert message in ran.text
    assert [row["payload"] for row in folder.stored["entries"]] == ["1M"]


@pytest.mark.exhaustive
def test_a_compiling_session_replaces_only_a_damaged_file_in_its_cache(folder: Folder) -> None:
    cache = ("--topology=v5e:2x4", f"--compile-cache={folder.path / 'cache'}")
    compiled(folder, *cache, exit_code=0)
    files = sorted((folder.path / "cache").rglob("*.json.gz"))
    assert len(files) == 2
    files[0].write_bytes(b"cut")
    compiled(folder, *cache, exit_code=0)
    assert sorted((folder.path / "cache").rglob("*.json.gz")) == files
    assert all(path.stat().st_size > 100 for path in files)


@pytest.mark.parametrize(
    ("options", "message"),
    sweep(
        [
            (
                ("--topology=v5e:3x5x7",),
                "--topology: 'v5e:3x5x7': v5e is known as v5e:2x2, v5e:2x4",
            ),
            (("--topology=v9:2x2",), "no chip is called 'v9'; expected one of v2, v3"),
            (("--topology=v5e:2x4", "--ranks=4"), "--ranks: not with --topology"),
            (("--topology=v5e:2x4", "--inject=delay:5%"), "--inject: not with --topology"),
            (
                ("--topology=v5e:2x4", "--libtpu=nowhere"),
                "--libtpu: Invalid version: 'nowhere'",
            ),
            (
                ("--topology=v5e:2x4", "--libtpu=0.0.40,0.0.41", "--update-baselines"),
                "--update-baselines: with several --libtpu it is not clear whose",
            ),
            (
                ("--topology=v5e:2x4", "--frameworks=tensorflow"),
                "--frameworks: expected jax with --topology; ",
            ),
        ],
        in_gate=2,
    ),
)
def test_invalid_options_of_a_compiling_session_are_usage_errors(
    folder: Folder, options: tuple[str, ...], message: str
) -> None:
    assert message in compiled(folder, *options, exit_code=4).sentence


@pytest.mark.exhaustive
@pytest.mark.parametrize("topologies", sweep(["v5e:2x4,h100:8", "all"]))
def test_a_topology_without_a_compiler_is_a_usage_error(folder: Folder, topologies: str) -> None:
    script(folder, missing={"gpu": "no such compiler here"})
    ran = compiled(folder, f"--topology={topologies}", "--compile-cache=none", exit_code=4)
    assert ran.sentence.endswith(":8: no such compiler here")


@pytest.mark.exhaustive
def test_the_options_mesh_and_axes_choose_the_groups_of_a_compiled_program(folder: Folder) -> None:
    ran = compiled(
        folder,
        *("--topology=v5e:2x4", "--compile-cache=none", "--mesh=2x4", "--axes=y", "--payloads=1K"),
        exit_code=0,
    )
    assert [case["program"]["now"]["groups"] for case in ran.cases] == ["2x4"]


ALL = ("--topology=all", "--compile-cache=none")
NO_LIBTPU = {"tpu": "libtpu.so: file too short"}


@pytest.mark.exhaustive
def test_a_session_for_gpu_topologies_passes_without_a_compiler_for_tpu_topologies(
    folder: Folder,
) -> None:
    compiled(folder, *ALL, "--update-baselines=all", exit_code=0)
    script(folder, missing=NO_LIBTPU)
    ran = compiled(folder, "--topology=gpu", "--compile-cache=none", exit_code=0)
    assert "PASS: 10 cases compiled by fake 1" in ran.text
    ran = compiled(folder, "--topology=tpu", "--compile-cache=none", exit_code=4)
    assert "libtpu.so: file too short" in ran.sentence


@pytest.mark.exhaustive
def test_a_session_in_which_no_program_fits_passes_only_if_the_baselines_say_the_same(
    folder: Folder,
) -> None:
    script(folder, {"then": "out_of_memory"})
    assert "NO_VERDICT: nothing was compiled" in compiled(folder, exit_code=1).text
    compiled(folder, "--update-baselines=all", exit_code=0)
    assert "2 out of memory" in compiled(folder, exit_code=0).text


TWO_RELEASES = ("--topology=v5e:2x4", "--compile-cache=none", "--libtpu=1.0,2.0")


@pytest.mark.exhaustive
def test_a_session_with_two_releases_of_libtpu_compares_their_programs(
    folder: Folder,
) -> None:
    script(folder, {"release": "libtpu 2.0", "payload_bytes": 1 << 20, "strategy": "FakeTree"})
    ran = compiled(folder, *TWO_RELEASES, exit_code=1)
    assert outcomes(ran) == {
        "v5e:2x4-libtpu1.0-fake-default-float32-1K": "NO_BASELINE",
        "v5e:2x4-libtpu1.0-fake-default-float32-1M": "NO_BASELINE",
        "v5e:2x4-libtpu2.0-fake-default-float32-1K": "PASS",
        "v5e:2x4-libtpu2.0-fake-default-float32-1M": "CHANGED",
    }
    assert "v5e:2x4: fake all_reduce (fake), 8 ranks by libtpu 2.0" in ran.text
    assert "strategy: FakeRing -> FakeTree" in ran.text
    compiled(folder, *TWO_RELEASES, "--accept-compiled-changes", exit_code=0)


@pytest.mark.exhaustive
def test_a_session_with_two_releases_of_libtpu_fails_if_required_baselines_are_missing(
    folder: Folder,
) -> None:
    """Compare the second release with the first, which needs stored baselines."""
    ran = compiled(folder, *TWO_RELEASES, "--require-baselines", exit_code=1)
    assert "2 failed, 2 passed" in ran.text


@pytest.mark.exhaustive
def test_cases_of_a_libtpu_release_without_a_compiler_for_the_chip_are_skipped(
    folder: Folder,
) -> None:
    script(folder, missing={"libtpu 1.0": "what is a v5e?"})
    ran = compiled(folder, *TWO_RELEASES, exit_code=0)
    assert list(outcomes(ran).values()) == ["SKIPPED"] * 2 + ["NO_BASELINE"] * 2
    assert "busbw compiler for v5e:2x4: none (what is a v5e?)" in ran.text


@pytest.mark.exhaustive
def test_the_first_libtpu_release_that_knows_the_chip_is_compared_with_compiled_baselines(
    folder: Folder,
) -> None:
    stored(folder)
    script(folder, missing={"libtpu 1.0": "what is a v5e?"})
    ran = compiled(folder, *TWO_RELEASES, exit_code=0)
    assert list(outcomes(ran).values()) == ["SKIPPED"] * 2 + ["PASS"] * 2
