"""Public tables: what is a feature, who is tested on, what is said of missing files. Files that are not here are skipped, visibly."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import PrivateLabels
from labeldp.data.download import data_folder
from labeldp.data.public import TABLES, WITH_SCIKIT_LEARN, load_table
from labeldp.errors import InputError

FILES = {"adult": "adult.data.gz", "bank": "bank-full.csv.gz"}
JOBS, ROWS = [f"job{i}" for i in range(60)], 400


def write_gz(path, text):
    path.write_bytes(gzip.compress(text.encode()))


def write_adult(folder):
    line = "39, State-gov, 77516, Bachelors, 13, Never-married, {}, Not-in-family, White, Male, 2174, 0, 40, {}, {}\n"
    rows = [
        line.format("Sales" if i % 3 else "Tech", "Cuba" if i % 5 else "?", ">50K" if i % 4 == 0 else "<=50K")
        for i in range(40)
    ]
    write_gz(folder / "adult.data.gz", "".join(rows).replace("39", "40", 7) + "\n")
    write_gz(
        folder / "adult.test.gz",
        "|1x3 Cross validator\n" + "".join(rows[:9]).replace("K\n", "K.\n").replace("Tech", "New") + "\n",
    )


def write_bank(folder):
    lines = [f'{20 + i % 50};"{JOBS[i % 60]}";{i};"{"yes" if i % 8 == 0 else "no"}"\n' for i in range(ROWS)]
    write_gz(folder / "bank-full.csv.gz", '"age";"job";"duration";"y"\n' + "".join(lines))


def write_diabetes(folder):
    head = (
        "encounter_id,patient_nbr,race,admission_type_id,discharge_disposition_id,admission_source_id,age,readmitted\n"
    )
    said = ("NO", ">30", "<30")
    # The age is the person's number, so that a person can be found again among the features.
    lines = [
        f"{i},{i // 4},{'?' if i % 7 else 'A'},{i % 3},{i % 2},{i % 5},{i // 4},{said[i % 3]}\n" for i in range(ROWS)
    ]
    write_gz(folder / "diabetic_data.csv.gz", head + "".join(lines))


def write_criteo(folder):
    i = np.arange(ROWS, dtype=np.int32)
    columns = {
        "hash_0": i % 70 - 30,
        "hash_1": i % 3,
        "click": (i % 9 == 0).astype(np.int8),
        "sale": (i % 18 == 0).astype(np.int8),
    }
    pq.write_table(pa.table(columns), folder / "criteo_ppml_adkdd21_train.parquet")


def test_adult_is_split_officially_and_keeps_what_is_missing(tmp_path):
    write_adult(tmp_path)
    table = load_table("adult", 3, tmp_path)
    assert (len(table.coded), len(table.coded_test), table.num_classes) == (40, 9, 2)
    assert isinstance(table.labels, PrivateLabels)
    assert table.test_labels.tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 1]
    # Left are age, occupation, country: what all rows share says nothing.
    assert (table.coded.shape[1], table.categorical) == (3, (1, 2))
    assert np.isnan(table.coded[:, 2]).tolist() == [i % 5 == 0 for i in range(40)]
    assert np.isnan(table.coded_test[::3, 1]).all()  # new among the test rows
    assert not np.isnan(table.plain).any()


def test_bank_in_a_public_draw(tmp_path):
    write_bank(tmp_path)
    one, again, other = (load_table("bank", seed, tmp_path) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.coded_test, again.coded_test)
    assert len(one.test_labels) == len(other.test_labels) == 120
    assert not np.array_equal(one.coded_test, other.coded_test)
    assert one.test_labels.tolist() == [int(duration % 8 == 0) for duration in one.coded_test[:, 2]]
    assert set(one.coded[:, 2]) | set(one.coded_test[:, 2]) == set(range(ROWS))


def test_rare_values_share_a_column(tmp_path):
    write_bank(tmp_path)
    table = load_table("bank", 0, tmp_path)
    assert len(np.unique(table.coded[:, 1])) == 60
    assert table.plain.shape[1] == 2 + 49  # age, duration; 48 jobs, and all others
    np.testing.assert_array_equal(table.plain[:, 1:-1].sum(axis=1), 1)
    np.testing.assert_array_equal(table.plain_test[:, 1:-1].sum(axis=1), 1)


@pytest.mark.parametrize(("name", "classes"), [("diabetes", 2), ("diabetes3", 3)])
def test_nobody_is_trained_and_tested_on(name, classes, tmp_path):
    write_diabetes(tmp_path)
    table = load_table(name, 0, tmp_path)
    people, tested = set(table.coded[:, -1]), set(table.coded_test[:, -1])
    assert (people & tested, len(tested), table.num_classes) == (set(), 30, classes)
    # Without the ids; what is numbered by type is no number.
    assert (table.coded.shape[1], table.categorical) == (5, (0, 1, 2, 3))
    assert table.labels.num_classes == classes
    assert np.bincount(table.test_labels, minlength=classes).min() > 0


def test_a_sale_is_no_feature(tmp_path):
    write_criteo(tmp_path)
    table = load_table("criteo", 0, tmp_path)
    assert (table.coded.shape[1], table.categorical) == (2, (0, 1))
    assert 0 < table.test_labels.mean() < 0.3


@pytest.mark.parametrize("name", WITH_SCIKIT_LEARN)
def test_what_comes_with_scikit_learn_needs_no_file(name, tmp_path):
    table = load_table(name, 0, tmp_path)
    assert table.coded is table.plain or np.array_equal(table.coded, table.plain)
    assert len(table.labels) == len(table.coded)
    assert len(table.test_labels) == len(table.coded_test)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in WITH_SCIKIT_LEARN])
def test_a_missing_file_is_a_sentence_that_says_where_it_was_looked_for(name, tmp_path):
    with pytest.raises(InputError, match=r"there is no .*LABELDP_DATA"):
        load_table(name, 0, tmp_path)


def test_files_that_are_something_else(tmp_path):
    (tmp_path / "bank-full.csv.gz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="damaged"):
        load_table("bank", 0, tmp_path)
    write_gz(tmp_path / "bank-full.csv.gz", "a;b\n1;2\n")
    with pytest.raises(InputError, match="lacks the columns age"):
        load_table("bank", 0, tmp_path)
    write_gz(tmp_path / "bank-full.csv.gz", "age;duration;y\n1;2\n")
    with pytest.raises(InputError, match="no table of the columns"):
        load_table("bank", 0, tmp_path)
    write_gz(tmp_path / "bank-full.csv.gz", "age;duration;y\n1;2;perhaps\n")
    with pytest.raises(InputError, match="none of no, yes") as error:
        load_table("bank", 0, tmp_path)
    assert "perhaps" not in str(error.value)
    (tmp_path / "criteo_ppml_adkdd21_train.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match="no Parquet file"):
        load_table("criteo", 0, tmp_path)
    with pytest.raises(InputError, match="unknown table 'iris'"):
        load_table("iris")
    with pytest.raises(InputError, match="`seed`"):
        load_table("cancer", -1)


@pytest.mark.parametrize(
    ("name", "train", "test", "share"), [("adult", 32_561, 16_281, 0.236), ("bank", 31_648, 13_563, 0.117)]
)
def test_the_real_files(name, train, test, share):
    """Rows as UCI states them: 32,561 and 16,281; 45,211."""
    if not (data_folder() / FILES[name]).exists():
        pytest.skip(f"{FILES[name]} is not in {data_folder()} ($LABELDP_DATA)")
    table = load_table(name, 0)
    assert (len(table.labels), len(table.test_labels)) == (train, test)
    assert table.test_labels.mean() == pytest.approx(share, abs=0.01)
