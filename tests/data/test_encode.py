"""Encodings, against a naive implementation; and that nothing of a label column matters, whatever is in it."""

import csv
import datetime as dt
import json
import statistics
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.data import columns as cells
from labeldp.data.encode import ORDER, Encoding, Written
from labeldp.data.features import read_features
from labeldp.errors import InputError
from labeldp.files import tables

EPOCH = dt.datetime(1970, 1, 1)
SECRET = "SECRETVALUE"

ROWS, NEW_ROWS, MOST = 7, 4, 3
NUMBERS = st.one_of(st.none(), st.integers(-5, 5), st.floats(width=64), st.sampled_from([1e300, -1e300, 2**62, 0.1]))
TEXTS = st.one_of(st.none(), st.sampled_from(["a", "b", "é", "1,234", "12%", 'say "x"', "two\nlines", "a=b"]))
DATES = st.one_of(st.none(), st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)))
KINDS = {
    "number": (NUMBERS.map(lambda n: None if n is None else float(n)), pa.float64()),
    "whole": (st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), pa.int64()),
    "yes": (st.one_of(st.none(), st.booleans()), pa.bool_()),
    "day": (DATES.map(lambda d: None if d is None else d.date()), pa.date32()),
    "time": (DATES, pa.timestamp("us")),
    "text": (TEXTS, pa.string()),
}


@st.composite
def files(draw):
    """Columns of a file to fit and of one to apply to."""
    chosen = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4, unique=True))
    return [{kind: draw(st.lists(KINDS[kind][0], min_size=n, max_size=n)) for kind in chosen} for n in (ROWS, NEW_ROWS)]


def as_number(cell):
    """A float32, or None."""
    if cell is None:
        return None
    if isinstance(cell, dt.date) and not isinstance(cell, dt.datetime):
        cell = dt.datetime(cell.year, cell.month, cell.day)
    number = (cell - EPOCH) / dt.timedelta(days=1) if isinstance(cell, dt.datetime) else float(cell)
    with np.errstate(over="ignore"):
        short = np.float32(number)
    return float(short) if np.isfinite(short) else None


def naive(fitted, new):
    """What encoding `new` as `fitted` should give, column by column and cell by cell."""
    done = {}
    for name, given_cells in fitted.items():
        text = name == "text"
        values = given_cells if text else [as_number(cell) for cell in given_cells]
        cells_ = new[name] if text else [as_number(cell) for cell in new[name]]
        there = [value for value in values if value is not None]
        missing = len(there) < len(values)
        if not there or len(set(values)) == 1 or (text and len(set(values)) > MOST):
            continue
        if text:
            for value in sorted(set(there)):
                done[f"{name}={value}"] = [float(cell == value) for cell in cells_]
        else:
            median = np.float32(statistics.median(there))
            done[name] = [median if cell is None else cell for cell in cells_]
        if missing:
            done[f"{name} is missing"] = [float(cell is None) for cell in cells_]
    return done


def write_parquet(path, columns, label):
    arrays = {name: pa.array(column, KINDS[name][1]) for name, column in columns.items()}
    pq.write_table(pa.table({**arrays, "label": label}), path, row_group_size=2)
    return path


def as_cell(value):
    if value is None:
        return ""
    return value.isoformat(" ") if isinstance(value, dt.datetime) else str(value)


def write_csv(path, columns, label):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "label"])
        writer.writerows(
            [*map(as_cell, row), y] for row, y in zip(zip(*columns.values(), strict=True), label, strict=True)
        )
    return path


def encoded(encoding, path):
    return pa.Table.from_batches(encoding.apply(path)).to_pydict()


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
        first = write(Path(folder) / ("a.csv" if write is write_csv else "a.parquet"), fitted, ["x"] * ROWS)
        second = write(Path(folder) / ("b.csv" if write is write_csv else "b.parquet"), new, ["x"] * NEW_ROWS)
        if not wanted:
            with pytest.raises(InputError, match="nothing of"):
                Encoding.fit(first, labels=["label"], most_values=MOST)
            return
        encoding = Encoding.fit(first, labels=["label"], most_values=MOST)
        assert encoded(encoding, second) == wanted
        assert encoded(encoding, first) == naive(fitted, fitted)
        encoding.write(first, Path(folder) / "x.parquet")
        loaded = Encoding.load(Path(folder) / "x.parquet")
        assert loaded == encoding
        loaded.write(first, Path(folder) / "again.parquet")
        assert (Path(folder) / "x.parquet").read_bytes() == (Path(folder) / "again.parquet").read_bytes()
        np.testing.assert_array_equal(
            read_features(Path(folder) / "x.parquet").values.T,
            np.array(list(naive(fitted, fitted).values()), np.float32),
        )


@pytest.mark.parametrize("options", [{}, {"categories": "keep", "add_id": "row"}])
@pytest.mark.parametrize("write", [write_parquet, write_csv])
@settings(max_examples=50)
@given(
    files=files(),
    labels=st.lists(st.text("yn0\n", max_size=60), min_size=2 * ROWS, max_size=2 * ROWS),
)
def test_files_that_differ_in_the_label_only_give_the_same_bytes(write, options, files, labels):
    """Long labels move the ends of the reader's own batches; none may show."""
    ending = "csv" if write is write_csv else "parquet"
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_FEWEST_ROWS", 3)
        patch.setattr(cells, "_MOST_ROWS", 3)
        patch.setattr(tables, "_BLOCK_BYTES", 400)  # the longest row has some 300
        done = []
        for i, label in enumerate((labels[:ROWS], labels[ROWS:])):
            path = write(Path(folder) / f"{i}.{ending}", files[0], label)
            try:
                Encoding.fit(path, labels=["label"], **options).write(path, Path(folder) / f"x{i}.parquet")
                done.append((Path(folder) / f"x{i}.parquet").read_bytes())
            except InputError as error:
                done.append(str(error).replace(str(path), "FILE"))
        assert done[0] == done[1]


@pytest.mark.parametrize("write", [write_parquet, write_csv])
def test_how_long_labels_are_does_not_show_in_batches(tmp_path, monkeypatch, write):
    """The reader's own batches end after so many bytes, of labels too."""
    monkeypatch.setattr(cells, "_FEWEST_ROWS", 150)
    monkeypatch.setattr(cells, "_MOST_ROWS", 150)
    monkeypatch.setattr(tables, "_BLOCK_BYTES", 4000)
    monkeypatch.setattr(tables, "_BATCH_BYTES", 64_000)
    ending, columns, ends, done = "csv" if write is write_csv else "parquet", {"whole": list(range(400))}, [], []
    for length in (1, 300):
        path, out = tmp_path / f"in.{ending}", tmp_path / f"{length}.parquet"
        write(path, columns, [f"{i % 10}" * length for i in range(400)])
        ends.append([batch.num_rows for batch in tables.open_table(path).batches(["whole"])])
        Encoding.fit(path, labels=["label"]).write(path, out)
        done.append(out.read_bytes())
    assert ends[0] != ends[1]
    assert done[0] == done[1]


def fit_parquet(folder, columns, **options):
    pq.write_table(pa.table(columns), folder / "in.parquet")
    return Encoding.fit(folder / "in.parquet", **{"labels": ["y"], **options})


def fit_csv(folder, text, **options):
    (folder / "in.csv").write_text(text)
    return Encoding.fit(folder / "in.csv", **{"labels": ["y"], **options})


@pytest.mark.parametrize(
    "label",
    [
        pa.array([b"\xff\xfe", b"", None], pa.binary()),
        pa.array([[{"deep": [b"\xff"]}], [], None], pa.list_(pa.struct([("deep", pa.list_(pa.binary()))]))),
        pa.array(["1", SECRET, None]),
    ],
)
def test_a_label_of_any_type_does_not_matter(tmp_path, label):
    encoding = fit_parquet(tmp_path, {"a": [1.0, 2.0, 4.0], "y": label})
    assert encoded(encoding, tmp_path / "in.parquet") == {"a": [1.0, 2.0, 4.0]}


def test_a_label_whose_bytes_are_destroyed_does_not_matter(tmp_path):
    """The pages of the label are overwritten with junk: whoever read them would fail."""
    path = tmp_path / "in.parquet"
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table({"a": [1.0, 2.0, 4.0], "y": [SECRET] * 3}), path, **options)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    start, size = chunk.data_page_offset, chunk.total_compressed_size
    data[start : start + size] = b"\xff" * size
    path.write_bytes(data)
    with pytest.raises((pa.ArrowException, OSError)):
        pq.read_table(path)
    assert encoded(Encoding.fit(path, labels=["y"]), path) == {"a": [1.0, 2.0, 4.0]}


def test_a_label_in_a_csv_may_be_no_utf8(tmp_path):
    """Beyond the first megabyte: what stands before is looked through for the header."""
    good = b"a,y\n" + b"1,x\n" * 300_000 + b"2,x\n"
    (tmp_path / "in.csv").write_bytes(good + b"3,\xff\xfe\n")
    encoding = Encoding.fit(tmp_path / "in.csv", labels=["y"])
    assert sum(batch.num_rows for batch in encoding.apply(tmp_path / "in.csv")) == 300_002


def test_a_nested_label_that_a_dotted_name_would_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read without 'y'"):
        fit_parquet(tmp_path, {"y": [{"b": 1}, {"b": 2}], "y.b": [1, 2]})
    assert fit_parquet(tmp_path, {"y": [1, 2], "y.b": [1, 2]}).outputs == ("y.b",)
    assert fit_parquet(tmp_path, {"y.b": [1, 2], "y": [1, 2]}, labels=["y.b"]).outputs == ("y",)


def test_a_file_of_nothing_but_the_label_is_not_read(tmp_path):
    """An empty list of columns means all of them to pyarrow's CSV reader."""
    with pytest.raises(InputError, match="no column that could be a feature"):
        fit_csv(tmp_path, f"y\n{SECRET}\n")
    with pytest.raises(InputError, match="no column that could be a feature"):
        fit_parquet(tmp_path, {"y": [1, 2]})


def test_a_misspelt_label_is_refused_and_columns_are_listed(tmp_path):
    with pytest.raises(InputError, match="no column 'z'; its columns are a, y"):
        fit_parquet(tmp_path, {"a": [1, 2], "y": [1, 2]}, labels=["z"])
    with pytest.raises(InputError, match="no column 'z'; its columns are a, y"):
        fit_csv(tmp_path, "a,y\n1,2\n", labels=["z"], id_column="a")
    with pytest.raises(InputError, match="Did you mean 'y'"):
        fit_csv(tmp_path, "a,y\n1,2\n", labels=["Y"])


def test_the_first_line_of_a_csv_without_a_header_is_not_quoted(tmp_path):
    with pytest.raises(InputError, match="its first line looks like data") as caught:
        fit_csv(tmp_path, f"v1,17,{SECRET}\nv2,18,{SECRET}\n", labels=["bought"], id_column="visit")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"a,y\n1,{SECRET}\n2,{SECRET},{SECRET}\n",  # a cell too many
        f'a,y\n1,"{SECRET}\n2,{SECRET}\n',  # a quote that never ends
        f"a,b,y\n1,,{SECRET}\n1,,{SECRET}\n",  # nothing to keep
        f"b,y\n1,{SECRET}\n1,{SECRET}\n",  # one value
    ],
)
def test_errors_do_not_quote_a_label(tmp_path, text):
    with pytest.raises(InputError) as caught:
        fit_csv(tmp_path, text)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_csv_cells(tmp_path):
    """Spaces around cells, words for nothing, true and false, dates with and without a zone; no guess at 1,234 and 12%."""
    text = (
        "n, odd ,flag,when,share,y\n"
        " 1,x, TRUE,2024-01-02T12:00:00+02:00,12%,s\n"
        'NA, z,false,2024-01-02,"1,234",s\n'
        '"3" ,x,False, 2024-01-02 06:00:00.123456789,12%,s\n'
        "inf,z,,,12%,s\n"
    )
    encoding = fit_csv(tmp_path, text)
    day = (dt.datetime(2024, 1, 2) - EPOCH).days
    np.testing.assert_equal(
        encoded(encoding, tmp_path / "in.csv"),
        {
            "n": [1, 2, 3, 2],
            "n is missing": [0, 1, 0, 1],
            " odd =x": [1, 0, 1, 0],
            " odd =z": [0, 1, 0, 1],
            "flag": [1, 0, 0, 0],
            "flag is missing": [0, 0, 0, 1],
            "when": [np.float32(day + 10 / 24), day, np.float32(day + 0.25), np.float32(day + 0.25)],
            "when is missing": [0, 0, 0, 1],
            "share=1,234": [0, 1, 0, 0],
            "share=12%": [1, 0, 1, 1],
        },
    )


def test_types_of_parquet(tmp_path):
    from decimal import Decimal

    zone = dt.timezone.utc
    encoding = fit_parquet(
        tmp_path,
        {
            "decimal": [Decimal("1.25"), None],
            "category": pa.array(["u", "v"]).dictionary_encode(),
            "large": pa.array(["u", "v"], pa.large_string()),
            "spaces": [" u", "u"],
            "zone": pa.array(
                [dt.datetime(1970, 1, 2, tzinfo=zone), dt.datetime(1970, 1, 3, tzinfo=zone)], pa.timestamp("s", "CET")
            ),
            "ms": pa.array([dt.date(1970, 1, 2), dt.date(1970, 1, 3)], pa.date64()),
            "nothing": pa.nulls(2),
            "list": [[1], [2]],
            "clock": [dt.time(1), dt.time(2)],
            "__index_level_0__": [5, 6],
            "y": [0, 1],
        },
    )
    assert encoded(encoding, tmp_path / "in.parquet") == {
        "decimal": [1.25, 1.25], "decimal is missing": [0, 1], "category=u": [1, 0], "category=v": [0, 1],
        "large=u": [1, 0], "large=v": [0, 1],
        "spaces= u": [1, 0], "spaces=u": [0, 1], "zone": [1, 2], "ms": [1, 2],
    }  # fmt: skip
    why = {column.name: column.why for column in encoding.columns if column.why}
    assert list(why) == ["nothing", "list", "clock", "__index_level_0__"]
    assert "no row holds anything" in why["nothing"]
    assert "neither number, date nor text" in why["clock"]


def test_texts_with_many_values(tmp_path):
    lines = "".join(f"v{i},{chr(97 + i % 20)},{i},s\n" for i in range(60))
    encoding = fit_csv(tmp_path, f"visit,letter,n,y\n{lines}", most_values=19)
    visit, letter, number = encoding.columns
    assert visit.became() == "left out: 60 different values in 60 rows. If it names the rows, say `id_column='visit'`."
    assert letter.became() == "left out: 20 different values in 60 rows. `most_values=20` would keep it."
    assert number.outputs == ("n",)


def test_names_like_the_labels_are_warned_of(tmp_path):
    header = "bought_at,label_bought,BoughtTwice,brought,year,y,rain\n"
    encoding = fit_csv(tmp_path, header + "1,1,1,1,1,1,1\n2,2,2,2,2,2,2\n", labels=["rain"])
    assert encoding.warnings() == [ORDER]
    for label, expected in (("bought", ["bought_at", "label_bought", "BoughtTwice"]), ("y", [])):
        named = header.replace("rain", label) if label == "bought" else header
        *warned, order = fit_csv(tmp_path, named + "1,1,1,1,1,1,1\n2,2,2,2,2,2,2\n", labels=[label]).warnings()
        assert order == ORDER
        assert [warning.split("'")[1] for warning in warned] == expected
        assert all("does it give the label away?" in warning for warning in warned)


@pytest.mark.parametrize(
    "text", ["a,a=b,y\nb,1,s\nc,2,s\n", "a,a is missing,y\n1,1,s\n,2,s\n", "a,b,a=b\nb,1,s\nc,2,s\n"]
)
def test_names_that_would_stand_twice_are_refused(tmp_path, text):
    labels = [text.split("\n", 1)[0].split(",")[2]]
    with pytest.raises(InputError, match="two columns would be called 'a"):
        fit_csv(tmp_path, text, labels=labels)


def test_ids_are_kept_as_they_are(tmp_path):
    text = "a,visit,y\n1,007,s\n2, NA,s\n"
    encoding = fit_csv(tmp_path, text, id_column="visit")
    assert encoding.write(tmp_path / "in.csv", tmp_path / "x.parquet").rows == 2
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column_names == ["visit", "a"]
    # In the order of the ids: the file's own may be that of the labels, and a release's --shuffle would be undone by it.
    assert table["visit"].to_pylist() == [" NA", "007"]
    assert table["a"].to_pylist() == [2.0, 1.0]
    assert read_features(tmp_path / "x.parquet", "visit").columns == ("a",)
    for column in ([1, None], [1.5, 2.5]):
        encoding = fit_parquet(tmp_path, {"a": [1, 2], "id": column, "y": [1, 2]}, id_column="id")
        with pytest.raises(InputError, match=r"row 1 of .* has no id|whole numbers or text"):
            next(encoding.apply(tmp_path / "in.parquet"))
    with pytest.raises(InputError, match="label and the id at once"):
        fit_csv(tmp_path, text, labels=["visit"], id_column="visit")


def test_a_later_file_that_does_not_fit(tmp_path):
    encoding = fit_csv(tmp_path, "n,t,y\n1,u,s\n2,v,s\n")
    later = tmp_path / "later.csv"
    later.write_text("t,n,new\nw,,1\nu,5,2\n")
    assert encoded(encoding, later) == {"n": [1.5, 5], "t=u": [0, 1], "t=v": [0, 0]}
    assert encoding.write(later, tmp_path / "x.parquet") == Written(2, {"t": 1})
    later.write_text("n,t\n3,u\n4x,u\n")
    with pytest.raises(InputError, match=r"row 1 of column 'n' of .* is no number"):
        encoded(encoding, later)
    later.write_text("n,y\n3,1\n")
    with pytest.raises(InputError, match="lacks columns that its encoding has: t"):
        encoded(encoding, later)
    later.write_text("n,t\n")
    with pytest.raises(InputError, match="has no rows"):
        encoded(encoding, later)
    pq.write_table(pa.table({"n": [dt.date(1970, 1, 1)], "t": ["u"]}), tmp_path / "later.parquet")
    with pytest.raises(InputError, match="holds date32"):
        encoded(encoding, tmp_path / "later.parquet")
    pq.write_table(pa.table({"n": [1], "t": [1]}), tmp_path / "later.parquet")
    with pytest.raises(InputError, match="it held text"):
        encoded(encoding, tmp_path / "later.parquet")


def _damages():
    def change(**changes):
        return lambda data: json.dumps({**data, **changes})

    yield "not JSON", lambda data: "{"
    yield "no object", lambda data: "[]"
    yield "deep", lambda data: "[" * 100_000
    yield "no columns", change(columns=None)
    yield "a column less", lambda data: json.dumps({**data, "columns": data["columns"][1:]})
    yield "a label among the columns", change(labels=["n"])
    yield "a label that is no name", change(labels=[1])
    yield "another id", change(id="t")
    for key, value in (
        ("median", None),
        ("median", 1e300),
        ("kind", "image"),
        ("values", ["x", "x"]),
        ("missing", 1),
        ("more", 1),
    ):
        yield (
            f"{key} {value}",
            lambda data, key=key, value=value: json.dumps(
                {**data, "columns": [{**data["columns"][0], key: value}, *data["columns"][1:]]}
            ),
        )


@pytest.mark.parametrize(("what", "damage"), list(_damages()))
def test_a_damaged_encoding_is_said(tmp_path, what, damage):
    path = tmp_path / "x.parquet"
    encoding = fit_csv(tmp_path, "n,t,y\n1,u,s\n2,v,s\n")
    encoding.write(tmp_path / "in.csv", path)
    table = pq.read_table(path)
    data = json.loads(table.schema.metadata[b"labeldp.encoding"])
    pq.write_table(table.replace_schema_metadata({b"labeldp.encoding": damage(data)}), path)
    with pytest.raises(InputError, match="is damaged, or its columns were changed"):
        Encoding.load(path)


def test_files_without_an_encoding_are_said(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="carries no encoding"):
        Encoding.load(tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match="carries no encoding"):
        Encoding.load(tmp_path / "x.csv")
    newer = {b"labeldp.encoding": b'{"version": 3}'}
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(newer), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="newer labeldp"):
        Encoding.load(tmp_path / "x.parquet")


def test_nothing_is_left_behind_when_a_later_batch_is_bad(tmp_path, monkeypatch):
    encoding = fit_csv(tmp_path, "n,y\n1,s\n2,s\n")
    monkeypatch.setattr(cells, "_FEWEST_ROWS", 1)
    monkeypatch.setattr(cells, "_MOST_ROWS", 1)
    (tmp_path / "later.csv").write_text("n\n1\nx\n")
    with pytest.raises(InputError, match="row 1 "):
        encoding.write(tmp_path / "later.csv", tmp_path / "out.parquet")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["in.csv", "later.csv"]


def test_every_type_that_arrow_reads(tmp_path):
    """Decimals are numbers, dates and times days, UUIDs text in their usual form."""
    uuids = pa.array([bytes(15) + b"\1", bytes(15) + b"\2", None], pa.binary(16))
    table = {
        "decimal": pa.array([Decimal("0.5"), None, Decimal("2.25")], pa.decimal128(20, 4)),
        "date": pa.array([dt.date(1970, 1, 2), dt.date(1970, 1, 3), None]),
        "time": pa.array([dt.datetime(1970, 1, 1, 12), None, dt.datetime(1970, 1, 2)], pa.timestamp("ms", "UTC")),
        "uuid": uuids,
        "y": [1, 2, 3],
    }
    if hasattr(pa, "uuid"):
        table["named"] = pa.ExtensionArray.from_storage(pa.uuid(), uuids)
        table["view"] = pa.array(["a", None, "b"], pa.string_view())
    encoding = fit_parquet(tmp_path, table)
    found = encoded(encoding, tmp_path / "in.parquet")
    assert found["decimal"] == [0.5, 1.375, 2.25]
    assert found["date"] == [1, 2, 1.5]
    assert found["time"] == [0.5, 0.75, 1]
    for name in ("uuid", "named")[: 1 + hasattr(pa, "uuid")]:
        assert found[f"{name}=00000000-0000-0000-0000-000000000001"] == [1, 0, 0]
        assert found[f"{name} is missing"] == [0, 0, 1]
    if "view" in table:
        assert (found["view=a"], found["view is missing"]) == ([1, 0, 0], [0, 1, 0])
