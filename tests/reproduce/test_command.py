"""`labeldp reproduce` itself."""

import json
import shlex

import pytest

from labeldp.reproduce.cells import Place
from labeldp.reproduce.names import NAMES, plan
from tests.reproduce.conftest import finished


def test_a_list_is_a_command_a_cell(tmp_path, cli):
    code, out, _ = cli("reproduce", "table1", "--scale", "paper", "--list", "--out", tmp_path / "o", "--data", tmp_path)
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 13
    for line, cell in zip(lines, plan("table1", "paper").cells(), strict=True):
        assert shlex.split(line) == [
            "labeldp",
            *cell.arguments,
            "--data",
            str(tmp_path),
            "--out",
            str(tmp_path / "o/cells" / cell.name),
        ]
    assert not (tmp_path / "o").exists()
    code, out, _ = cli("reproduce", "table1", "--list", "--json", "--only", "alibi-eps8", "--only", "eps2.1")
    assert [cell["name"] for cell in json.loads(out)] == ["digits-alibi-eps8-seed0", "digits-alibi-eps2.1-seed0"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_collect_is_a_page_of_dashes(name, tmp_path, cli):
    code, out, _ = cli("reproduce", name, "--scale", "cpu", "--collect", "--out", tmp_path)
    assert code == 0
    assert out.startswith(f"0 of {len(plan(name, 'cpu').cells())} cells are finished")
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.{kind}" for kind in ("md", "html", "json")}


def test_running_with_nothing_missing_collects(tmp_path, cli, monkeypatch):
    place = Place(tmp_path / "o")
    for cell in plan("table2", "cpu").cells():
        finished(place, cell, accuracy=0.5)
    monkeypatch.setattr("labeldp.reproduce.runner.Runner._begin", None)  # nothing may be started
    code, out, err = cli(
        "reproduce", "table2", "--scale", "cpu", "--out", place.out, "--json", "--markdown", tmp_path / "r.md"
    )
    assert (code, err) == (0, "")
    assert json.loads(out)["missing"] == []
    assert "Not finished: nothing." in (tmp_path / "r.md").read_text()
    assert json.loads(out)["made_by"] == "labeldp reproduce table2 --scale cpu"


def test_no_resume_refuses_and_deletes_nothing(tmp_path, cli):
    place = Place(tmp_path)
    (cell, *_) = plan("table2", "cpu").cells()
    finished(place, cell)
    code, _, err = cli("reproduce", "table2", "--scale", "cpu", "--out", tmp_path, "--no-resume")
    assert (code, "holds 1 of these cells already" in err) == (2, True)
    assert (place.folder(cell) / "summary.json").exists()


def test_what_is_refused(tmp_path, cli):
    for arguments, message in (
        (("table9",), "unknown name"),
        (("table1", "--scale", "x"), "--scale is"),
        (("table1", "--list", "--collect"), "one of the two"),
        (("table1", "--only", "nothing"), "--list shows them"),
        (("table1", "--seeds", "0"), "--seeds"),
        (("table1", "--processes", "0"), "--processes"),
    ):
        code, _, err = cli("reproduce", *arguments, "--out", tmp_path)
        assert (code, message in err) == (2, True), err


def test_a_failing_cell_is_exit_code_1(tmp_path, cli, monkeypatch):
    """CIFAR is not here: both cells fail, and say why; the page is written all the same."""
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path / "empty"))
    code, out, err = cli("reproduce", "table2", "--scale", "cpu", "--only", "alibi-eps3", "--out", tmp_path / "o")
    assert code == 1
    assert "1 cells failed" in err
    assert "there is no" in err
    assert "0 of 10 cells are finished" in out
    assert "Failed when last started" in (tmp_path / "o" / "table2.md").read_text()


def test_one_cell_of_the_smoke_scale(tmp_path, cli):
    command = ("reproduce", "table1", "--scale", "smoke", "--only", "alibi-eps8", "--out", tmp_path, "--processes", 1)
    code, out, err = cli(*command)
    assert code == 0, err
    assert "1 of 6 cells are finished" in out
    page = (tmp_path / "table1.md").read_text()
    assert "| digits | high | ALIBI | 94% | 8 | 2.9 to 4.0 |" in page
    facts = json.loads((tmp_path / "cells/digits-alibi-eps8-seed0/cell.json").read_text())
    assert facts["summary"]["threads"] == 1
    assert facts["interval"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_smoke_scale_from_end_to_end(name, tmp_path_factory, cli):
    """All names into one directory, so that shared cells run once; table1 is to take less than five minutes."""
    out = tmp_path_factory.getbasetemp() / "smoke"
    code, said, err = cli("reproduce", name, "--scale", "smoke", "--out", out, "--json")
    assert code == 0, err
    found = json.loads(said)
    assert found["missing"] == found["failed"] == []
    for row in found["rows"]:
        assert row["accuracy"] is None or 0 < row["accuracy"]["mean"] <= 1
    assert (out / f"{name}.html").stat().st_size < 500_000
