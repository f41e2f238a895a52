"""What is written down of an environment: values by exact name, else names; no home directory."""

from __future__ import annotations

import pytest

from busbw.model import variables
from busbw.model.variables import (
    HIDDEN,
    PREFIXES,
    VARIABLES,
    masked,
    of_compilers,
    recorded,
    without_homes,
)


def test_a_value_is_written_only_of_a_variable_in_the_table() -> None:
    environment = {
        "XLA_FLAGS": "--xla_x=1",
        "XLA_FLAGS_TOKEN": "secret",
        "XLA_API_KEY": "secret",
        "JAX_SECRET": "secret",
        "JAX_COORDINATOR_ADDRESS": "host:1",
        "TF_CONFIG": '{"cluster": {"worker": ["host:1"]}}',
        "TF_TOKEN_app_terraform_io": "secret",
        "NCCL_COMM_ID": "host:1",
        "NCCL_SOCKET_IFNAME": "eth0",
        "HTTPS_PROXY": "http://user:secret@host",
        "HOME": "/home/me",
        "PATH": "/usr/bin",
    }
    found = recorded(environment, "/home/me")
    assert found == {
        "JAX_COORDINATOR_ADDRESS": HIDDEN,
        "JAX_SECRET": HIDDEN,
        "NCCL_COMM_ID": HIDDEN,
        "NCCL_SOCKET_IFNAME": "eth0",
        "TF_CONFIG": HIDDEN,
        "TF_TOKEN_app_terraform_io": HIDDEN,
        "XLA_API_KEY": HIDDEN,
        "XLA_FLAGS": "--xla_x=1",
        "XLA_FLAGS_TOKEN": HIDDEN,
    }
    assert list(found) == sorted(found)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "FAKETIME"])
def test_what_replaces_a_library_or_the_clock_is_recorded(name: str) -> None:
    found = recorded({name: "/home/me/lib"}, "/home/me")
    assert found == {name: "~/lib"}


def test_every_variable_stands_once_with_a_reason() -> None:
    names = [one.name for one in VARIABLES]
    assert len(names) == len(set(names))
    assert all(one.why for one in VARIABLES)


@pytest.mark.parametrize("word", ["ADDRESS", "HOST_ID", "HOSTNAME", "TOKEN", "KEY", "COMM_ID"])
def test_none_of_them_holds_a_host_or_a_secret_by_its_name(word: str) -> None:
    assert [one.name for one in VARIABLES if word in one.name] == []


def test_what_steers_a_compiler_is_in_the_table_and_told_in_full() -> None:
    environment = {
        "XLA_FLAGS": "--xla_dump_to=/home/me/x",
        "LIBTPU_INIT_ARGS": "--a",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_SECRET": "secret",
        "NCCL_ALGO": "Ring",
    }
    wanted = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "LIBTPU_INIT_ARGS", "XLA_FLAGS")
    assert of_compilers(environment) == {name: environment[name] for name in wanted}


def test_versions_and_the_load_are_no_variables_and_stay() -> None:
    stored = {"load": "0.5", "clock MHz": "2400", "jax": "0.10.2", "TF_VAR_x": "secret"}
    assert masked(stored) == {**stored, "TF_VAR_x": HIDDEN}
    assert not [name for name in ("load", "jax", "tensorflow") if name.startswith(PREFIXES)]


@pytest.mark.parametrize(
    ("text", "home", "written"),
    [
        ("/home/me/venv/jax", "", "~/venv/jax"),
        ("/home/me", "", "~"),
        ("/Users/me.and-you/x", "", "~/x"),
        ("/root/x", "", "~/x"),
        ("/rootfs/x", "", "/rootfs/x"),
        ("/mnt/root/x", "/root", "/mnt/root/x"),
        ("/export/home/me/x", "", "~/x"),
        ("/data/people/me/x", "/data/people/me", "~/x"),
        ("/data/people/me/x", "/data/people/me/", "~/x"),
        ("/data/people/meyer/x", "/data/people/me", "/data/people/meyer/x"),
        ("/usr/lib/x", "/", "/usr/lib/x"),
        ("/usr/lib/x", "", "/usr/lib/x"),
        ("/opt/home", "", "/opt/home"),
        ("--xla_dump_to=/home/me/x --b=1", "", "--xla_dump_to=~/x --b=1"),
        ("a:/home/me/x:/home/you/y", "", "a:~/x:~/y"),
        ("-L/home/me/lib", "", "-L~/lib"),
        ("file:///home/me/x", "", "file://~/x"),
        ('File "/home/me/x.py", line 1', "", 'File "~/x.py", line 1'),
        ("at home/me/x", "", "at home/me/x"),
    ],
)
def test_a_home_directory_is_written_as_a_tilde(text: str, home: str, written: str) -> None:
    assert without_homes(text, home) == written


@pytest.mark.parametrize("home", ["", "~", "/", "/root", "/h"])
def test_a_home_that_bytes_may_have_by_chance_is_not_masked_in_them(home: str) -> None:
    content = b"\x0a\x08/h/root/~/\x00"
    assert variables.public_bytes(content, {"TOKEN": "short"}, home) == content


def test_what_is_masked_in_bytes_stays_as_long() -> None:
    content = b"\x09/srv/me/x\x06/srv/me\x0f://a:b@c \xffsecret78"
    found = variables.public_bytes(content, {"TOKEN": "secret78"}, "/srv/me")
    assert found == b"\x09*******/x\x06*******\x0f://***@c \xff********"


def test_a_home_that_was_left_out_is_put_back() -> None:
    found = variables.with_home("--xla_dump_to=~/dump --xla_x=a~b ~", "/home/me")
    assert found == "--xla_dump_to=/home/me/dump --xla_x=a~b /home/me"


def test_options_of_a_stack_are_in_full_but_for_homes() -> None:
    flags = {"XLA_FLAGS": "--xla_dump_to=/home/me/dump", "NCCL_ALGO": "Ring"}
    assert variables.of_stack({**flags, "LD_PRELOAD": "x"}, "/home/me") == {
        "NCCL_ALGO": "Ring",
        "XLA_FLAGS": "--xla_dump_to=~/dump",
    }
