"""Ranks: which part a process has, by its options and its launcher; nothing is started."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from busbw.commands.run import Options, Part, RankError, options_of, part_of, port_of
from busbw.launchers import Finder
from busbw.launchers.base import Launched

ADDRESS = "--session=10.0.0.1:4000"


def options(*words: str) -> Options:
    return options_of(words)


def by(found: Launched | None, name: str = "slurm") -> Mapping[str, Finder]:
    """Launchers of which one has started this process, or none."""
    return {name: lambda environment: found}


def two(rank: int = 1, **fields: object) -> Launched:
    """What Slurm says of one of two processes."""
    given = {"launcher": "Slurm", "rank": rank, "count": 2, "job": "7.0", "host": "n1", **fields}
    return Launched(**given)  # type: ignore[arg-type]


ALONE = two(0, count=1, one_host=True)
POD = two(1, launcher="Kubernetes", count=None, host="", unnamed="nobody says where rank 0 is")


def refused(found: Launched | None, *words: str, name: str = "slurm") -> str:
    """The usage error of these options; pytest's exit code is on every one."""
    with pytest.raises(RankError) as error:
        part_of(options_of(words), {}, by(found, name))
    assert error.value.exit_code == 4
    return str(error.value)


@pytest.mark.parametrize(
    "words",
    [
        ("--rank=1", "--launcher=none", "perf/", "-x", "--agents=2"),
        ("--rank", "1", "perf/", "--launcher", "none", "-x", "--agents=2"),
    ],
)
def test_its_own_options_are_taken_out_in_both_forms(words: tuple[str, ...]) -> None:
    found = options(*words)
    assert found.own == {"--rank": "1", "--launcher": "none"}
    assert found.passed == ("perf/", "-x", "--agents=2")


def test_options_of_pytest_are_read_in_both_forms_and_the_last_one_holds() -> None:
    found = options_of(["--agents", "2", "--agents=3", "perf/"], "--processes=8 --agents=9")
    assert (found.value("--agents"), found.value("--processes")) == ("3", "8")
    assert found.value("--device") == ""
    assert found.passed == ("--agents", "2", "--agents=3", "perf/")


def test_what_follows_two_dashes_is_pytest_s() -> None:
    found = options("-x", "--", "--rank=1", "--agents=2", "--help")
    assert (found.own, found.value("--agents"), found.are_shown) == ({}, "", False)
    assert found.passed == ("-x", "--", "--rank=1", "--agents=2", "--help")


def test_an_option_without_a_value_is_refused() -> None:
    for words in (["--rank"], ["--rank="]):
        with pytest.raises(RankError, match="--rank: there is no value"):
            options_of(words)


def test_defaults_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(RankError, match="PYTEST_ADDOPTS: No closing quotation"):
        options_of([], "-k 'one")


def test_without_a_launcher_and_a_rank_it_is_alone() -> None:
    assert part_of(options("perf/"), {}, by(None)) is None
    assert part_of(options("--agents=2", "--listen=10.0.0.1:0"), {}, by(None)) is None
    assert part_of(options("--agents=local"), {}, by(ALONE)) is None
    assert part_of(options("--launcher=none"), {}, by(two())) is None


def test_a_launcher_that_started_one_process_is_none() -> None:
    assert part_of(options(), {}, by(ALONE)) is None
    assert part_of(options("--agents=1"), {}, by(ALONE)) is None


@pytest.mark.parametrize("word", ["-h", "--help", "-V", "--version"])
def test_help_is_shown_by_every_rank(word: str) -> None:
    assert part_of(options(word, "--rank=1"), {}, by(two())) is None


def test_a_launcher_says_the_part() -> None:
    wanted = Part(rank=1, count=2, host="n1", port=port_of("7.0"), spans_hosts=True)
    assert part_of(options(), {}, by(two())) == wanted
    assert part_of(options("--agents=2", "--launcher=slurm"), {}, by(two())) == wanted


def test_an_address_that_is_given_holds() -> None:
    found = part_of(options(ADDRESS), {}, by(two(host="", unnamed="it is elsewhere")))
    assert found == Part(rank=1, count=2, host="10.0.0.1", port=4000, spans_hosts=True)


def test_options_say_the_part_whatever_the_launcher_says() -> None:
    found = part_of(options("--rank=3", "--agents=4", ADDRESS), {}, by(two()))
    assert found == Part(rank=3, count=4, host="10.0.0.1", port=4000)
    found = part_of(options("--rank=0", "--agents=1", "--session=[::1]:4000"), {}, by(None))
    assert found == Part(rank=0, count=1, host="::1", port=4000)


def test_a_pod_has_its_part_by_both() -> None:
    found = part_of(options("--agents=2", ADDRESS), {}, by(POD, "kubernetes"))
    assert found == Part(rank=1, count=2, host="10.0.0.1", port=4000, spans_hosts=True)


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ((), "missing are --agents=N and --session=HOST:PORT"),
        (("--agents=2",), "missing is --session=HOST:PORT"),
        ((ADDRESS,), "missing is --agents=N"),
    ],
)
def test_what_a_pod_is_not_told_is_named(words: tuple[str, ...], missing: str) -> None:
    why = refused(POD, *words, name="kubernetes")
    assert "Kubernetes started this process as rank 1 and says no more" in why
    assert missing in why and why.endswith("--launcher=none for a session without this launcher")


@pytest.mark.parametrize("agents", ["3", "1", "local", "x"])
def test_another_count_than_the_launcher_s_names_both(agents: str) -> None:
    why = refused(two(), f"--agents={agents}")
    assert why.startswith(f"--agents={agents}: Slurm started 2 processes; accepted are --agents=2")
    assert "--launcher=none" in why


def test_agents_that_the_launcher_did_not_start_are_not_waited_for() -> None:
    assert refused(ALONE, "--agents=2").startswith("--agents=2: Slurm started 1 process; ")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--rank=x",), "--rank: 'x'; accepted is a whole number from 0 on"),
        (("--rank=0",), "--rank=0: accepted with --agents=N and --session=HOST:PORT"),
        (("--rank=0", "--agents=2"), "accepted with --agents=N and --session=HOST:PORT"),
        (("--rank=0", ADDRESS), "accepted with --agents=N and --session=HOST:PORT"),
        (("--rank=2", "--agents=2", ADDRESS), "rank 2: of 2 agents ranks are below 2"),
        (("--rank=0", "--agents=local", ADDRESS), "--agents: 'local'; accepted is a whole number"),
        (("--rank=0", "--agents=2", "--session=n1"), "--session: 'n1'; accepted is HOST:PORT"),
        (("--rank=0", "--agents=2", "--session=n1:0"), "--session: 'n1:0'; accepted is HOST:PORT"),
        (("--rank=0", "--agents=2", "--session=:9"), "--session: ':9'; accepted is HOST:PORT"),
        (("--rank=0", "--agents=2", ADDRESS, "--listen=n1:9"), "--listen: accepted are --session="),
        ((ADDRESS,), "--session: no launcher has started this process; accepted with --rank=I"),
        (("--launcher=slrm",), "--launcher: 'slrm'; did you mean 'slurm'?"),
        (("--launcher=slurm",), "--launcher=slurm: it has not started this process"),
    ],
)
def test_options_that_do_not_fit_say_what_is_accepted(words: tuple[str, ...], why: str) -> None:
    assert why in refused(None, *words)


def test_an_address_for_one_process_is_refused() -> None:
    assert refused(ALONE, ADDRESS).startswith("--session: Slurm started 1 process; accepted with")


def test_a_launcher_that_does_not_know_where_rank_0_is_asks_for_its_address() -> None:
    why = refused(two(host="", unnamed="rank 0 is elsewhere"))
    assert why.startswith("rank 0 is elsewhere; accepted is --session=HOST:PORT, an address of")


@pytest.mark.parametrize("words", [("--device=cpu",), ("--topology=v5e:2x4",)])
def test_a_host_of_a_slice_measures_other_devices_by_itself(words: tuple[str, ...]) -> None:
    assert part_of(options(*words), {}, by(two(), "tpu")) is None
    assert part_of(options(*words, "--launcher=tpu"), {}, by(two(), "tpu")) is not None
    assert part_of(options("--device=tpu"), {}, by(two(), "tpu")) is not None


def test_a_port_is_the_job_s_and_no_other_program_is_given_it() -> None:
    ports = [port_of(f"{job}.0") for job in range(200)]
    assert ports == [port_of(f"{job}.0") for job in range(200)]
    assert all(61000 <= port <= 65535 for port in ports)
    assert len(set(ports)) > 150


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_a_wait_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(RankError, match="accepted is a number of seconds above 0"):
        _ = options(f"--agents-wait={text}").wait_s
    assert options("--agents-wait=1.5").wait_s == 1.5
    assert options().wait_s == 60
