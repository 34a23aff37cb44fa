"""Which rows are released: spans, random parts by id, and ids from a file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp.errors import BudgetError, InputError
from labeldp.release.joint import join_releases
from labeldp.release.rows import Named, Part, Span, read_rows
from tests.release.test_make import IDS, MECHANISM, ROWS, Y, charges, run, source

TELLING = labeldp.RandomizedResponse.calibrated(epsilon=4.2, num_classes=10)


def ids_of(made):
    return labeldp.Release.load(made.path).ids


def test_parts_are_disjoint_cover_everything_and_depend_on_the_id_alone(ledger):
    parts = [ids_of(run(ledger, selected=Part(number, 3))) for number in (1, 2, 3)]
    assert sorted(np.concatenate(parts).tolist()) == IDS.tolist()
    # Binomial(3000, 1/3): beyond 6 standard deviations (155) with probability below 1e-8, for these fixed ids once and for all.
    assert all(abs(len(part) - ROWS / 3) < 155 for part in parts)
    order = np.random.default_rng(0).permutation(ROWS)
    again = run(
        labeldp.Ledger(ledger.path.with_name("other")), source=source(Y[order], IDS[order]), selected=Part(1, 3)
    )
    assert sorted(ids_of(again).tolist()) == parts[0].tolist()
    assert charges(ledger) == 3
    assert ledger.book().data_sets["visits"].spent().pure == MECHANISM.certificate().pure  # one label, one charge


def test_named_rows_and_what_they_may_not_overlap(ledger):
    made = run(ledger, selected=Named.of(IDS[::7]), mechanism=TELLING)
    assert ids_of(made).tolist() == IDS[::7].tolist()
    kept = (labeldp.Release.load(made.path).observations == Y[::7]).mean()
    assert kept > 0.5, (
        "labels went to the wrong rows"
    )  # 88% ± 1.6% on the right ones, 10% on others: false alarm below 1e-50
    with pytest.raises((BudgetError, labeldp.errors.AlreadyReleasedError)):
        run(ledger, selected=Named.of(IDS[::21]), mechanism=TELLING)
    with pytest.raises(InputError, match="2 of the 3 rows that are named are not in the file"):
        run(ledger, selected=Named.of([int(IDS[1]), 5, 6]))


def test_a_number_and_its_text_are_one_id(ledger):
    made = run(ledger, selected=Named.of([str(i) for i in IDS[:5]]))
    assert ids_of(made).tolist() == IDS[:5].tolist()


def test_without_ids_only_spans(ledger):
    for selection in (Part(1, 2), Named.of([1, 2])):
        with pytest.raises(InputError, match="`id_column`"):
            run(ledger, source=source(ids=None), selected=selection)
    assert charges(ledger) == 0
    joint = join_releases(
        [
            labeldp.Release.load(run(ledger, source=source(ids=None), selected=Span(a, b)).path)
            for a, b in ((100, 300), (0, 50))
        ]
    )
    assert joint.ids.tolist() == [*range(100, 300), *range(50)]


@pytest.mark.parametrize(
    ("text", "selection"), [("3:9", Span(3, 9)), (":9", Span(0, 9)), ("2/3", Part(2, 3)), (None, None)]
)
def test_what_rows_says(text, selection):
    assert read_rows(text, None) == selection


@pytest.mark.parametrize(
    ("text", "message"),
    [("0/2", "no part"), ("3/2", "no part"), ("1/1", "no part"), ("nowhere.csv", "no file"), ("1:2:3", "no file")],
)
def test_what_rows_cannot_say(text, message):
    with pytest.raises(InputError, match=message):
        read_rows(text, None)


def test_files_of_ids(tmp_path):
    pq.write_table(pa.table({"uid": ["a", "b", "a"], "x": [1, 2, 3]}), tmp_path / "rows.parquet")
    (tmp_path / "ids.txt").write_text("7\n8\n\n")
    (tmp_path / "headless.csv").write_text("7\n8\n9\n")
    assert read_rows(str(tmp_path / "rows.parquet"), "uid").ids.to_pylist() == ["a", "b"]
    assert read_rows(str(tmp_path / "ids.txt"), "uid").ids.to_pylist() == ["7", "8"]
    with pytest.raises(InputError, match="one a line"):  # its first id would be taken for a header
        read_rows(str(tmp_path / "headless.csv"), "uid")
    with pytest.raises(InputError, match="no column 'uuid'"):
        read_rows(str(tmp_path / "rows.parquet"), "uuid")


def test_joined_releases_must_be_of_different_rows_and_one_kind(ledger, tmp_path):
    one, two = (labeldp.Release.load(run(ledger, selected=Part(n, 2)).path) for n in (1, 2))
    joint = join_releases([one, two])
    assert len(joint) == ROWS
    assert joint.guarantee == one.guarantee
    np.testing.assert_array_equal(joint.evidence(np.arange(len(one), ROWS)), two.evidence())
    assert join_releases([one]) is one
    with pytest.raises(InputError, match="several of these releases"):
        join_releases([one, one])
    other = labeldp.Release.load(
        run(ledger, data_set="other", source=source(ids=IDS + 10**7), selected=Part(2, 2)).path
    )
    with pytest.raises(InputError, match="data set"):
        join_releases([one, other])
    elsewhere = labeldp.Release.load(run(labeldp.Ledger(tmp_path / "o"), selected=Part(2, 2)).path)
    with pytest.raises(InputError, match="different ledgers"):
        join_releases([one, elsewhere])
