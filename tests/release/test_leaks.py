"""What a hostile privacy engineer tried: each way in which something other than an observation told about a label, or a cap lied."""

import json
import os
import traceback
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import Ledger, RandomizedResponse, SecureEntropy
from labeldp.accounting.entries import PUBLISHED
from labeldp.errors import BudgetError, FileFormatError, InputError, LedgerError, UnfinishedError
from labeldp.files.tables import open_table
from labeldp.private import PrivateLabels
from labeldp.release import make
from labeldp.release.classes import Classes
from labeldp.release.copies import fetch
from labeldp.release.make import make_release
from labeldp.release.order import Order
from labeldp.release.source import ArraySource, TableSource

MECHANISM = RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
ROWS = 400


def arrays(rows=ROWS, ids=True):
    return ArraySource(PrivateLabels(np.arange(rows) % 2, 2), Classes(2), np.arange(rows) if ids else None)


def run(ledger, source=None, entropy=None, again=None, out=None, **ordered):
    order = Order(source or arrays(), **{"mechanism": MECHANISM, "data_set": "d"} | ordered)
    return make_release(order, ledger=ledger, entropy=entropy or SecureEntropy(), again=again, out=out)


def layout(path):
    metadata = pq.read_metadata(path)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_row_groups_do_not_follow_the_labels_text(tmp_path, monkeypatch):
    """A CSV batch holds so many bytes, and `yes` is longer than `no`: cut where batches end, groups would count the labels."""
    monkeypatch.setattr("labeldp.files.tables._BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr("labeldp.release.format._GROUP_BYTES", 3000)
    layouts = []
    for name in ("no", "yes"):
        path = tmp_path / f"{name}.csv"
        path.write_text("x,y\n" + "".join(f"{i},{name}\n" for i in range(20_000)))
        source = TableSource(open_table(path), "y", Classes(2, ("no", "yes")))
        assert len(list(source.batches())) > 2
        layouts.append(layout(run(Ledger(tmp_path / f"{name}.ledger"), source).path))
    assert layouts[0] == layouts[1] == [3000] * 6 + [2000]


def test_row_groups_do_not_follow_the_label_columns_size(tmp_path, monkeypatch):
    monkeypatch.setattr("labeldp.files.tables._BATCH_BYTES", 1 << 15)
    layouts, batches = [], []
    for i, labels in enumerate((np.zeros(50_000, int), np.random.default_rng(0).integers(0, 2, 50_000))):
        path = tmp_path / f"{i}.parquet"
        pq.write_table(pa.table({"x": np.arange(50_000), "y": labels}), path)
        source = TableSource(open_table(path), "y", Classes(2))
        batches.append([len(b.labels) for b in source.batches()])
        layouts.append(layout(run(Ledger(tmp_path / f"{i}.ledger"), source).path))
    assert batches[0] != batches[1]
    assert layouts[0] == layouts[1]


def test_a_budget_is_not_lowered_below_what_is_spent(tmp_path):
    strong = RandomizedResponse.calibrated(epsilon=4.0, num_classes=2)
    run(Ledger(tmp_path / "l", budget=4.0), mechanism=strong, selected=(0, 200))
    with pytest.raises(BudgetError, match="cannot be lowered"):
        run(Ledger(tmp_path / "l", budget=1.0), selected=(200, 400))
    assert Ledger(tmp_path / "l").book().data_sets["d"].publishable() == {"epsilon": 4.0, "delta": 0.0}


def test_a_link_to_the_ledger_is_the_ledger(tmp_path):
    ledger = Ledger(tmp_path / "real" / "l.ledger")
    os.symlink(ledger.path, tmp_path / "link")
    linked = Ledger(tmp_path / "link")
    assert (linked.path, linked.folder) == (ledger.path, ledger.folder)


def test_two_draws_are_never_published_under_one_charge(tmp_path, monkeypatch):
    """Should the lock fail, the second to finish is refused by the ledger itself."""
    ledger = Ledger(tmp_path / "l")
    monkeypatch.setattr(Ledger, "lock", lambda self, name: nullcontext(_folder(tmp_path)))
    original, inner = make._write, []

    def write(*arguments):
        if not inner:
            inner.append(None)
            inner.append(run(ledger))
        return original(*arguments)

    monkeypatch.setattr(make, "_write", write)
    with pytest.raises(UnfinishedError, match="another process"):
        run(ledger)
    (release,) = ledger.book().releases.values()
    assert release.checksum == inner[1].record.checksum
    published = [e for e in ledger.verify() if e.kind == PUBLISHED]
    assert len(published) == 1


def _folder(tmp_path):
    import tempfile
    from pathlib import Path

    return Path(tempfile.mkdtemp(dir=tmp_path))


def test_a_discarded_draw_leaves_no_checksum(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l")

    class Killed(BaseException):
        pass

    def advance(self, release, state, **facts):
        if state == PUBLISHED:
            raise Killed
        return original(self, release, state, **facts)

    original = Ledger.advance
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "advance", advance)
        with pytest.raises(Killed):
            run(ledger)
    assert all("checksum" not in entry.body for entry in ledger.verify())
    run(ledger)
    assert sum("checksum" in entry.body for entry in ledger.verify()) == 1


def test_a_broken_note_locks_nobody_out(tmp_path):
    ledger = Ledger(tmp_path / "l")
    run(ledger, out=tmp_path / "out.parquet")
    (lock,) = ledger.folder.glob("*.lock")
    for content in (b"", os.fsencode(tmp_path / "out.parquet" / "below"), os.fsencode(tmp_path), b"\xff\0"):
        lock.with_suffix(".unfinished").write_bytes(content)
        assert not run(ledger, out=tmp_path / "out.parquet").charged_now
    assert (tmp_path / "out.parquet").exists()


def test_published_but_lost(tmp_path):
    """A power cut may take the file: then another can be paid for."""
    ledger = Ledger(tmp_path / "l", budget=5.0)

    def lose(self, release, state, **facts):
        advanced = original(self, release, state, **facts)
        if state == PUBLISHED:
            self.copy_of(release).with_suffix(".partial").unlink()
        return advanced

    original = Ledger.advance
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "advance", lose)
        with pytest.raises(LedgerError, match="is gone"):
            run(ledger)
    with pytest.raises(LedgerError, match="is gone"):
        run(ledger)
    assert run(ledger, again="charge").charged_now
    ledger.verify()
    assert [r.state for r in ledger.book().releases.values()] == ["lost", "delivered"]


def test_names_that_no_reader_would_accept_are_refused_before_the_charge(tmp_path):
    ledger = Ledger(tmp_path / "l")
    for column in ("", "user\u00a0id", "a\tb"):
        path = tmp_path / "l.parquet"
        pq.write_table(pa.table({column: np.arange(10), "y": np.zeros(10, int)}), path)
        with pytest.raises(InputError, match="printable"):
            run(ledger, TableSource(open_table(path), "y", Classes(2), column))
    for names in ([0, 1], ["no\u00a0", "yes"]):
        with pytest.raises(InputError, match="printable"):
            MECHANISM.release([0, 1], data_set="v", ids=[1, 2], ledger=ledger, label_names=names)
    assert not ledger.book().releases


def test_where_another_data_sets_ids_are_missing_nothing_is_released_by_id(tmp_path):
    """Nobody could tell whether these ids have paid."""
    ledger = Ledger(tmp_path / "l")
    run(ledger, data_set="a")
    for path in ledger.folder.glob("ids-*.u64"):
        path.unlink()
    with pytest.raises(LedgerError, match="is missing"):
        run(ledger, arrays(ROWS + 1), data_set="b")
    assert len(ledger.book().releases) == 1


def test_protected_ids_are_not_released_insecurely_under_another_name(tmp_path):
    ledger = Ledger(tmp_path / "l")
    run(ledger)
    for changes in ({"mechanism": labeldp.NoPrivacy(2)}, {"entropy": labeldp.SeededEntropy(1)}):
        with pytest.raises(labeldp.RefusedError, match="protected by the budget of data set 'd'"):
            run(ledger, arrays(ROWS + 1), data_set="x", **changes)
    assert len(ledger.book().releases) == 1


def test_a_lowered_cap_does_not_improve_the_promise(tmp_path):
    gaussian = labeldp.Gaussian.calibrated(epsilon=1.0, num_classes=2)
    made = run(Ledger(tmp_path / "l", budget_gaussian=(8.0, 1e-5)), mechanism=gaussian, selected=(0, 200))
    before = made.data_set.publishable()
    made = run(Ledger(tmp_path / "l", budget_gaussian=(1.01, 1e-5)), mechanism=gaussian, selected=(200, 400))
    assert made.data_set.publishable() == before
    assert made.data_set.caps.epsilon(1e-5) <= 1.01


@pytest.mark.parametrize("error", [LedgerError("disk full"), OSError(28, "No space left on device")])
def test_whatever_fails_after_the_charge_is_unfinished(tmp_path, monkeypatch, error):
    ledger = Ledger(tmp_path / "l")

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "advance", fail)
        with pytest.raises(UnfinishedError, match="nothing more is charged"):
            run(ledger)
    assert not run(ledger).charged_now


def test_reordered_row_numbers_are_found(tmp_path):
    path = run(Ledger(tmp_path / "l"), arrays(ids=False)).path
    table = pq.read_table(path)
    metadata = {k: v for k, v in pq.read_metadata(path).metadata.items() if k.startswith(b"labeldp")}
    reversed_ids = table.set_column(0, table.schema.field(0), [table.column("id").to_numpy()[::-1].copy()])
    pq.write_table(reversed_ids.replace_schema_metadata(metadata), tmp_path / "x.parquet")
    with pytest.raises(FileFormatError, match="altered"):
        labeldp.Release.load(tmp_path / "x.parquet")


def test_an_altered_file_of_ids_hides_nothing(tmp_path):
    ledger = Ledger(tmp_path / "l", budget=3.0)
    run(ledger, selected=(0, 200))
    for path in ledger.folder.glob("ids-*.u64"):
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(LedgerError, match="altered"):
        run(ledger, selected=(100, 300))


def test_out_may_not_lie_in_the_ledgers_folder(tmp_path):
    ledger = Ledger(tmp_path / "l")
    with pytest.raises(InputError, match="belongs to the ledger"):
        run(ledger, out=ledger.folder / "mine.parquet")


def test_an_open_ledger_is_closed_to_others(tmp_path):
    ledger = Ledger(tmp_path / "l")
    run(ledger)
    ledger.path.chmod(0o644)
    ledger.folder.chmod(0o777)
    Ledger(tmp_path / "l")
    assert ledger.path.stat().st_mode & 0o077 == 0
    assert ledger.folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["x,y\n1,0\n2,1,SECRET\n", 'x,y\n1,0\n2,"SECRET\n', "x,y\n1,SECRET\n"])
def test_nothing_in_an_exceptions_chain_quotes_a_cell(tmp_path, text):
    path = tmp_path / "l.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        run(Ledger(tmp_path / "l"), TableSource(open_table(path), "y", Classes(2)))
    error = caught.value
    while error is not None:
        assert "SECRET" not in "".join(traceback.format_exception_only(error))
        error = error.__cause__ or error.__context__
    assert not Ledger(tmp_path / "l").book().releases


@pytest.mark.parametrize(
    "change",
    [
        {"made": "2026\ncertificate  ε = 0.1\x1b[8m"}, {"insecure": ""}, {"insecure": False}, {"budget": {}}, {"ledger": []},
        {"data_set": 3}, {"shuffled": "no"}, {"label_names": [1]}, {"ids": {"column": "\x1b"}}, {"rows": -1},
        {"budget": {"raised": [1], "publishable": None}}, {"budget": {"raised": [], "publishable": {"epsilon": "0"}}},
    ],
)  # fmt: skip
def test_a_header_of_another_kind_is_refused(tmp_path, change):
    """Even with a checksum that fits: its sender can compute one as well as we can."""
    release = labeldp.Release.load(run(Ledger(tmp_path / "l")).path)
    release.header.update(change)
    release.save(tmp_path / "x.parquet")
    with pytest.raises(FileFormatError, match="damaged description"):
        labeldp.Release.load(tmp_path / "x.parquet")


def test_deep_json_is_refused(tmp_path):
    release = labeldp.Release.load(run(Ledger(tmp_path / "l")).path)
    release.save(tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")
    deep = b'{"format":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    pq.write_table(table.replace_schema_metadata({b"labeldp": deep}), tmp_path / "x.parquet")
    with pytest.raises(FileFormatError, match="damaged description"):
        labeldp.Release.load(tmp_path / "x.parquet")


def test_the_same_file_with_and_without_ids_is_recognised(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("uid,y\n" + "".join(f"u{i},{i % 2}\n" for i in range(50)))

    def table(id_column):
        return TableSource(open_table(path), "y", Classes(2), id_column)

    ledger = Ledger(tmp_path / "l")
    run(ledger, table("uid"))
    with pytest.raises(labeldp.RefusedError, match="with ids"):
        run(ledger, table(None))
    with pytest.raises(labeldp.RefusedError, match="Use `data_set='d'`"):
        run(ledger, table(None), data_set="other")


def test_a_ledger_that_was_altered_is_not_charged(tmp_path):
    import sqlite3

    ledger = Ledger(tmp_path / "l", budget=9.0)
    run(ledger)
    connection = sqlite3.connect(ledger.path)
    connection.executescript("DROP TRIGGER entries_stay; UPDATE entries SET body = replace(body, '0.99', '0.11')")
    connection.close()
    with pytest.raises(labeldp.VerificationError, match="altered"):
        run(ledger, again="charge")


def test_a_missing_copy_is_found(tmp_path):
    ledger = Ledger(tmp_path / "l")
    run(ledger).path.unlink()
    with pytest.raises(labeldp.VerificationError, match="is missing"):
        ledger.verify()


def test_fetching_an_earlier_release(tmp_path):
    ledger = Ledger(tmp_path / "l", budget=5.0)
    first, second = run(ledger), run(ledger, again="charge")
    for made in (first, second):
        fetch(ledger, made.record.number, tmp_path / f"{made.record.number}.parquet")
        assert labeldp.Release.load(tmp_path / f"{made.record.number}.parquet").checksum == made.record.checksum
    with pytest.raises(InputError, match="no finished release 999"):
        fetch(ledger, 999, tmp_path / "x.parquet")


def test_again_charge_is_not_charged_for_what_is_already_there(tmp_path):
    ledger = Ledger(tmp_path / "l", budget=5.0)
    run(ledger, out=tmp_path / "a")
    assert run(ledger, out=tmp_path / "b", again="charge").charged_now
    assert not run(ledger, out=tmp_path / "b", again="charge").charged_now
    assert not run(ledger, out=tmp_path / "a", again="charge").charged_now
    assert len(ledger.book().releases) == 2


def test_a_pure_budget_admits_no_gaussian(tmp_path):
    gaussian = labeldp.Gaussian.calibrated(epsilon=1.0, num_classes=2)
    with pytest.raises(BudgetError, match=r"`budget_gaussian=\(1.*, 1e-05\), raise_budget=True`"):
        run(Ledger(tmp_path / "l", budget=4.0), mechanism=gaussian)


def test_what_may_be_published_is_said(tmp_path):
    gaussian = labeldp.Gaussian.calibrated(epsilon=1.0, num_classes=2)
    ledger = Ledger(tmp_path / "l", budget=3.0, budget_gaussian=(2.0, 1e-6))
    made = run(ledger, mechanism=gaussian)
    promise = made.data_set.publishable()
    assert promise["delta"] == 1e-6
    assert 4.98 < promise["epsilon"] <= 5.0
    assert json.loads(json.dumps(labeldp.Release.load(made.path).to_json()))["budget"]["publishable"] == promise


class TestArrays:
    def test_another_label_of_the_same_rows_is_another_request(self, tmp_path):
        ledger = Ledger(tmp_path / "l", budget=3.0)
        clicks, buys = np.zeros(ROWS, int), np.ones(ROWS, int)
        ids = np.arange(ROWS)
        MECHANISM.release(clicks, data_set="v", ids=ids, ledger=ledger, label="clicks")
        with pytest.raises(labeldp.AlreadyReleasedError, match="the label column"):
            MECHANISM.release(buys, data_set="v", ids=ids, ledger=ledger, label="buys")
        bought = MECHANISM.release(buys, data_set="v", ids=ids, ledger=ledger, label="buys", again="charge")
        assert bought.observations.mean() > 0.6

    def test_a_repetition_is_said_and_rows_can_be_found(self, tmp_path):
        ledger = Ledger(tmp_path / "l")
        clear = RandomizedResponse.calibrated(epsilon=32.0, num_classes=2)
        y, ids = np.arange(ROWS) // 7 % 2, [f"u{i}" for i in range(ROWS)]
        clear.release(y, data_set="v", ids=ids, ledger=ledger)
        order = np.random.default_rng(0).permutation(ROWS)
        mine = [ids[i] for i in order]
        with pytest.warns(labeldp.RepeatedReleaseWarning, match="nothing charged.*positions"):
            again = clear.release(y[order], data_set="v", ids=mine, ledger=ledger)
        np.testing.assert_array_equal(again.evidence(again.positions(mine)).argmax(axis=1), y[order])
        with pytest.raises(InputError, match="1 of these ids"):
            again.positions(["u0", "nobody"])

    def test_text_labels_with_names(self, tmp_path):
        clear = RandomizedResponse.calibrated(epsilon=32.0, num_classes=2)
        release = clear.release(
            ["no", "yes", "no"], data_set="v", ids=[1, 2, 3], ledger=tmp_path / "l", label_names=["no", "yes"]
        )
        assert release.observations.tolist() == [0, 1, 0]
        assert release.label_names == ("no", "yes")

    def test_wrong_kinds(self, tmp_path):
        for changes in ({"ledger": 3}, {"entropy": 7}):
            arguments = {"data_set": "v", "ids": [1], "ledger": Ledger(tmp_path / "l")} | changes
            with pytest.raises(InputError, match="must be"):
                MECHANISM.release([0], **arguments)
        for labels in (np.ma.masked_array([0, 1], [False, True]), [10**400, 1]):
            with pytest.raises(InputError, match="row"):
                MECHANISM.release(labels, data_set="v", ids=[1, 2], ledger=Ledger(tmp_path / "l"))
        with pytest.raises(InputError, match="printable"):
            MECHANISM.release([0], data_set="\ud800", ids=[1], ledger=Ledger(tmp_path / "l"))

    def test_evidence_of_no_rows_and_of_one(self, tmp_path):
        release = labeldp.Release.load(run(Ledger(tmp_path / "l")).path)
        assert release.evidence([]).shape == (0, 2)
        assert release.evidence(3).shape == (2,)
        for rows in ([0.5], [[1]], np.ones(3, bool), "a"):
            with pytest.raises(InputError, match="rows are"):
                release.evidence(rows)
