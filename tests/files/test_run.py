"""A run directory, with no torch: what is written can be read, and what cannot be is not written."""

import json
import os

import pyarrow as pa
import pytest

from labeldp.errors import InputError
from labeldp.files.run import OwnerFolder, RunFolder, read_as, read_json, write_json
from labeldp.files.summary import Metrics, Start, TrainedRows
from tests.files.test_summary import AUDIT, CONFIG, PATE, TRAINING


def test_a_summary_is_written_with_its_kind_and_read_as_it_was_made(tmp_path):
    run = RunFolder(tmp_path)
    assert run.summed_up() is run.read_summary() is None
    run.write_summary("training", TRAINING)
    assert read_json(run.summary) == {"kind": "training", **TRAINING}
    assert run.summed_up() == TRAINING
    assert run.read_training() == run.read_summary()


def test_what_nobody_could_read_is_not_written(tmp_path):
    run = RunFolder(tmp_path)
    with pytest.raises(InputError, match="model is not text"):
        run.write_summary("training", {**TRAINING, "model": None})
    with pytest.raises(InputError, match="missing"):
        run.write_summary("pate", TRAINING)
    assert not run.summary.exists()


def test_a_run_of_another_kind_is_no_training(tmp_path):
    RunFolder(tmp_path).write_summary("pate", PATE)
    with pytest.raises(InputError, match="not a run of `labeldp train`"):
        RunFolder(tmp_path).read_training()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": NaN}', "[" * 100_000])
def test_what_is_no_json_object_is_damaged(tmp_path, content):
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(InputError, match=r"summary.json is missing or damaged"):
        RunFolder(tmp_path).read_summary()


def test_a_pipe_is_not_waited_for(tmp_path):
    run = RunFolder(tmp_path)
    for path in (run.summary, run.metrics):
        os.mkfifo(path)
    assert run.read_metrics() == []
    with pytest.raises(InputError, match="damaged"):
        run.read_summary()


def test_metrics_are_those_of_each_epochs_last_line(tmp_path):
    run = RunFolder(tmp_path)
    for line in ({"epoch": 1, "loss": 3.0}, {"epoch": 2, "loss": 2.0}, {"epoch": 1, "loss": 1.5, "more": 1}):
        run.add(line)
    with run.metrics.open("a") as file:
        file.write('{"epoch": "x"}\n{"epoch": 3, "lo')
    assert run.read_metrics() == [Metrics(1, 1.5), Metrics(2, 2.0)]
    assert run.resume(1) == [{"epoch": 1, "loss": 1.5, "more": 1}]
    assert run.metrics.read_text() == '{"epoch": 1, "loss": 1.5, "more": 1}\n'


def test_the_same_command_again_takes_its_own_place(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    for arguments in ("one", "two", "one"):
        monkeypatch.setattr("sys.argv", ["labeldp", arguments])
        run.note_start([tmp_path / "r.parquet"])
    assert [start.command for start in run.read_starts()] == ["labeldp two", "labeldp one"]
    assert all(isinstance(start, Start) and start.releases == ("r.parquet",) for start in run.read_starts())
    write_json(run.starts, {"starts": [{"day": None}]})
    with pytest.raises(InputError, match=r"starts\[0\].command is missing"):
        run.read_starts()


def test_promises(tmp_path):
    run = RunFolder(tmp_path)
    with pytest.raises(InputError, match="not a run of `labeldp train`"):
        run.promise()
    write_json(run.config, CONFIG)
    assert run.promise()["certificate"] is None
    run.write_summary("training", TRAINING)
    run.checkpoint.write_bytes(b"model")
    last = run.promise()
    assert (last["certificate"], last["release"], last["seed"]) == (TRAINING["certificate"], "ab", 7)
    run.selected.write_bytes(b"another")
    assert run.promise()["model"] not in (None, last["model"])


def test_which_rows_were_trained_on(tmp_path):
    run, about = RunFolder(tmp_path), TrainedRows(by_id=True, data_set="people", behind=("ab",))
    run.write_trained(pa.array(["x", "y"]), about)
    ids, read = run.read_trained()
    assert (ids.to_pylist(), read) == (["x", "y"], about)
    run.trained.write_bytes(b"")
    with pytest.raises(InputError, match="does not say which rows were trained on"):
        run.read_trained()


def test_where_canaries_and_predictions_are(tmp_path):
    run = RunFolder(tmp_path)
    assert run.planted() is None
    for path in (run.owner.canaries, run.student(1).predictions):
        path.parent.mkdir(parents=True)
        path.touch()
    assert run.planted() == (tmp_path / "owner/planted/canaries.npz", tmp_path / "student-1/probabilities.npy")
    run.canaries.touch()
    run.predictions.touch()
    assert run.planted() == (tmp_path / "canaries.npz", tmp_path / "probabilities.npy")


def test_stages_students_and_releases_are_in_order(tmp_path):
    run = RunFolder(tmp_path)
    assert run.releases() == (run.released,)
    for number in (10, 2, 1):
        run.stage(number).make()
        run.student(number).make()
        run.released_in(number).touch()
    assert [stage.path.name for stage in run.stages()] == ["stage-1", "stage-2", "stage-10"]
    assert [student.path.name for student in run.students()] == ["student-1", "student-2", "student-10"]
    assert [path.name for path in run.releases()] == ["released-1.parquet", "released-2.parquet", "released-10.parquet"]


def test_a_directory_goes_on_with_the_same_or_is_refused(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.match({"model": "linear", "recipe": {"seed": 1}})
    run.match({"model": "linear", "recipe": {"seed": 1}})
    with pytest.raises(InputError, match="another seed"):
        run.match({"model": "linear", "recipe": {"seed": 2}})
    run.match({"stages": 2}, file=run.dealing)
    assert json.loads(run.dealing.read_text()) == {"stages": 2}


def test_files_are_named_in_the_sentence(tmp_path):
    path = OwnerFolder(tmp_path).cost
    write_json(path, {"epoch": None})
    with pytest.raises(InputError, match=r"cost.json is no run's, or damaged: epoch is not a whole number"):
        read_as(Metrics, path)
    RunFolder(tmp_path).write_summary("games", AUDIT)
    assert RunFolder(tmp_path).read_summary().canaries == 10
