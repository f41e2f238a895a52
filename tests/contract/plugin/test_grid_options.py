"""Each option of the grid of cases; refused options are in test_usage_errors."""

from __future__ import annotations

import pytest

from tests.helpers.frameworks import needs
from tests.helpers.session_folder import WITHOUT_CACHE, Folder
from tests.helpers.sweep import sweep


def test_payloads_from_ranges_and_lists_are_measured_in_the_order_of_size(folder: Folder) -> None:
    ran = folder.run("--payloads=1M,1K:4K,1536", exit_code=0)
    assert list(ran.outcomes) == ["1K", "1536", "2K", "4K", "1M"]


def test_the_default_payloads_are_every_power_of_two_from_1k_to_1024m(folder: Folder) -> None:
    ran = folder.pytest("perf", "--frameworks=fake", "--collect-only", "-q", exit_code=0)
    ids = [line for line in ran.text.splitlines() if "test_collective[" in line]
    assert len(ids) == 21
    assert ids[0].endswith("float32-1K]")
    assert ids[-1].endswith("float32-1024M]")


def test_every_dtype_is_measured_and_stored_under_its_name(folder: Folder) -> None:
    ran = folder.updated("--dtypes=float32,bfloat16,int32")
    assert [c["case"]["dtype"] for c in ran.cases] == ["float32", "bfloat16", "int32"]
    assert folder.baseline_file.read_text().count('"payload": "1M"') == 3


def test_a_cpu_has_four_virtual_ranks_unless_an_option_requests_another_number(
    folder: Folder,
) -> None:
    ran = folder.run(exit_code=0)
    assert ran.case()["case"]["ranks"] == 4
    (header,) = (line for line in ran.text.splitlines() if line.startswith("busbw device: "))
    assert header.endswith("4 virtual devices; using CPU: no TPU found; no GPU found")
    assert ran.document["environment"]["changed"] == ""
    ran = folder.run("--ranks=6", exit_code=0)
    case = ran.case()
    assert case["case"]["ranks"] == 6
    ratio = case["now"]["busbw_gb_per_s"] / case["now"]["algbw_gb_per_s"]
    assert abs(ratio - 2 * 5 / 6) < 1e-9


def test_a_case_is_measured_in_as_many_launches_as_the_option_requests(folder: Folder) -> None:
    ran = folder.run("--launches=4", exit_code=0)
    launches = ran.case()["launches"]
    assert [launch["launch"] for launch in launches] == ["1.fake", "2.fake", "3.fake", "4.fake"]
    assert all(len(launch["samples_s"]) >= 2 for launch in launches)
    assert "1 case measured in 4 launches each" in ran.text


def test_a_session_has_three_launches_by_default(folder: Folder) -> None:
    options = ("perf", "--frameworks=fake", "--payloads=1K", "-p", "no:cacheprovider")
    assert len(folder.pytest(*options, exit_code=0).case("1K")["launches"]) == 3


@pytest.mark.exhaustive
def test_each_placement_is_a_separate_case_and_only_out_of_place_is_part_of_the_id(
    folder: Folder,
) -> None:
    ran = folder.updated("--placement=out_of_place,in_place")
    assert [(c["id"], c["case"]["placement"]) for c in ran.cases] == [
        ("fake-out_of_place-default-float32-1M", "out_of_place"),
        ("fake-default-float32-1M", "in_place"),
    ]
    assert folder.baseline_file.read_text().count('"payload": "1M"') == 2


def test_every_reduce_op_is_a_separate_case_and_every_reduce_op_except_sum_is_in_the_id(
    folder: Folder,
) -> None:
    ran = folder.updated("--reduce-ops=sum,max,min")
    assert [(c["id"], c["case"]["reduce_op"]) for c in ran.cases] == [
        ("fake-default-float32-1M", "sum"),
        ("fake-max-default-float32-1M", "max"),
        ("fake-min-default-float32-1M", "min"),
    ]
    stored = [row.get("reduce_op", "sum") for row in folder.stored["entries"]]
    assert sorted(stored) == ["max", "min", "sum"]
    assert folder.run("--reduce-ops=max", exit_code=0).outcomes == {"1M": "PASS"}


def test_a_case_of_the_default_strategy_records_the_name_of_the_strategy_that_ran(
    folder: Folder,
) -> None:
    ran = folder.run("--strategies=default", exit_code=0)
    assert ran.case()["case"]["strategy"] == "fake"
    assert ran.case()["id"] == "fake-default-float32-1M"
    ran = folder.run("--strategies=fake", exit_code=0)
    assert ran.case()["id"] == "fake-fake-float32-1M"


@pytest.mark.exhaustive
def test_a_strategy_that_is_requested_by_two_names_has_two_tests_and_is_measured_once(
    folder: Folder,
) -> None:
    cases = folder.run("--strategies=default,fake", exit_code=0).cases
    assert [c["id"] for c in cases] == ["fake-default-float32-1M", "fake-fake-float32-1M"]
    assert [c["outcome"] for c in cases] == ["NO_BASELINE", "NO_BASELINE"]
    assert [len(c["launches"]) for c in cases] == [1, 1]


@pytest.mark.exhaustive
@needs("tensorflow")
def test_the_gpu_strategies_of_tensorflow_are_collected_without_a_gpu_but_refused_on_a_cpu(
    folder: Folder,
) -> None:
    options = ("perf", "--frameworks=tensorflow", "--payloads=1M", *WITHOUT_CACHE)
    for strategy in ("nccl", "collective_nccl"):
        option = f"--strategies={strategy}"
        ran = folder.pytest(*options, option, "--collect-only", "-q", exit_code=0, reports=False)
        assert f"tensorflow-{strategy}-float32-1M" in ran.text
    ran = folder.pytest(*options, "--device=cpu", "--strategies=collective_nccl", exit_code=4)
    assert "tensorflow has no strategy collective_nccl for all_reduce on the CPU" in ran.sentence


def test_every_collective_is_measured_with_its_bus_factor(folder: Folder) -> None:
    ran = folder.run(
        "--collectives=all_reduce,all_gather,reduce_scatter,all_to_all,permute", exit_code=0
    )
    cases = ran.cases
    assert [case["id"] for case in cases] == [
        "fake-default-float32-1M",
        "fake-all_gather-out_of_place-default-float32-1M",
        "fake-reduce_scatter-out_of_place-default-float32-1M",
        "fake-all_to_all-out_of_place-default-float32-1M",
        "fake-permute-out_of_place-default-float32-1M",
    ]
    factors = {
        case["case"]["collective"]: case["now"]["busbw_gb_per_s"] / case["now"]["algbw_gb_per_s"]
        for case in cases
    }
    assert factors == pytest.approx(
        {
            "all_reduce": 1.5,
            "all_gather": 0.75,
            "reduce_scatter": 0.75,
            "all_to_all": 0.75,
            "permute": 1.0,
        }
    )


def test_a_framework_without_the_collective_is_left_out_unless_an_option_names_the_framework(
    folder: Folder,
) -> None:
    for name in ("jax", "tensorflow"):
        (folder.path / f"{name}.py").write_text("raise AssertionError('not to be imported')\n")
    options = ("--collectives=all_gather", "--payloads=1K", "--collect-only")
    ran = folder.pytest("perf", *options, exit_code=0)
    assert "test_collective[jax-all_gather-out_of_place-default-float32-1K]" in ran.text
    assert "[tensorflow-" not in ran.text


NAMED = ("--processes=2", "--mesh=hosts:2,devices:4")


@pytest.mark.parametrize(
    ("mesh", "axes", "id_part", "size"),
    sweep(
        [
            (("--mesh=2x4",), "y", "2x4-y", 4),
            (("--mesh=2x4",), "x", "2x4-x", 2),
            (NAMED, "hosts", "hosts2xdevices4-hosts", 2),
            (NAMED, "devices", "hosts2xdevices4-devices", 4),
        ]
    ),
)
def test_the_id_of_a_case_along_an_axis_names_the_axis_and_its_bus_factor_counts_only_its_ranks(
    folder: Folder, mesh: tuple[str, ...], axes: str, id_part: str, size: int
) -> None:
    case = folder.run(*mesh, f"--axes={axes}", exit_code=0).case()
    assert case["id"] == f"fake-{id_part}-default-float32-1M"
    assert f"--mesh={case['case']['mesh']}" == mesh[-1]
    assert (case["case"]["ranks"], case["case"]["axes"]) == (8, axes)
    factor = case["now"]["busbw_gb_per_s"] / case["now"]["algbw_gb_per_s"]
    assert factor == pytest.approx(2 * (size - 1) / size)


@pytest.mark.exhaustive
def test_each_axis_and_each_mesh_has_a_separate_baseline(folder: Folder) -> None:
    for options in (("--axes=x",), ("--axes=y",), ()):
        folder.with_baselines("--mesh=2x2", *options)
    (path,) = folder.baseline_files
    assert path.parent.name == "4r-2x2"
    assert path.read_text().count('"payload": "1M"') == 3
    assert folder.run("--mesh=2x2", "--axes=y", exit_code=0).outcomes == {"1M": "PASS"}
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}


@pytest.mark.exhaustive
@needs("jax")
@pytest.mark.parametrize("axes", ["hosts", "devices"])
def test_jax_measures_a_case_along_hosts_and_a_case_along_devices(
    folder: Folder, axes: str
) -> None:
    options = ("--processes=2", "--mesh=hosts:2,devices:2", f"--axes={axes}", "--payloads=4K")
    case = folder.run("--frameworks=jax", *options, exit_code=0).case("4K")
    assert case["outcome"] == "NO_BASELINE"
    assert case["launches"][0]["values_checked"] > 0


@pytest.mark.exhaustive
def test_a_verbose_session_on_a_cpu_gives_the_reason_why_no_tpu_and_no_gpu_is_used(
    folder: Folder,
) -> None:
    ran = folder.run("-v", exit_code=0)
    for name in ("TPU", "GPU"):
        assert f"busbw device: no {name} to measure on (fake: not found)" in ran.text


BLOCKED = "import sys\nsys.modules.update({name: None for name in %r})\n"
STUB = "raise AssertionError('pytest must not import a framework')\n"


def options_without(folder: Folder, *names: str) -> tuple[str, str]:
    """Return options with which these frameworks are missing."""
    (folder.path / "blocked.py").write_text(BLOCKED % (names,))
    return ("-p", "blocked")


@pytest.mark.parametrize(("name", "extra"), sweep([("jax", "jax"), ("tensorflow", "tf")]))
def test_the_usage_error_about_a_missing_framework_names_the_command_that_installs_it(
    folder: Folder, name: str, extra: str
) -> None:
    ran = folder.run(*options_without(folder, name), f"--frameworks=fake,{name}", exit_code=4)
    assert f"busbw: {name} is not installed here" in ran.sentence
    assert f'pip install "busbw[{extra}]"' in ran.sentence
    assert f"--python={name}=PATH" in ran.sentence


def test_a_session_without_any_framework_is_a_usage_error(folder: Folder) -> None:
    options = options_without(folder, "jax", "tensorflow")
    ran = folder.pytest("perf", *options, "--collect-only", exit_code=4)
    assert "busbw: jax is not installed here" in ran.sentence


def test_installed_frameworks_are_collected_by_default_and_no_framework_is_imported(
    folder: Folder,
) -> None:
    (folder.path / "jax.py").write_text(STUB)
    options = options_without(folder, "tensorflow")
    ran = folder.pytest("perf", *options, "--collect-only", "--payloads=1K", exit_code=0)
    assert "test_collective[jax-default-float32-1K]" in ran.text
    assert "[tensorflow-" not in ran.text


# A worker imports what bears the name of one.
@pytest.mark.framework
def test_a_framework_whose_import_raises_an_exception_is_a_usage_error(folder: Folder) -> None:
    (folder.path / "jax.py").write_text(STUB)
    ran = folder.run("--frameworks=jax", exit_code=4)
    assert "AssertionError: pytest must not import a framework" in ran.sentence
