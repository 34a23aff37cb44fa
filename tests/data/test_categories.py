"""Texts as codes and gaps as NaN, against a naive implementation; and what reads such files."""

import json
import tempfile
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.data import columns as cells
from labeldp.data.encode import NUMBERS, Encoding, Written
from labeldp.data.features import check_complete, read_features, read_parts
from labeldp.errors import InputError
from tests.data.test_encode import (
    NEW_ROWS,
    ROWS,
    as_number,
    encoded,
    files,
    fit_csv,
    fit_parquet,
    write_csv,
    write_parquet,
)
from tests.forged.fields import parquet_file

MOST = 3


def naive(fitted, new, most=MOST):
    """What encoding `new` as `fitted` should give, column by column and cell by cell."""
    done = {}
    for name, given_cells in fitted.items():
        text = name == "text"
        values = given_cells if text else [as_number(cell) for cell in given_cells]
        there = [value for value in values if value is not None]
        if not there or len(set(values)) == 1:
            continue
        if not text:
            done[name] = [np.nan if (number := as_number(cell)) is None else number for cell in new[name]]
            continue
        counts = Counter(there)
        order = sorted(counts, key=lambda value: (-counts[value], value))
        if len(order) > most:
            codes = {value: min(code, most - 1) for code, value in enumerate(order)}
            done[name] = [np.nan if cell is None else codes.get(cell, most - 1) for cell in new[name]]
        else:
            done[name] = [order.index(cell) if cell in order else np.nan for cell in new[name]]
    return done


@pytest.mark.parametrize("write", [write_parquet, write_csv])
@pytest.mark.parametrize("at_once", [2, 1000])
@settings(max_examples=40)
@given(files=files())
def test_it_is_what_a_naive_implementation_computes(write, at_once, files):
    fitted, new = files
    wanted = naive(fitted, new)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_FEWEST_ROWS", at_once)
        patch.setattr(cells, "_MOST_ROWS", at_once)
        ending = "csv" if write is write_csv else "parquet"
        first = write(Path(folder) / f"a.{ending}", fitted, ["x"] * ROWS)
        second = write(Path(folder) / f"b.{ending}", new, ["x"] * NEW_ROWS)
        if not wanted:
            with pytest.raises(InputError, match="nothing of"):
                Encoding.fit(first, labels=["label"], most_values=MOST, categories="keep")
            return
        encoding = Encoding.fit(first, labels=["label"], most_values=MOST, categories="keep")
        np.testing.assert_equal(encoded(encoding, second), wanted)
        x = Path(folder) / "x.parquet"
        assert encoding.write(first, x).new == {}  # the fitted file has nothing new
        assert Encoding.load(x) == encoding
        read = read_features(x, missing=True)
        np.testing.assert_array_equal(read.values.T, np.array(list(naive(fitted, fitted).values()), np.float32))
        assert read.categorical == (("text",) if "text" in wanted else ())
        if read.categorical or np.isnan(read.values).any():
            with pytest.raises(InputError, match="lightgbm"):
                read_features(x)
            with pytest.raises(InputError, match="lightgbm"):
                check_complete(read)
        else:
            check_complete(read)


@settings(max_examples=50)
@given(
    texts=st.lists(st.text("ab", max_size=3), min_size=2, max_size=60), seed=st.integers(0, 9), most=st.integers(2, 8)
)
def test_neither_the_order_of_rows_nor_batches_matter(texts, seed, most):
    """Codes are chosen by counts and texts alone; those of a smaller maximum are the same, but for the last."""
    if len(set(texts)) < 2:
        return
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        moved = np.random.default_rng(seed).permutation(len(texts))
        options = {"labels": (), "categories": "keep", "most_values": most}
        (one,) = fit_parquet(Path(folder), {"t": texts}, **options).columns
        patch.setattr(cells, "_MOST_ROWS", 3)
        patch.setattr(cells, "_FEWEST_ROWS", 3)
        assert fit_parquet(Path(folder), {"t": [texts[i] for i in moved]}, **options).columns == (one,)
        (all_of_them,) = fit_parquet(Path(folder), {"t": texts}, **{**options, "most_values": 1000}).columns
        assert one.codes == min(most, len(set(texts)))
        assert all_of_them.values[: len(one.values)] == one.values
        assert one.rest == (len(set(texts)) > most)


def test_what_became_of_each_column_is_said(tmp_path):
    rows = "".join(
        f"v{i},{'abc'[i % 3]},{i % 60},{'' if i % 9 == 0 else i},{'' if i % 7 else 'x'},s\n" for i in range(200)
    )
    encoding = fit_csv(tmp_path, f"visit,letter,many,n,flag,y\n{rows}", categories="keep")
    assert {column.name: column.became() for column in encoding.columns} == {
        "visit": "left out: 200 different values in 200 rows. If it names the rows, say `id_column='visit'`.",
        "letter": "text: codes 0 to 2, of its 3 values",
        "many": "number",
        "n": "number; missing stays missing",
        "flag": "text: codes 0 to 0, of its 1 values; missing stays missing",
    }
    assert encoding.outputs == ("letter", "many", "n", "flag")
    assert encoding.codes == {"letter": 3, "flag": 1}
    assert any("what is missing becomes a feature, of 'n', 'flag'" in warning for warning in encoding.warnings())
    few = fit_csv(tmp_path, f"visit,letter,many,n,flag,y\n{rows}", categories="keep", most_values=2)
    assert few.columns[1].became() == "text: codes 0 to 1, of the most frequent values, the last of all others"
    assert few.columns[1].values == ("a",)  # equally frequent ones by their text


def test_a_column_of_which_nothing_is_there_is_left_out(tmp_path):
    encoding = fit_csv(tmp_path, "a,gone,same,y\n1,,x,s\n2,,x,s\n", categories="keep")
    assert [column.why for column in encoding.columns] == ["", "no row holds anything", "all rows hold the same"]


def test_values_that_are_new_are_counted(tmp_path):
    text = "n,t,y\n" + "".join(f"{i},{'uvw'[i % 3]},s\n" for i in range(9))
    later = tmp_path / "later.csv"
    later.write_text("n,t\n,new\n2,u\n3,\n")
    encoding = fit_csv(tmp_path, text, categories="keep")
    np.testing.assert_equal(encoded(encoding, later), {"n": [np.nan, 2, 3], "t": [np.nan, 0, np.nan]})
    assert encoding.write(later, tmp_path / "x.parquet") == Written(3, {"t": 1})
    merged = fit_csv(tmp_path, text, categories="keep", most_values=2)
    np.testing.assert_equal(encoded(merged, later)["t"], [1, 0, np.nan])  # new is one of the others
    assert merged.write(later, tmp_path / "x.parquet") == Written(3, {})


def test_more_values_than_are_counted_are_hashed(tmp_path, monkeypatch):
    """How many there are is estimated; a column that names rows is still left out."""
    monkeypatch.setattr(cells, "_COUNTED", 200)
    monkeypatch.setattr(cells, "_LEAST", 128)
    monkeypatch.setattr(cells, "_MOST_ROWS", 1000)
    monkeypatch.setattr(cells, "_FEWEST_ROWS", 1000)
    texts = [None if i == 5 else f"agent {i % 1000}" for i in range(8000)]
    columns = {"agent": texts, "visit": [f"v{i}" for i in range(8000)], "y": [0] * 8000}
    encoding = fit_parquet(tmp_path, columns, categories="keep", most_values=16)
    agent, visit = encoding.columns
    assert agent.became() == "text: codes 0 to 15, hashes of more than 200 values; missing stays missing"
    assert visit.why.startswith("more than 200 different values in 8,000 rows. If it names the rows")
    found = encoded(encoding, tmp_path / "in.parquet")["agent"]
    wanted = [np.nan if t is None else int(blake2b(t.encode(), digest_size=8).hexdigest(), 16) % 16 for t in texts]
    np.testing.assert_equal(found, wanted)
    assert encoding.write(tmp_path / "in.parquet", tmp_path / "x.parquet").new == {}
    assert Encoding.load(tmp_path / "x.parquet") == encoding
    read = read_features(tmp_path / "x.parquet", missing=True)
    assert read.categorical == ("agent",)


@pytest.mark.parametrize("count", [300, 3000, 30_000])
def test_different_texts_are_estimated(monkeypatch, count):
    """The spread is 1/√128, about 9%: five of it, for fixed texts."""
    monkeypatch.setattr(cells, "_COUNTED", 200)
    monkeypatch.setattr(cells, "_LEAST", 128)
    texts = cells._Texts("t", cells.Rules("keep", 16))
    for start in range(0, 2 * count, 100):
        texts.add(pa.chunked_array([[f"value {i % count}" for i in range(start, start + 100)]]), "t", start)
    assert abs(texts.different() / count - 1) < 0.45


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categories": "hash"}, "`categories` is one-hot or keep; got 'hash'"),
        ({"categories": "keep", "most_values": 1}, "at least 2 values"),
        ({"categories": "keep", "most_values": 1 << 25}, "at most 16,777,216"),
        ({"add_id": "a"}, "has a column 'a' already"),
        ({"add_id": "y"}, "has a column 'y' already"),
        ({"add_id": ""}, "got an empty one"),
        ({"add_id": "row", "id_column": "a"}, "leave one of the two out"),
        ({"add_id": "a=u"}, "two columns would be called 'a=u'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        fit_csv(tmp_path, "a,y\nu,1\nv,2\n", **options)


# ── the file, which may be another party's ──


@pytest.fixture
def kept(tmp_path):
    """x.parquet: a text as codes, a number with a gap."""
    encoding = fit_csv(tmp_path, "n,t,y\n1,u,s\n,v,s\n3,u,s\n4,,s\n", categories="keep")
    encoding.write(tmp_path / "in.csv", tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


def altered(path, change=lambda data: data, table=lambda table: table):
    read = pq.read_table(path)
    data = change(json.loads(read.schema.metadata[b"labeldp.encoding"]))
    new = table(read).replace_schema_metadata({b"labeldp.encoding": json.dumps(data)})
    pq.write_table(new, path)
    return path


def test_files_say_the_least_version_that_can_say_it(tmp_path, kept):
    """An older labeldp reads what it can understand, and refuses the rest as newer."""
    assert json.loads(pq.read_schema(kept).metadata[b"labeldp.encoding"])["version"] == 2
    plain = fit_csv(tmp_path, "n,t,y\n1,u,s\n2,v,s\n").to_json()
    assert plain["version"] == 1
    assert set(plain) == {"version", "id", "labels", "columns"}
    assert set(plain["columns"][0]) == {"name", "kind", "median", "values", "missing", "why"}
    assert fit_csv(tmp_path, "n,y\n1,s\n2,s\n", add_id="row").to_json()["version"] == 2


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (0, {"kept": 1}),
        (0, {"rest": True}),
        (0, {"buckets": 5}),
        (1, {"rest": None}),
        (1, {"buckets": -1}),
        (1, {"buckets": 4}),
        (1, {"buckets": True, "values": []}),
        (1, {"buckets": 1 << 25, "values": []}),
        (1, {"values": []}),
        (1, {"kind": "left out"}),
        (1, {"kept": False, "rest": True}),
    ],
)
def test_codes_that_cannot_be_are_said(kept, number, changes):
    def change(data):
        data["columns"][number].update(changes)
        return data

    altered(kept, change)
    for read in (Encoding.load, lambda path: read_features(path, missing=True)):
        with pytest.raises(InputError, match="is damaged, or its columns were changed"):
            read(kept)


@pytest.mark.parametrize("changes", [{"numbered": 1}, {"numbered": True}, {"columns": 5}])
def test_a_damaged_description_is_said_by_whoever_reads_features(kept, changes):
    altered(kept, lambda data: {**data, **changes})
    with pytest.raises(InputError, match="is damaged, or its columns were changed"):
        read_features(kept, missing=True)


def test_only_columns_that_are_there_are_categorical(kept):
    altered(kept, table=lambda table: table.drop_columns(["t"]))
    read = read_features(kept, missing=True)
    assert (read.columns, read.categorical, read.codes) == (("n",), (), "")
    with pytest.raises(InputError, match="its columns were changed"):
        Encoding.load(kept)


@pytest.mark.parametrize("code", [-1.0, 2.0, 0.5, 1e30])
def test_a_number_that_is_no_code_is_said(kept, code):
    altered(kept, table=lambda table: table.set_column(1, "t", pa.array([0, 1, 0, code], pa.float32())))
    with pytest.raises(InputError, match=r"column 't' of .* holds a number that is none of its 2 codes"):
        read_features(kept, missing=True)


def test_lists_are_no_codes(kept):
    altered(kept, table=lambda table: pa.table({"t": [[0.0, 1.0]] * 4}))
    with pytest.raises(InputError, match="its columns were changed"):
        read_features(kept, missing=True)


def test_gaps_are_refused_with_the_row_unless_they_may_be(kept, tmp_path):
    with pytest.raises(InputError, match=r"row 1 of .* has nothing in column 'n', and this needs numbers everywhere"):
        read_features(kept)
    read = read_features(kept, missing=True)
    np.testing.assert_equal(read.values.tolist(), [[1, 0], [np.nan, 1], [3, 0], [4, np.nan]])
    with pytest.raises(InputError, match="column 't' holds codes of categories"):
        check_complete(read)
    pq.write_table(pa.table({"n": [1.0, None, 2.0], "m": [1.0, 2.0, None]}), tmp_path / "plain.parquet")
    with pytest.raises(InputError, match=r"row 1 of .* holds a feature that is NaN or infinite"):
        read_features(tmp_path / "plain.parquet")
    with pytest.raises(InputError, match="row 1 has nothing in column 'n'"):
        check_complete(read_features(tmp_path / "plain.parquet", missing=True))
    np.save(tmp_path / "x.npy", [[1.0, np.nan]])
    assert np.isnan(read_features(tmp_path / "x.npy", missing=True).values[0, 1])
    with pytest.raises(InputError, match="row 0 has nothing in a column"):
        check_complete(read_features(tmp_path / "x.npy", missing=True))
    pq.write_table(pa.table({"n": [1.0, np.inf]}), tmp_path / "plain.parquet")
    with pytest.raises(InputError, match=r"row 1 of .* holds a feature that is infinite"):
        read_features(tmp_path / "plain.parquet", missing=True)


def test_codes_without_gaps_are_refused_where_numbers_are_meant(tmp_path):
    fit_csv(tmp_path, "t,y\nu,s\nv,s\n", categories="keep").write(tmp_path / "in.csv", tmp_path / "x.parquet")
    with pytest.raises(InputError, match="column 't' holds codes of categories, which are no quantities"):
        read_features(tmp_path / "x.parquet")
    (part,) = read_parts(tmp_path / "x.parquet", missing=True)
    assert part.categorical == ("t",)


def test_the_same_columns_encoded_anew_have_other_codes(tmp_path, kept):
    """Their names are the same: only a digest of what the codes stand for tells them apart."""
    trained = read_features(kept, missing=True)
    (tmp_path / "later.csv").write_text("t,n\nv,1\nv,2\nu,3\n")
    Encoding.load(kept).write(tmp_path / "later.csv", tmp_path / "like.parquet")
    Encoding.fit(tmp_path / "later.csv", labels=(), categories="keep").write(
        tmp_path / "later.csv", tmp_path / "anew.parquet"
    )
    like, anew = (read_features(tmp_path / f"{name}.parquet", missing=True) for name in ("like", "anew"))
    assert like.ordered(trained.columns, trained.codes).tolist() == [[1, 1], [2, 1], [3, 0]]
    assert anew.columns == ("t", "n")
    with pytest.raises(InputError, match=r"stand for other values here.*--like"):
        anew.ordered(trained.columns, trained.codes)
    with pytest.raises(InputError, match="trained on other columns"):
        anew.ordered(("n", "other"), trained.codes)
    moved = altered(kept, table=lambda table: table.select(["t", "n"]))
    assert read_features(moved, missing=True).codes == trained.codes  # whatever the order of columns


# ── ids that are row numbers ──


def test_row_numbers_as_ids(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "_MOST_ROWS", 2)
    monkeypatch.setattr(cells, "_FEWEST_ROWS", 2)
    encoding = fit_csv(tmp_path, "n,y\n5,s\n3,s\n4,s\n", add_id="row")
    assert NUMBERS in encoding.warnings()
    x = tmp_path / "x.parquet"
    encoding.write(tmp_path / "in.csv", x)
    table = pq.read_table(x)
    assert table.schema.field("row").type == pa.int64()
    assert table.to_pydict() == {"row": [0, 1, 2], "n": [5, 3, 4]}
    by_id, by_number = read_features(x, "row"), read_features(x)
    assert (by_id.columns, by_id.named, by_id.numbered) == (("n",), True, True)
    assert (by_number.columns, by_number.named, by_number.ids.tolist()) == (("n",), False, [0, 1, 2])
    (tmp_path / "later.csv").write_text("n,row\n7,3\n")
    with pytest.raises(InputError, match="has a column 'row' already"):
        Encoding.load(x).write(tmp_path / "later.csv", tmp_path / "z.parquet")
    (tmp_path / "later.csv").write_text("n\n7\n")
    Encoding.load(x).write(tmp_path / "later.csv", tmp_path / "z.parquet")
    assert pq.read_table(tmp_path / "z.parquet").to_pydict() == {"row": [0], "n": [7]}
    altered(x, table=lambda table: table.slice(1))
    assert read_features(x, "row").ids.tolist() == [1, 2]
    with pytest.raises(InputError, match="not all there, or no longer in their order"):
        read_features(x)


def test_an_id_that_the_file_names_is_no_feature(tmp_path):
    """A number as an id was taken for one, where `id_column` was forgotten."""
    fit_csv(tmp_path, "uid,n,y\n8,1,s\n9,2,s\n", id_column="uid").write(tmp_path / "in.csv", tmp_path / "x.parquet")
    with pytest.raises(InputError, match="names its rows, and is no feature: say `id_column='uid'`"):
        read_features(tmp_path / "x.parquet")


@pytest.mark.parametrize("options", [{"id_column": "uid"}, {"add_id": "row"}])
def test_every_field_of_the_description_may_be_forged(tmp_path, options):
    """It is read, or refused in a sentence; nothing else."""
    text = "uid,n,t,u,y\n" + "".join(f"{i},{i % 5},{'abc'[i % 3]},{'' if i % 2 else 'x'},s\n" for i in range(12))
    x, forged, read = tmp_path / "x.parquet", tmp_path / "forged.parquet", 0
    fit_csv(tmp_path, text, categories="keep", most_values=2, **options).write(tmp_path / "in.csv", x)
    name = options.get("id_column") or options["add_id"]
    for field in parquet_file(tmp_path, "x.parquet", b"labeldp.encoding"):
        for content in field.forged(3):
            forged.write_bytes(content or b"")
            for reader in (Encoding.load, lambda path: read_features(path, name, missing=True), read_features):
                try:
                    found = reader(forged)
                except InputError:
                    continue
                read += 1
                if not isinstance(found, Encoding):
                    assert set(found.categorical) <= set(found.columns)
    assert read > 10
