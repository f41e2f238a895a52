"""--launches: that number of worker processes, each with its own samples."""

from __future__ import annotations

from .folder import Folder


def test_a_case_has_samples_of_as_many_launches_as_were_asked_for(folder: Folder) -> None:
    ran = folder.run("--launches=4", exit_code=0)
    launches = ran.case()["launches"]
    assert [launch["launch"] for launch in launches] == ["1.fake", "2.fake", "3.fake", "4.fake"]
    assert all(len(launch["samples_s"]) >= 2 for launch in launches)
    assert "1 case measured in 4 launches each" in ran.text


def test_the_default_is_three(folder: Folder) -> None:
    options = ("perf", "--frameworks=fake", "--payloads=1K", "-p", "no:cacheprovider")
    ran = folder.pytest(*options, exit_code=0)
    assert len(ran.case("1K")["launches"]) == 3
