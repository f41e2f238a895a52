"""`busbw init [DIR]`: write the files with which a repository runs busbw; overwrite no file.

The files are made from the templates in this folder, in which a few words are replaced.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from importlib import metadata
from pathlib import Path

from busbw import storage
from busbw.cli import Subparsers, add_command

# By framework and device, the extra of busbw that installs the framework.
_EXTRAS = {
    "jax": {"cpu": "jax", "gpu": "cuda", "tpu": "tpu"},
    "tensorflow": {"cpu": "tf", "gpu": "tf-cuda", "tpu": "tf-tpu"},
}
_SET_VARIABLE_COMMENT = """
# - Set the repository variable BUSBW_REQUIREMENT to what pip installs, such as
#   busbw[{extra},page] @ git+https://HOST/OWNER/busbw@COMMIT; busbw is not on PyPI."""
_GITHUB_RUNNER_COMMENT = """
# - Decide where it runs. GitHub's own machines have one CPU today and another tomorrow, each with
#   baselines of its own; a machine of your own (runs-on) gives times that can be compared."""
_OWN_RUNNER_COMMENT = """
# - Set the repository variable BUSBW_RUNNER to the label of a self-hosted runner with the device.
#   Without it the run is red: there is no such device on GitHub's own machines."""


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand ``init`` and its options to the commands of busbw."""
    parser = add_command(
        commands,
        "init",
        run,
        help="Set up a repository: conftest.py, a nightly workflow, a folder for baselines",
        description="Write conftest.py, .github/workflows/busbw.yml and baselines/README.md into a "
        "repository. Existing files are left unchanged.",
        example="busbw init --device=tpu",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="The root folder of the repository (default: the current folder)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "gpu", "tpu"),
        default="cpu",
        help="Let the workflow measure on this device",
    )
    parser.add_argument(
        "--framework",
        choices=tuple(_EXTRAS),
        default="jax",
        help="Let the workflow measure this framework",
    )


def run(options: argparse.Namespace) -> int:
    """Run ``busbw init``: write its files into `options.folder`, and return the exit code.

    The files are a conftest, a workflow and a README of the baselines. Existing files are kept. The
    comment at the top of the workflow has the next steps of the user. Raises OSError if a file
    cannot be written.
    """
    conftest = options.folder / "conftest.py"
    workflow = options.folder / ".github" / "workflows" / "busbw.yml"
    files = {
        conftest: _template_text("conftest.txt"),
        workflow: _workflow_text(options),
        options.folder / "baselines" / "README.md": _template_text("baselines.md").replace(
            "@RUN@", f"busbw run --device={options.device} --frameworks={options.framework}"
        ),
    }
    for path, text in files.items():
        if path.is_file():
            print(f"exists, left unchanged: {path}")
        else:
            storage.write(path, text)
            print(f"wrote {path}")
    with contextlib.suppress(storage.InputError):
        if b"busbw.plugin" not in storage.read(conftest):
            print(
                f'note: {conftest} does not name "busbw.plugin" in pytest_plugins; '
                "pytest --pyargs busbw.perf needs it, busbw run does not"
            )
    print(f"next: follow the first comment of {workflow}")
    return 0


def _template_text(name: str) -> str:
    """Return the text of the template `name` in this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _workflow_text(options: argparse.Namespace) -> str:
    """Return the text of the workflow for the device and the framework in `options`."""
    device, extra = options.device, _EXTRAS[options.framework][options.device]
    requirement = _requirement_of_this_busbw(extra)
    is_cpu = device == "cpu"
    words = {
        "\n#@REQUIREMENT_COMMENT@": ""
        if requirement
        else _SET_VARIABLE_COMMENT.format(extra=extra),
        "@REQUIREMENT@": json.dumps(requirement)
        if requirement
        else "${{ vars.BUSBW_REQUIREMENT }}",
        "@EXTRA@": extra,
        "\n#@RUNNER_COMMENT@": _GITHUB_RUNNER_COMMENT if is_cpu else _OWN_RUNNER_COMMENT,
        "@RUNNER@": "ubuntu-latest" if is_cpu else "${{ vars.BUSBW_RUNNER || 'ubuntu-latest' }}",
        "@DEVICE@": device,
        "@FRAMEWORK@": options.framework,
    }
    text = _template_text("workflow.yml")
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text


def _requirement_of_this_busbw(extra: str) -> str:
    """Return a requirement with which pip installs the same busbw, with the extra `extra`.

    A requirement is a text such as ``busbw[tpu,page] @ git+https://HOST/OWNER/busbw@COMMIT``. It
    has the URL and the commit that pip recorded when this busbw was installed. The text is empty if
    this busbw was installed from local files or from a package index. The text is also empty if the
    URL may contain credentials, because everybody who reads the workflow could read the
    credentials.
    """
    with contextlib.suppress(metadata.PackageNotFoundError):
        origin = json.loads(metadata.distribution("busbw").read_text("direct_url.json") or "{}")
        url, vcs = str(origin.get("url", "")), origin.get("vcs_info")
        if url and not url.startswith("file:") and "@" not in url:
            address = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
            return f"busbw[{extra},page] @ {address}"
    return ""
