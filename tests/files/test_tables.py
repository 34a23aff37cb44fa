"""Label tables as they come: every dialect of CSV and layout of Parquet gives the same labels, ids and columns."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.errors import InputError
from labeldp.files import tables
from labeldp.files.hashing import ColumnHasher
from labeldp.files.tables import CSVTable, ParquetTable, open_table
from labeldp.release.classes import Classes
from labeldp.release.source import TableSource

EXPECTED = [0, 2, 1, 2]
ROWS = [("ann", "0", "3.5"), ("bob", "2", "x y"), ("cid", "1", ""), ("dan", "2", "7")]


def text(delimiter=",", end="\n"):
    lines = [("id", "label", "x"), *ROWS]
    return "".join(delimiter.join(line) + end for line in lines)


def write(folder, content, name="labels.csv"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def source(path, classes="3", label="label", id_column=None):
    return TableSource(open_table(path), label, Classes.parse(classes), id_column)


def codes(path, classes="3", label="label"):
    return np.concatenate([b.labels.reveal() for b in source(path, classes, label).batches()]).tolist()


def codes_or_refusal(path):
    try:
        return codes(path)
    except InputError as error:
        return str(error)


def ids(path):
    return [i for b in source(path, id_column="id").batches() for i in b.ids.to_pylist()]


# ── CSV ──


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_and_line_ends(tmp_path, delimiter, end):
    path = write(tmp_path, text(delimiter, end))
    assert open_table(path).columns == ("id", "label", "x")
    assert codes(path) == EXPECTED
    assert ids(path) == [row[0] for row in ROWS]


@pytest.mark.parametrize("name", ["labels.tsv", "labels.txt", "labels.data", "LABELS.CSV"])
def test_names_of_csv_files(tmp_path, name):
    assert codes(write(tmp_path, text("\t"), name)) == EXPECTED


@pytest.mark.parametrize(("ending", "method"), [("gz", "gzip"), ("bz2", "bz2"), ("zst", "zstd")])
def test_compressed(tmp_path, ending, method):
    path = tmp_path / f"labels.csv.{ending}"
    with pa.output_stream(path, compression=method) as stream:
        stream.write(text().encode())
    assert path.read_bytes() != text().encode()
    assert codes(path) == EXPECTED


def test_a_byte_order_mark(tmp_path):
    path = write(tmp_path, ("label,x\n" + "1,2\n0,3\n").encode("utf-8-sig"))
    assert open_table(path).columns == ("label", "x")
    assert codes(path) == [1, 0]


def test_no_line_end_at_the_end(tmp_path):
    assert codes(write(tmp_path, text().rstrip("\n"))) == EXPECTED


def test_quoted_cells_hold_delimiters_quotes_and_line_ends(tmp_path):
    path = write(tmp_path, 'x,label\n"a,b\nc, ""d""\r\n\ne",1\n"\n\n",0\n",,,",2\n')
    assert codes(path) == [1, 0, 2]
    others = next(source(path).batches(others=True)).others
    assert others.column("x").to_pylist() == ['a,b\nc, "d"\r\n\ne', "\n\n", ",,,"]


def test_quoted_labels_and_ids(tmp_path):
    path = write(tmp_path, '"id","label"\n"1","2"\n"01","0"\n"a,b",1\n')
    assert codes(path) == [2, 0, 1]
    assert ids(path) == ["1", "01", "a,b"]


def test_a_quoted_header(tmp_path):
    path = write(tmp_path, '"the label","a;b;c;d","e\tf"\n1,2,3\n0,4,5\n')
    assert open_table(path).columns == ("the label", "a;b;c;d", "e\tf")
    assert codes(path, label="the label") == [1, 0]


def test_a_header_of_two_lines(tmp_path):
    path = write(tmp_path, 'label,"height\n(cm)"\n1,2\n0,4\n')
    assert open_table(path).columns == ("label", "height\n(cm)")
    assert codes(path) == [1, 0]


def test_a_header_of_many_columns(tmp_path):
    names = [f"expression_of_gene_{i}" for i in range(5000)]
    path = write(
        tmp_path, ",".join([*names, "label"]) + "\n" + "".join(",".join(["7"] * 5000 + [c]) + "\n" for c in "10")
    )
    assert open_table(path).columns == (*names, "label")
    assert codes(path) == [1, 0]


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1, 3 << 19, 7 << 19])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_header_of_megabytes(tmp_path, size, quoted):
    wide = [str(number).zfill(100_000) for number in range(size // 100_000)]
    wide.append("x" * (size - sum(len(name) + 1 for name in wide) - len("label\n") - 1))
    shown = [f'"{name}"' for name in wide] if quoted else wide
    path = write(tmp_path, ",".join(["label", *shown]) + "\n" + ("1" + "," * len(wide) + "\n") * 2)
    assert open_table(path).columns == ("label", *wide)
    assert codes(path) == [1, 1]


def test_a_header_without_end(tmp_path):
    with pytest.raises(InputError, match="with a header line of at most 4 MB"):
        open_table(write(tmp_path, ",".join(str(number).zfill(100_000) for number in range(50)) + "\n1\n"))


@pytest.mark.parametrize("rest", ["", "\n", "\r\n", "\n\n\n"])
@pytest.mark.parametrize("header", ["id,label", '"id","label"', '"i\nd",label'])
def test_a_header_alone_has_no_rows(tmp_path, header, rest):
    assert list(source(write(tmp_path, header + rest)).batches()) == []


def test_a_header_beyond_ascii(tmp_path):
    path = write(tmp_path, "größe,étiquette\n1,2\n0,1\n")
    assert codes(path, label="étiquette") == [2, 1]


def test_one_column_alone(tmp_path):
    assert codes(write(tmp_path, "label\n1\n0\n2\n")) == [1, 0, 2]


def test_a_file_larger_than_one_read(tmp_path):
    """Blocks of 4 MB are cut in the middle of rows and of quoted cells."""
    cell = '"' + "z\n" * 40_000 + '"'
    labels = [i % 3 for i in range(150)]
    path = write(tmp_path, "label,x\n" + "".join(f"{label},{cell}\n" for label in labels))
    assert len(list(source(path).batches())) > 1
    assert codes(path) == labels


def test_a_cell_larger_than_one_read(tmp_path):
    path = write(tmp_path, "label,x\n1," + "z" * (9 << 20) + "\n0,1\n")
    assert codes_or_refusal(path) == [1, 0] or "MB" in codes_or_refusal(path)


def test_spellings_of_a_class_number(tmp_path):
    assert codes(write(tmp_path, "label,x\n1,\n1.0,\n01,\n 1,\n0.0,\n+2,\n")) == [1, 1, 1, 1, 0, 2]


def test_names_with_blanks(tmp_path):
    path = write(tmp_path, 'label,x\nnot sure,1\n yes ,2\n"no",3\n')
    assert codes(path, "no,yes,not sure") == [2, 1, 0]


@pytest.mark.parametrize("word", ["NA", "None", "nan", "null"])
def test_a_class_may_be_called_like_a_missing_value(tmp_path, word):
    path = write(tmp_path, f"label,x\nEU,1\n{word},2\n")
    assert codes(path, f"EU,{word}") == [0, 1]
    with pytest.raises(InputError, match=r"^row 1 has no label\.$"):
        codes(path, "EU,US")


def test_missing_values_of_other_columns_are_no_error(tmp_path):
    path = write(tmp_path, 'label,x,y\n1,,NA\n0,"",null\n')
    others = next(source(path).batches(others=True)).others
    assert others.column("x").to_pylist() == [None, ""]
    assert others.column("y").to_pylist() == [None, None]


def test_ids_stay_as_they_are_written(tmp_path):
    assert ids(write(tmp_path, "label,id\n0,007\n1,7\n0,7.0\n1, 7\n")) == ["007", "7", "7.0", " 7"]


@pytest.mark.parametrize("word", ["NA", "N/A", "NaN", "nan", "null", "NULL", "None"])
def test_somebody_may_be_called_like_a_missing_value(tmp_path, word):
    path = write(tmp_path, f"id,label,x\nann,0,{word}\n{word},1,2\n")
    assert ids(path) == ["ann", word]
    (batch,) = source(path, id_column="id").batches(others=True)
    assert batch.others.column("x").to_pylist() == [None, "2"]  # elsewhere, it still says that nothing is there
    assert codes(path) == [0, 1]


def test_the_words_for_nothing_as_ids_in_a_later_batch(tmp_path):
    names = [f"u{i}".ljust(1000, "-") for i in range(12_000)]
    names[9_000] = "NA"
    path = write(tmp_path, "id,label\n" + "".join(f"{name},{i % 3}\n" for i, name in enumerate(names)))
    assert len(list(open_table(path).batches(["id"]))) > 1
    assert ids(path) == names


# ── Parquet ──


@pytest.mark.parametrize(
    "column",
    [
        pa.array(EXPECTED, pa.int8()),
        pa.array(EXPECTED, pa.int64()),
        pa.array(EXPECTED, pa.uint64()),
        pa.array([float(c) for c in EXPECTED]),
        pa.array([float(c) for c in EXPECTED], pa.float32()),
        pa.array([str(c) for c in EXPECTED]),
        pa.array([str(c) for c in EXPECTED], pa.large_string()),
        pa.array(EXPECTED).dictionary_encode(),
        pa.array([str(c) for c in EXPECTED]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_label_columns(tmp_path, column):
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"x": [1, 2, 3, 4], "label": column}), path)
    assert codes(path) == EXPECTED


def test_truth_values(tmp_path):
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"label": [True, False, True]}), path)
    assert codes(path, "2") == [1, 0, 1]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_names(tmp_path, kind):
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"label": pa.array(["NA", "not sure", "no", "NA"]).cast(kind)}), path)
    assert codes(path, "no,not sure,NA") == [2, 1, 0, 2]


@pytest.mark.parametrize("name", ["labels", "labels.pq", "labels.csv"])
def test_parquet_is_known_by_its_content(tmp_path, name):
    pq.write_table(pa.table({"label": EXPECTED}), tmp_path / name)
    assert isinstance(open_table(tmp_path / name), ParquetTable)
    assert codes(tmp_path / name) == EXPECTED


@pytest.mark.parametrize("name", ["a.b", "the label", "a/b", ""])
def test_odd_column_names(tmp_path, name):
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"a": [{"b": 9}, {"b": 9}], name: [1, 0]}), path)
    assert codes(path, "2", label=name) == [1, 0]


def test_batches_are_bounded_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_MAX_BATCH_ROWS", 100)
    path = tmp_path / "labels.parquet"
    labels = [i % 3 for i in range(1000)]
    pq.write_table(pa.table({"label": labels, "id": list(range(1000))}), path, row_group_size=300)
    assert max(len(b.labels) for b in source(path).batches()) <= 100
    assert codes(path) == labels
    assert ids(path) == list(range(1000))


def test_big_cells_make_for_fewer_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BATCH_BYTES", 1 << 20)
    path = tmp_path / "labels.parquet"
    cells = [np.random.default_rng(i).bytes(10_000) for i in range(400)]
    pq.write_table(pa.table({"label": [1] * 400, "x": cells}), path)
    assert max(len(b.labels) for b in source(path).batches()) <= 110


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint64(), pa.string(), pa.large_string()], ids=str)
def test_ids_keep_their_type(tmp_path, kind):
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"label": [0, 1], "id": pa.array([5, 6]).cast(kind)}), path)
    assert next(source(path, id_column="id").batches()).ids.type == kind


def test_ids_in_a_dictionary_are_read_as_their_values(tmp_path):
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"label": [0, 1], "id": pa.array(["a", "b"]).dictionary_encode()}), path)
    assert ids(path) == ["a", "b"]


def test_ids_of_other_types_become_text(tmp_path):
    columns = {
        "view": pa.array(["a", "b"], pa.string_view()),
        "date": pa.array([datetime.date(2024, 1, 2), datetime.date(2024, 1, 3)]),
        "time": pa.array(
            [datetime.datetime(2024, 1, 2, 3), datetime.datetime(2024, 1, 2, 4)], pa.timestamp("us", "UTC")
        ),
        "decimal": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2")], pa.decimal128(20, 4)),
        "uuid": pa.array([bytes(15) + b"\1", bytes(15) + b"\2"], pa.binary(16)),
        "dictionary": pa.array([datetime.date(2024, 1, 2), datetime.date(2024, 1, 3)]).dictionary_encode(),
    }
    if views_are_kept():
        columns["uuid extension"] = pa.ExtensionArray.from_storage(pa.uuid(), columns["uuid"])
    else:
        del columns["view"]  # an older pyarrow neither writes nor reads them
    pq.write_table(pa.table({"label": [0, 1], **columns}), tmp_path / "t.parquet")
    found = {name: source(tmp_path / "t.parquet", id_column=name) for name in columns}
    expected = {
        "view": ["a", "b"],
        "date": ["2024-01-02", "2024-01-03"],
        "time": ["2024-01-02T03:00:00Z", "2024-01-02T04:00:00Z"],
        "decimal": ["1.5", "2"],
        "uuid": [f"00000000-0000-0000-0000-00000000000{i}" for i in (1, 2)],
    }
    expected |= {"dictionary": expected["date"], "uuid extension": expected["uuid"]}
    for name, read in found.items():
        (batch,) = read.batches(others=True)
        assert batch.ids.to_pylist() == expected[name], name


def test_labels_and_other_columns_in_views(tmp_path):
    if not views_are_kept():
        pytest.skip("this pyarrow does not write them")
    columns = {"label": ["no", "yes", "no"], "x": ["a", None, "more than twelve bytes"]}
    digests = []
    for kind in (pa.string(), pa.string_view()):
        path = tmp_path / f"{kind}.parquet"
        pq.write_table(pa.table({name: pa.array(column, kind) for name, column in columns.items()}), path)
        assert codes(path, "no,yes") == [0, 1, 0]
        (batch,) = source(path, "no,yes").batches(others=True)
        hasher = ColumnHasher(b"key")
        hasher.add(batch.others.column("x"))
        digests.append(hasher.digest())
    assert digests[0] == digests[1]  # the ledger knows the rows, however they are laid out


def views_are_kept():
    return int(pa.__version__.split(".")[0]) >= 20


def test_other_columns_come_only_when_asked_for(tmp_path):
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"x": [1.5], "label": [0], "id": [7], "y": [datetime.date(2000, 1, 1)]}), path)
    with_ids = source(path, id_column="id")
    assert next(with_ids.batches()).others is None
    assert next(with_ids.batches(others=True)).others.schema.names == ["x", "id", "y"]
    assert next(source(path).batches(others=True)).others.schema.names == ["x", "id", "y"]


def test_a_table_can_be_read_again(tmp_path):
    for path in (write(tmp_path, text()), tmp_path / "labels.parquet"):
        if path.suffix == ".parquet":
            pq.write_table(pa.table({"label": EXPECTED}), path)
        read = source(path)
        first, second = ([b.labels.reveal().tolist() for b in read.batches()] for _ in range(2))
        assert first == second == [EXPECTED]


def test_two_columns_of_one_name(tmp_path):
    pq.write_table(pa.table([[1], [2]], names=["x", "x"]), tmp_path / "a.parquet")
    for path in (tmp_path / "a.parquet", write(tmp_path, "x,x\n1,2\n")):
        with pytest.raises(InputError, match="two columns of the same name"):
            open_table(path)


def test_kinds_of_tables(tmp_path):
    assert isinstance(open_table(write(tmp_path, text())), CSVTable)
    with pytest.raises(InputError, match="neither Parquet nor"):
        open_table(write(tmp_path, text(), "labels.json"))
    with pytest.raises(InputError, match="is empty"):
        open_table(write(tmp_path, b"", "empty.csv"))


# ── CSV without a header ──


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("u17,SECRET,3.5", "its 3 cells: text, text, number"),
        ("u17,,SECRET", "its 3 cells: text, nothing, text"),
        ("1;SECRET;-2e3;7", "its 4 cells: number, text, number, number"),
        ("1,1,0", "its 3 cells: number, number, number"),  # two columns of one name
        (",".join(["SECRET", *map(str, range(5, 25))]), "its 21 cells: text, number, number, number, number, number"),
    ],
)
def test_a_first_line_of_data_is_recognised_and_not_shown(tmp_path, line, kinds):
    """The file has labels: its cells are not quoted, since errors are pasted into tickets."""
    path = write(tmp_path, f"{line}\n{line}\n")
    with pytest.raises(InputError, match="looks like data, not like a header") as caught:
        source(path, label="bought", id_column="id")
    assert kinds in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert "-2e3" not in str(caught.value)


@pytest.mark.parametrize("header", ["id,lable", "0,1,2", "2019,2020", "year,2019", "id,label "])
def test_a_header_is_not_taken_for_data_where_its_names_are_asked_for(tmp_path, header):
    path = write(tmp_path, f"{header}\n" + ",".join("0" * len(header.split(","))) + "\n")
    label = header.split(",")[1]
    assert codes(path, label=label) == [0]


def test_a_misspelt_column_is_not_called_missing_data(tmp_path):
    for header in ("id,lable", "0,1", "2019,2020"):
        with pytest.raises(
            InputError, match=r"has no column 'bought' in its first line; `head -n 1 .*` shows what it has"
        ):
            source(write(tmp_path, f"{header}\n1,1\n"), label="bought")
    with pytest.raises(InputError, match="Did you mean 'Bought '"):
        source(write(tmp_path, "Bought ,1\n1,1\n"), label="bought")
