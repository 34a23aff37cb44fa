"""Making a release: the states, crashes between them, and what must never happen."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import labeldp
from labeldp import Ledger, RandomizedResponse, SecureEntropy, SeededEntropy, SubsetSelection
from labeldp.accounting.entries import CHARGED, COMPLETE, DELIVERED, PUBLISHED
from labeldp.errors import AlreadyReleasedError, BudgetError, InputError, LedgerError, RefusedError, UnfinishedError
from labeldp.private import PrivateLabels
from labeldp.release import copies, make
from labeldp.release.classes import Classes
from labeldp.release.make import make_release
from labeldp.release.order import Order
from labeldp.release.source import ArraySource

ROWS = 3000
MECHANISM = RandomizedResponse.calibrated(epsilon=1.0, num_classes=10)
Y = np.random.default_rng(0).integers(0, 10, ROWS)
IDS = np.arange(ROWS) + 10**6


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


def source(labels=Y, ids=IDS):
    return ArraySource(PrivateLabels(labels, 10), Classes(10), ids)


def run(ledger, entropy=None, again=None, out=None, **ordered):
    order = Order(**{"source": source(), "mechanism": MECHANISM, "data_set": "visits"} | ordered)
    return make_release(order, ledger=ledger, entropy=entropy or SecureEntropy(), again=again, out=out)


def charges(ledger):
    return len(ledger.book().releases)


def test_states_are_recorded_in_order(ledger, tmp_path):
    made = run(ledger, out=tmp_path / "out.parquet")
    kinds = [e.kind for e in ledger.verify()]
    assert kinds == ["ledger", "data set", CHARGED, COMPLETE, PUBLISHED, DELIVERED]
    assert made.charged_now
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ledger.folder.stat().st_mode) == 0o700
    left = sorted(p.name for p in ledger.folder.iterdir() if p.suffix not in (".lock", ".u64"))
    assert left == [made.path.name, f"head-6-{ledger.verify()[-1].hash[:16]}"]
    assert made.path.name.startswith("3-")


STEPS = ["charge", COMPLETE, PUBLISHED, "rename", "deliver", DELIVERED]


def kill_at(step, when, monkeypatch):
    """Die just before or just after a step."""

    def wrap(owner, name, condition=lambda *a, **k: True):
        original = getattr(owner, name)

        def deadly(*args, **kwargs):
            if not condition(*args, **kwargs):
                return original(*args, **kwargs)
            if when == "after":
                original(*args, **kwargs)
            raise Killed

        monkeypatch.setattr(owner, name, deadly)

    if step == "charge":
        wrap(Ledger, "charge")
    elif step == "rename":
        wrap(make, "_finish_rename")
    elif step == "deliver":
        wrap(make, "fill_and_place")
    else:
        wrap(Ledger, "advance", lambda self, release, state, **_: state == step)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_killed_at_any_step_the_same_command_finishes(ledger, tmp_path, monkeypatch, step, when, shuffle):
    out = tmp_path / "out" / "released.parquet"
    out.parent.mkdir()
    with monkeypatch.context() as patch:
        kill_at(step, when, patch)
        with pytest.raises(Killed):
            run(ledger, out=out, shuffle=shuffle)
    interrupted = ledger.book()
    if out.exists():
        (release,) = interrupted.releases.values()
        assert release.reached(PUBLISHED)
    made = run(ledger, out=out, shuffle=shuffle)
    assert charges(ledger) == 1
    assert made.charged_now == (step == "charge" and when == "before")
    assert labeldp.Release.load(out).checksum == made.record.checksum
    assert os.listdir(out.parent) == ["released.parquet"]
    again = run(ledger, out=tmp_path / "copy.parquet", shuffle=shuffle)
    assert (again.charged_now, again.resumed) == (False, False)
    assert (tmp_path / "copy.parquet").read_bytes() == out.read_bytes()


def test_before_publication_it_is_drawn_again_and_after_it_is_not(ledger, monkeypatch):
    drawn = []
    original = RandomizedResponse._observe

    def observe(self, codes, entropy):
        drawn.append(original(self, codes, entropy))
        return drawn[-1]

    monkeypatch.setattr(RandomizedResponse, "_observe", observe)
    for step, draws in ((PUBLISHED, 1), ("rename", 2)):
        with monkeypatch.context() as patch:
            kill_at(step, "before", patch)
            with pytest.raises(Killed):
                run(ledger)
        assert len(drawn) == draws
    made = run(ledger)
    assert len(drawn) == 2
    np.testing.assert_array_equal(labeldp.Release.load(made.path).observations, drawn[1])


def test_an_interrupted_second_draw_is_not_charged_twice(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.ledger", budget=5.0)
    run(ledger)
    with monkeypatch.context() as patch:
        kill_at("rename", "before", patch)
        with pytest.raises(Killed):
            run(ledger, again="charge")
    run(ledger, again="charge")
    assert charges(ledger) == 2
    assert run(ledger, again="charge").charged_now
    assert charges(ledger) == 3
    checksums = {r.checksum for r in ledger.book().releases.values()}
    assert len(checksums) == 3


def test_a_lost_file_is_said_and_can_be_paid_for(ledger):
    run(ledger).path.unlink()
    with pytest.raises(LedgerError, match="is gone"):
        run(ledger)
    raised = Ledger(ledger.path, budget=2.0, raise_budget=True)
    assert run(raised, again="charge").charged_now


def test_an_altered_kept_file_is_not_handed_out(ledger, tmp_path):
    made = run(ledger)
    other = Ledger(tmp_path / "other.ledger")
    made.path.write_bytes(run(other).path.read_bytes())
    with pytest.raises(LedgerError, match="altered"):
        run(ledger, out=tmp_path / "out.parquet")


def test_the_same_again_whatever_the_order_of_rows(ledger):
    first = run(ledger)
    backwards = run(ledger, source=source(Y[::-1], IDS[::-1]))
    assert backwards.record.number == first.record.number


def test_other_labels_on_the_same_rows_are_not_noticed(ledger):
    """The ledger knows a data set by what is public: it must not react to a label."""
    first = run(ledger)
    assert run(ledger, source=source((Y + 1) % 10)).record.checksum == first.record.checksum


def test_budget_and_again(tmp_path):
    ledger = Ledger(tmp_path / "l.ledger", budget=2.0)
    run(ledger)
    other = SubsetSelection.calibrated(epsilon=1.0, num_classes=10)
    with pytest.raises(AlreadyReleasedError):
        run(ledger, mechanism=other)
    run(ledger, mechanism=other, again="charge")
    with pytest.raises(BudgetError):
        run(ledger, again="charge")
    assert ledger.book().data_sets["visits"].spent().pure == pytest.approx(2.0, rel=1e-9)


def test_row_ranges(tmp_path):
    ledger = Ledger(tmp_path / "l.ledger")
    first = run(ledger, selected=(0, 1000))
    second = run(ledger, selected=(1000, ROWS))
    assert first.charged_now
    assert second.charged_now
    assert ledger.book().data_sets["visits"].spent().pure <= 1.0
    loaded = labeldp.Release.load(second.path)
    np.testing.assert_array_equal(loaded.ids, IDS[1000:])
    with pytest.raises(AlreadyReleasedError):
        run(ledger, selected=(999, 1001))
    with pytest.raises(InputError, match="not among"):
        run(ledger, selected=(0, ROWS + 1))


def test_row_numbers_of_a_range_stay_the_sources(ledger):
    loaded = labeldp.Release.load(run(ledger, source=source(ids=None), selected=(100, 200)).path)
    np.testing.assert_array_equal(loaded.ids, np.arange(100, 200))


def test_shuffling(ledger, tmp_path):
    """With almost no noise, ids must still lead to their own labels; and the order is another one."""
    clear = RandomizedResponse.calibrated(epsilon=32.0, num_classes=10)
    loaded = labeldp.Release.load(run(ledger, mechanism=clear, shuffle=True).path)
    assert loaded.header["shuffled"]
    assert (loaded.ids != IDS).any()
    np.testing.assert_array_equal(np.sort(loaded.ids), IDS)
    np.testing.assert_array_equal(loaded.observations, Y[loaded.ids - 10**6])
    with pytest.raises(InputError, match="`id_column`"):
        run(Ledger(tmp_path / "b.ledger"), source=source(ids=None), shuffle=True)


def test_shuffling_in_buckets(ledger, monkeypatch):
    from labeldp.release import shuffle

    monkeypatch.setattr(shuffle, "_BUCKET_ROWS", 100)
    monkeypatch.setattr("labeldp.release.source._ARRAY_BATCH", 700)
    clear = RandomizedResponse.calibrated(epsilon=32.0, num_classes=10)
    loaded = labeldp.Release.load(run(ledger, mechanism=clear, shuffle=True).path)
    np.testing.assert_array_equal(np.sort(loaded.ids), IDS)
    np.testing.assert_array_equal(loaded.observations, Y[loaded.ids - 10**6])
    # Early rows are spread over the whole file: their mean position is that of a uniform order (5 standard errors).
    positions = np.flatnonzero(loaded.ids < 10**6 + 500)
    assert abs(positions.mean() - ROWS / 2) < 5 * ROWS / 12**0.5 / 500**0.5


def test_seeded_releases_mark_the_data_set_for_good(ledger):
    made = run(ledger, entropy=SeededEntropy(1))
    loaded = labeldp.Release.load(made.path)
    assert loaded.insecure == "the noise comes from a known seed"
    assert loaded.guarantee is None
    assert loaded.to_json()["certificate"] == {"epsilon": None, "delta": None, "reason": loaded.insecure}
    later = run(ledger)  # nothing is left to protect: no ritual either
    assert "unprotected since an earlier release" in labeldp.Release.load(later.path).insecure
    with pytest.raises(RefusedError, match="unprotected for good"):
        run(Ledger(ledger.path, budget=1.0))


def test_seeded_and_plain_labels_are_refused_where_there_is_a_budget(ledger):
    run(ledger)
    for changes in ({"entropy": SeededEntropy(1)}, {"mechanism": labeldp.NoPrivacy(10)}):
        with pytest.raises(RefusedError, match="has a budget"):
            run(ledger, again="charge", **changes)
    assert charges(ledger) == 1


def test_no_privacy_is_marked(ledger):
    loaded = labeldp.Release.load(run(ledger, mechanism=labeldp.NoPrivacy(10)).path)
    np.testing.assert_array_equal(loaded.observations, Y)
    assert "INSECURE" in repr(loaded)
    assert ledger.book().data_sets["visits"].unprotected


def test_a_full_disk_charges_nothing(ledger, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match="not enough room"):
        run(ledger, out=tmp_path / "out.parquet")
    assert charges(ledger) == 0
    assert not (tmp_path / "out.parquet").exists()


def test_a_disk_that_fills_up_later_loses_nothing(ledger, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, os.strerror(28))

    out = tmp_path / "out.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(copies.shutil, "copyfileobj", full)
        with pytest.raises(UnfinishedError, match="nothing more is charged"):
            run(ledger, out=out)
    assert not out.exists()
    assert not run(ledger, out=out).charged_now
    assert labeldp.Release.load(out)


def test_gaussian_budget(tmp_path):
    gaussian = labeldp.Gaussian.calibrated(epsilon=1.0, num_classes=10, delta=1e-5)
    ledger = Ledger(tmp_path / "l.ledger", budget_gaussian=(1.0, 1e-5))
    run(ledger, mechanism=gaussian)
    with pytest.raises(BudgetError):
        run(ledger, mechanism=gaussian, again="charge")
    two = Ledger(tmp_path / "two.ledger", budget_gaussian=(1.5, 1e-5))
    run(two, mechanism=gaussian)
    run(two, mechanism=gaussian, again="charge")  # √2·μ: Gaussian costs add in μ², not in ε
    spent = two.book().data_sets["visits"].spent()
    assert 1.3 < spent.epsilon(1e-5) <= 1.5


def test_the_documented_python_lines(tmp_path):
    mechanism = labeldp.SubsetSelection.calibrated(epsilon=2.0, num_classes=10)
    ledger = labeldp.Ledger(tmp_path / "labels.ledger", budget=4.0)
    with pytest.warns(UserWarning, match="alone"):
        release = mechanism.release(Y, data_set="visits", ids=None, ledger=ledger)
    assert release.evidence([0, 5]).shape == (2, 10)
    release.save(tmp_path / "released.parquet")
    assert labeldp.Release.load(tmp_path / "released.parquet").checksum == release.checksum


def test_bad_arrays(ledger):
    for labels, ids, message in (
        (Y, IDS[:-1], "3,000 labels but 2,999 ids"), (Y, np.zeros(ROWS, int), "same id as row 0"),
        (Y, np.linspace(0, 1, ROWS), "whole numbers or text"), (Y, [None, *IDS[1:]], "row 0 has no id"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            MECHANISM.release(labels, data_set="visits", ids=ids, ledger=ledger)
    assert charges(ledger) == 0


def test_a_file_that_changes_under_way_is_not_released(ledger, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from labeldp.files.tables import open_table
    from labeldp.release.source import TableSource

    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"id": IDS, "y": Y}), path)
    original = make._write

    def write(*arguments):
        pq.write_table(pa.table({"id": IDS + 1, "y": Y}), path)
        return original(*arguments)

    def table():
        return TableSource(open_table(path), "y", Classes(10), "id")

    with monkeypatch.context() as patch:
        patch.setattr(make, "_write", write)
        with pytest.raises(UnfinishedError, match="changed while"):
            run(ledger, source=table(), out=tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    assert not list(ledger.folder.glob("*.parquet"))
    with pytest.raises(RefusedError, match="`data_set"):
        run(ledger, source=table())


def test_a_file_that_appears_at_out_meanwhile_is_left_alone(ledger, tmp_path, monkeypatch):
    out = tmp_path / "out.parquet"
    original = make.copy_into

    def copy(path, file):
        out.write_text("somebody else's")
        original(path, file)

    with monkeypatch.context() as patch:
        patch.setattr(make, "copy_into", copy)
        with pytest.raises(UnfinishedError, match="File exists"):
            run(ledger, out=out)
    assert out.read_text() == "somebody else's"
    out.unlink()
    assert not run(ledger, out=out).charged_now


def test_room_that_cannot_be_given_back_is_said_before_the_charge(ledger, tmp_path, monkeypatch):
    plain = Path.unlink

    def broken(path, missing_ok=False):
        if path.name == "room":
            raise OSError(5, os.strerror(5))
        plain(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", broken)
    with pytest.raises(InputError, match="room cannot be removed"):
        run(ledger, out=tmp_path / "out.parquet", shuffle=True)
    assert charges(ledger) == 0
