"""An audit as a directory: what was measured comes back as it was, and nothing else is overwritten."""

import json
import os
import signal
import stat
from dataclasses import asdict

import numpy as np
import pytest

from labeldp import SecureEntropy
from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit
from labeldp.audit.result import KeptAudit
from labeldp.errors import InputError
from tests.cli.conftest import without_privileges


def measured():
    canaries = Canaries.draw(200, rows=1000, num_classes=5, candidates=3, entropy=SecureEntropy())
    table = np.full((1000, 5), 0.2)
    table[canaries.rows] = 0.05
    table[canaries.rows, canaries.planted] = 0.8
    return audit(table, canaries)


def test_it_comes_back_as_it_was(tmp_path):
    result = measured()
    kept = KeptAudit.of(result, None, "0" * 64, knows_truth=False)
    kept.save(tmp_path / "audit")
    again = KeptAudit.load(tmp_path / "audit")
    assert json.loads(json.dumps(asdict(again.audit))) == json.loads(json.dumps(result.to_json()))
    assert again == kept
    assert again.trained_on == "0" * 64
    assert again.owner_only is None
    assert again.violins.violins().right.sum() == 200 * 2  # every comparison is right, at 80%
    assert stat.S_IMODE((tmp_path / "audit" / "audit.json").stat().st_mode) & 0o044
    kept.save(tmp_path / "audit")  # an audit may take an audit's place


def test_what_looked_at_true_labels_is_the_owners(tmp_path):
    KeptAudit.of(measured(), None, None, knows_truth=True).save(tmp_path / "audit")
    assert stat.S_IMODE((tmp_path / "audit" / "audit.json").stat().st_mode) == 0o600
    assert KeptAudit.load(tmp_path / "audit").owner_only


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process that can be killed")
def test_killed_while_it_was_written_it_can_be_kept_again(tmp_path):
    kept = KeptAudit.of(measured(), None, None, knows_truth=False)
    child = os.fork()
    if child == 0:
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        kept.save(tmp_path / "audit")
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    (left,) = os.listdir(tmp_path / "audit")
    assert left.startswith(".labeldp-")
    kept.save(tmp_path / "audit")
    assert os.listdir(tmp_path / "audit") == ["audit.json"]


def test_nothing_else_is_overwritten(tmp_path):
    kept = KeptAudit.of(measured(), None, None, knows_truth=False)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text("{}")
    for place in ("file", "run"):
        with pytest.raises(InputError, match="something else"):
            kept.save(tmp_path / place)
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "run" / "audit.json").exists()


@pytest.mark.parametrize("place", ["file/audit", "run", "closed/audit", "closed/deep/audit"])
def test_an_out_that_cannot_be_written_is_found_before_anything_is_computed(tmp_path, cli, place):
    """The audit's own files are not even looked for."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text("{}")
    (tmp_path / "closed").mkdir(mode=0o555)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    with without_privileges():
        code, out, err = cli("audit", "nowhere.npy", "--canaries", "nowhere.npz", "--out", tmp_path / place)
    assert (code, out) == (2, "")
    assert "--out" in err
    assert "nowhere" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed", "file", "run"]


def test_an_out_that_is_not_there_yet_is_not_made_for_an_audit_that_fails(tmp_path, cli):
    code, _, err = cli("audit", "nowhere.npy", "--canaries", "nowhere.npz", "--out", tmp_path / "deep" / "audit")
    assert (code, "nowhere" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("audit"),
        lambda d: d.update(format="another"),
        lambda d: d["violins"].update(right=[1, 2]),
        lambda d: d["violins"].update(wrong=[-1] * 600),
    ],
)
def test_damaged_files(tmp_path, change):
    KeptAudit.of(measured(), None, None, knows_truth=False).save(tmp_path / "audit")
    path = tmp_path / "audit" / "audit.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="damaged"):
        KeptAudit.load(tmp_path / "audit")
