"""What is mistyped, and what belongs to other programs: the sentence names what is meant."""

from __future__ import annotations

import pytest

from tests.sweep import sweep

from .folder import Folder

# Three lines of a terminal, however many words are accepted.
LONGEST = 3 * 80


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--device=cuda", "'gpu'"),
        ("--device=TPU", "'tpu'"),
        ("--frameworks=tensorfow", "'tensorflow'"),
        ("--frameworks=tf", "'tensorflow'"),
        ("--strategies=rign", "'ring'"),
        ("--collectives=allreduce", "'all_reduce'"),
        ("--reduce-ops=summ", "'sum'"),
        ("--placement=inplace", "'in_place'"),
        ("--dtypes=fp16", "'float16'"),
        ("--dtypes=bf16", "'bfloat16'"),
        ("--clock=hots", "'host'"),
        ("--topology=v5e:4x2", "'v5e:2x4'"),
        ("--topology=h10:8", "'h100'"),
        ("--update-baselines=imporved", "'improved'"),
        ("--inject=dealy:15%", "'delay'"),
        ("--python=tensorfow=python3", "tensorflow=python3"),
        ("--python=/usr/bin/python3", "jax=/usr/bin/python3"),
        ("--mesh=2*4", "2x4"),
    ],
)
def test_the_nearest_of_what_is_accepted_is_named(folder: Folder, option: str, meant: str) -> None:
    sentence = folder.pytest("perf", option, exit_code=4, reports=False).sentence
    assert f"busbw: {option.split('=')[0]}: " in sentence
    assert f"did you mean {meant}? " in sentence
    assert len(sentence) <= LONGEST


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-b", "8", "-e", "32M", "-f", "2"), "write --payloads=8:32M"),
        (("-b8", "-e", "32m"), "write --payloads=8:32M"),
        (("--minbytes", "1K", "--maxbytes=1G"), "write --payloads=1K:1024M"),
        (("-b", "1M", "-f", "4"), "write --payloads=1M:32M; a range doubles; "),
        (("-b", "8", "-g", "4"), "for -g write --ranks=4"),
        (("-w", "5"), "iterations are chosen by time"),
    ],
)
def test_for_options_of_nccl_tests_ours_are_named(
    folder: Folder, options: tuple[str, ...], said: str
) -> None:
    ran = folder.pytest("perf", *options, exit_code=4, reports=False)
    assert "unrecognized arguments: " in ran.text
    (hint,) = (line for line in ran.text.splitlines() if line.startswith("  busbw: "))
    assert said in hint


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--framework=jax", "--frameworks=jax"),
        ("--payload=1K", "--payloads=1K"),
        ("--update-baseline", "--update-baselines"),
        ("--stratgies=ring", "--strategies=ring"),
    ],
)
def test_for_what_is_nearly_an_option_the_option_is_named(
    folder: Folder, option: str, meant: str
) -> None:
    ran = folder.pytest("perf", option, exit_code=4, reports=False)
    assert f"  busbw: did you mean {meant}?" in ran.text.splitlines()


def test_nothing_is_said_of_an_option_that_is_like_none_of_ours(folder: Folder) -> None:
    ran = folder.pytest("perf", "--colour=blue", exit_code=4, reports=False)
    assert "unrecognized arguments: --colour=blue" in ran.text
    assert "busbw: " not in ran.text


def test_sizes_with_spaces_between_them_are_a_usage_error(folder: Folder) -> None:
    ran = folder.pytest("perf", "--payloads", "1K", "64K", exit_code=4, reports=False)
    assert ran.sentence.endswith(
        "busbw: '64K' is no file or folder of tests; a list of sizes is one word, such as "
        "--payloads=1K,64K"
    )


@pytest.mark.parametrize("path", ["perf/", "perf", "perf/test_collectives.py::test_collective"])
def test_a_path_that_is_taken_for_the_value_of_update_baselines_is_named(
    folder: Folder, path: str
) -> None:
    ran = folder.pytest("--update-baselines", path, exit_code=4, reports=False)
    said = f"write pytest {path} --update-baselines, or --update-baselines=all {path}"
    assert ran.sentence.endswith(f"--update-baselines: takes {path!r} as its value; {said}")
    assert not (folder.path / "baselines").exists()


def test_a_path_taken_for_the_value_of_update_baselines_runs_no_other_tests(
    folder: Folder,
) -> None:
    folder.ini({"testpaths": "theirs"})
    (folder.path / "theirs").mkdir()
    (folder.path / "theirs" / "test_own.py").write_text("def test_own(): pass\n")
    ran = folder.pytest("--update-baselines", "perf", exit_code=4, reports=False)
    assert "--update-baselines: takes 'perf' as its value; write pytest perf" in ran.sentence
    assert "passed" not in ran.text


@pytest.mark.parametrize(
    "name",
    sweep(
        [
            *("hosts", "agents", "listen", "processes", "ranks", "mesh", "axes", "results", "page"),
            *("history", "topology", "libtpu", "memory-limit", "inject", "secret-file"),
            *("stack-cache", "host-env", "host-python"),
        ],
        in_gate=3,
    ),
)
def test_an_option_that_is_given_empty_is_a_usage_error(folder: Folder, name: str) -> None:
    """As ``--hosts=$UNSET`` is, which would measure no network."""
    ran = folder.run(f"--{name}=", exit_code=4, reports=False)
    assert f"busbw: --{name}: it is given empty" in ran.sentence
