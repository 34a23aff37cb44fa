"""Planting is done once: killed anywhere, the same command finishes it; asked again, it changes nothing."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger, RandomizedResponse
from labeldp.audit.canaries import Canaries
from labeldp.audit.plant import plant_file
from labeldp.errors import AlreadyReleasedError, InputError
from labeldp.files.atomic import place_file
from labeldp.release.classes import Classes
from tests.commands.releasing import release_file

FILES = ["c.npz", "p.parquet", "pets.parquet"]


def pets(folder, rows=300):
    folder.mkdir(exist_ok=True)
    labels = np.arange(rows) % 3
    pq.write_table(
        pa.table({"uid": [f"u{i}" for i in range(rows)], "y": labels, "x": labels / 7}), folder / "pets.parquet"
    )
    return folder


def plant(folder, out="p.parquet", secret="c.npz", **changes):
    asked = {"label": "y", "classes": Classes(3), "count": 20, "id_column": "uid"} | changes
    return plant_file(folder / "pets.parquet", folder / out, folder / secret, **asked)


def contents(folder):
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def check(folder):
    """Two whole private files that belong together, and nothing else."""
    assert sorted(os.listdir(folder)) == FILES
    canaries, table = Canaries.load(folder / "c.npz"), pq.read_table(folder / "p.parquet")
    expected = np.arange(300) % 3
    expected[canaries.rows] = canaries.planted
    np.testing.assert_array_equal(table["y"].to_numpy(), expected)
    assert table.schema.metadata[b"labeldp.planting"].decode() == canaries.planting
    for name in ("c.npz", "p.parquet"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    return canaries.planting


def test_asked_again_nothing_is_drawn(tmp_path):
    first = plant(pets(tmp_path))
    before = contents(tmp_path)
    assert first.made == "all"
    assert plant(tmp_path).made == "nothing"
    assert contents(tmp_path) == before
    again = plant(tmp_path, count=20, among=(0, 300), data_set="pets")  # the defaults by name
    assert (again.made, again.canaries.planting) == ("nothing", first.canaries.planting)


def test_a_lost_table_is_made_again_from_the_secret_file(tmp_path):
    first = plant(pets(tmp_path))
    before = contents(tmp_path)
    (tmp_path / "p.parquet").unlink()
    assert plant(tmp_path).made == "the rest"
    assert contents(tmp_path) == before
    assert plant(tmp_path, out="copy.parquet").canaries.planting == first.canaries.planting
    assert (tmp_path / "copy.parquet").read_bytes() == before["p.parquet"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"count": 21}, "another count"),
        ({"candidates": 3}, "another number of candidates"),
        ({"among": (0, 200)}, "another range of rows"),
        ({"id_column": None}, "another id column"),
        ({"wrong_only": True}, "another number of candidates, another way to draw"),
        ({"data_set": "other"}, "another data set"),
        ({"classes": Classes(4)}, "another list of classes"),
    ],
)
def test_another_request_needs_another_secret(tmp_path, changes, said):
    plant(pets(tmp_path))
    before = contents(tmp_path)
    with pytest.raises(InputError, match=rf"c.npz holds other canaries \(with {said}\); name another file"):
        plant(tmp_path, **changes)
    assert contents(tmp_path) == before


def test_other_labels_are_another_request(tmp_path):
    plant(pets(tmp_path))
    pets(tmp_path, rows=299)
    with pytest.raises(InputError, match="another content of the label file"):
        plant(tmp_path)


def test_what_is_there_and_is_something_else_stays(tmp_path):
    pets(tmp_path)
    (tmp_path / "c.npz").write_bytes(b"mine")
    with pytest.raises(InputError, match="is there already, and holds no canaries"):
        plant(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["c.npz", "pets.parquet"]
    (tmp_path / "c.npz").unlink()
    plant(tmp_path)
    table = pq.read_table(tmp_path / "p.parquet")
    pq.write_table(table.slice(1), tmp_path / "p.parquet")  # altered, and it still says which planting it is
    with pytest.raises(InputError, match=r"p.parquet is there already, and is not \(or no longer\) the table"):
        plant(tmp_path)
    assert len(pq.read_table(tmp_path / "p.parquet")) == 299


# Everything that changes what is on the disk goes through these. Killed at the n-th of them, then asked again.
KILLED = """
import json, os, signal, sys
from pathlib import Path
from tests.audit.test_plant import pets, plant

def run(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]

def killed_at(number, folder):
    def work():
        left = number
        def dying(call):
            def wrapped(*args, **kwargs):
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **kwargs)
            return wrapped
        for name in ("open", "fsync", "chmod", "link", "replace", "unlink"):
            setattr(os, name, dying(getattr(os, name)))
        plant(folder)
    return run(work)

place, rounds, number, status = Path(sys.argv[1]), [], 0, 9
while status:
    folder = place / str(number)
    run(lambda: pets(folder))
    status = killed_at(number, folder)
    rounds.append([number, status, sorted(os.listdir(folder))])
    secret = folder / "c.npz"
    before = secret.read_bytes() if secret.exists() else None
    again = run(lambda: plant(folder))
    rounds[-1] += [again, before is None or before == secret.read_bytes()]
    number += 1
print(json.dumps(rounds))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be killed anywhere")
def test_killed_anywhere_the_same_command_finishes(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rounds = json.loads(done.stdout)
    assert len(rounds) > 12, rounds
    assert {status for _, status, *_ in rounds[:-1]} == {9}
    left = [there for _, _, there, *_ in rounds]
    assert any("c.npz" in there and "p.parquet" not in there for there in left)
    assert any(name.startswith(".labeldp-") for there in left for name in there)
    for number, _, _, again, kept in rounds:
        assert again == 0, (number, done.stderr)
        assert kept, number  # what had been drawn and kept is what was planted
        check(tmp_path / str(number))


def test_a_living_writers_file_is_not_taken_for_a_dead_ones(tmp_path):
    def write(file):
        place_file(tmp_path / "out", lambda other: other.write(b"second"))
        file.write(b"first")

    place_file(tmp_path / "out", write)
    assert (tmp_path / "out").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["out"]


# ── the ledger ──


def options(folder, **changes):
    given = {"label": "y", "classes": Classes(3), "epsilon": 1.0, "id_column": "uid", "ledger": folder / "l"}
    return given | changes


@pytest.mark.parametrize("id_column", ["uid", None])
def test_rows_that_were_released_are_refused_at_once(tmp_path, id_column):
    pets(tmp_path)
    release_file(tmp_path / "pets.parquet", tmp_path / "r.parquet", options(tmp_path, id_column=id_column))
    here = sorted(os.listdir(tmp_path / "l.releases"))
    with pytest.raises(AlreadyReleasedError, match=r"some of these rows were released before .*'pets'"):
        plant(tmp_path, id_column=id_column, ledger=tmp_path / "l")
    assert not (tmp_path / "c.npz").exists()
    assert sorted(os.listdir(tmp_path / "l.releases")) == here
    assert plant(tmp_path, id_column=id_column, ledger=tmp_path / "l", again="charge").made == "all"
    with pytest.raises(InputError, match="`again` takes only 'charge'"):
        plant(tmp_path, id_column=id_column, ledger=tmp_path / "l", again="yes")


def test_under_another_name_too(tmp_path):
    pets(tmp_path)
    release_file(tmp_path / "pets.parquet", tmp_path / "r.parquet", options(tmp_path, data_set="other"))
    with pytest.raises(AlreadyReleasedError, match="'other'"):
        plant(tmp_path, ledger=tmp_path / "l")


def test_rows_that_were_not_released_are_not_refused(tmp_path):
    pets(tmp_path)
    release_file(tmp_path / "pets.parquet", tmp_path / "r.parquet", options(tmp_path, rows=(0, 100)))
    with pytest.raises(AlreadyReleasedError):
        plant(tmp_path, ledger=tmp_path / "l", among=(99, 300))
    assert plant(tmp_path, ledger=tmp_path / "l", among=(100, 300)).made == "all"


def test_what_was_planted_and_released_can_be_asked_for_again(tmp_path):
    plant(pets(tmp_path), ledger=tmp_path / "l")
    release_file(tmp_path / "p.parquet", tmp_path / "r.parquet", options(tmp_path))
    assert plant(tmp_path, ledger=tmp_path / "l").made == "nothing"


def test_the_default_ledger_is_asked_and_none_is_begun(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELDP_LEDGER", str(tmp_path / "own" / "l"))
    plant(pets(tmp_path / "a"))
    assert not (tmp_path / "own").exists()
    (tmp_path / "own").mkdir()
    labels = np.arange(300) % 3
    RandomizedResponse.calibrated(epsilon=1.0, num_classes=3).release(
        labels, ids=[f"u{i}" for i in range(300)], data_set="elsewhere", ledger=Ledger()
    )
    with pytest.raises(AlreadyReleasedError, match="elsewhere"):
        plant(pets(tmp_path / "b"))


def test_the_command_says_what_it_did(tmp_path, cli):
    pets(tmp_path)
    command = (
        "canaries", "plant", tmp_path / "pets.parquet", "--label", "y", "--classes", "3", "--count", "20", "--id", "uid",
        "--out", tmp_path / "p.parquet", "--secret", tmp_path / "c.npz", "--ledger", tmp_path / "l",
    )  # fmt: skip
    code, out, _ = cli(*command)
    assert (code, "before" in out) == (0, False)
    code, out, _ = cli(*command)
    assert code == 0
    assert "planted before: both files are there, unaltered" in out
    (tmp_path / "p.parquet").unlink()
    code, out, _ = cli(*command)
    assert (code, "begun before, finished now" in out) == (0, True)
    release_file(tmp_path / "pets.parquet", tmp_path / "r.parquet", options(tmp_path))
    code, out, err = cli(*command, "--secret", tmp_path / "d.npz", "--out", tmp_path / "q.parquet")
    assert (code, out) == (3, "")
    assert "--again charge" in err
    assert not Path(tmp_path / "q.parquet").exists()
