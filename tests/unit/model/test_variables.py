"""Recorded environment variables have no secret, no account and no home directory."""

from __future__ import annotations

import pytest

from busbw.model import variables
from busbw.model.variables import compiler_variables, recorded_variables, shorten_homes

_RECORDED = """
XLA_FLAGS XLA_PYTHON_CLIENT_PREALLOCATE XLA_NEW JAX_PLATFORMS JAX_ENABLE_X64 JAX_COORDINATOR_ADDRESS
TF_XLA_FLAGS TF_CPP_MIN_LOG_LEVEL NCCL_ALGO NCCL_SOCKET_IFNAME NCCL_COMM_ID LIBTPU_INIT_ARGS
TPU_LIBRARY_PATH TPU_VISIBLE_CHIPS TPU_SKIP_MDS_QUERY CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
LD_PRELOAD
"""
_NOT_RECORDED = """
XLA_API_KEY XLA_FLAGS_TOKEN JAX_SECRET jax_x JAX_password_file JAX_Auth TF_TOKEN_app_terraform_io
TF_PASSPHRASE TF_CONFIG TF_VAR_database TF_CLI_CONFIG_FILE NCCL_CREDENTIALS TPU_AUTH CUDA_KEY
LD_PRELOAD_KEY HTTPS_PROXY AWS_SECRET_ACCESS_KEY HOME PATH BUSBW_SECRET XLAFLAGS OMPI_TOKEN
"""
RECORDED, NOT_RECORDED = _RECORDED.split(), _NOT_RECORDED.split()


def test_a_variable_with_a_listed_prefix_is_recorded_unless_its_name_suggests_a_secret() -> None:
    assert len(RECORDED) + len(NOT_RECORDED) == 40
    recorded = recorded_variables(dict.fromkeys([*NOT_RECORDED, *RECORDED], "1"), "/home/me")
    assert list(recorded) == sorted(RECORDED)
    assert set(recorded.values()) == {"1"}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("--xla_dump_to=/home/me/x", "--xla_dump_to=~/x"),
        ("grpc://me:pass@word@host:1,http://you@other/x", "grpc://***@host:1,http://***@other/x"),
        ("--note=me@host", "--note=me@host"),
    ],
)
def test_a_recorded_variable_contains_no_home_directory_and_no_user_name_from_a_url(
    value: str, written: str
) -> None:
    assert recorded_variables({"XLA_FLAGS": value}, "/home/me") == {"XLA_FLAGS": written}


def test_the_environment_variables_of_compilers_are_recorded_with_their_full_values() -> None:
    environment = {
        "XLA_FLAGS": "--xla_dump_to=/home/me/x",
        "LIBTPU_INIT_ARGS": "--a",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "NCCL_ALGO": "Ring",
        "PATH": "/bin",
    }
    names = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "LIBTPU_INIT_ARGS", "XLA_FLAGS")
    assert compiler_variables(environment) == {name: environment[name] for name in names}


def test_all_environment_variables_of_a_stack_are_recorded() -> None:
    environment = dict.fromkeys(variables.STACK_VARIABLES, "1")
    assert recorded_variables(environment, "") == environment


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
def test_a_home_directory_in_a_recorded_text_is_replaced_by_a_tilde(
    text: str, home: str, written: str
) -> None:
    assert shorten_homes(text, home) == written


def test_a_tilde_in_a_recorded_variable_is_expanded_to_the_home_directory() -> None:
    recorded = variables.expand_homes("--xla_dump_to=~/dump --xla_x=a~b ~", "/home/me")
    assert recorded == "--xla_dump_to=/home/me/dump --xla_x=a~b /home/me"


def test_the_variables_of_a_stack_keep_their_values_except_for_home_directories() -> None:
    flags = {"XLA_FLAGS": "--xla_dump_to=/home/me/dump", "NCCL_ALGO": "Ring"}
    assert variables.stack_variables({**flags, "LD_PRELOAD": "x"}, "/home/me") == {
        "NCCL_ALGO": "Ring",
        "XLA_FLAGS": "--xla_dump_to=~/dump",
    }
