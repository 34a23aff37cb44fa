"""The release file: whole or refused; read by others; certificate computed, not believed."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp.errors import FileFormatError, InputError
from labeldp.mechanisms.plan import NAMES, calibrate

ROWS = 500


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(0, 10, ROWS)


def released(tmp_path, labels, name="subset", **arguments):
    mechanism = calibrate(name, epsilon=2.0, num_classes=10)
    ledger = labeldp.Ledger(tmp_path / "l.ledger")
    arguments.setdefault("ids", [f"u{i}" for i in range(len(labels))])
    return mechanism.release(labels, data_set="visits", ledger=ledger, **arguments)


def rewritten(path, *, table=None, header=None, checksum=None):
    """The same file with something changed, as an editor would write it."""
    table = table if table is not None else pq.read_table(path)
    metadata = dict(pq.read_metadata(path).metadata)
    metadata.pop(b"ARROW:schema", None)
    if header:
        metadata[b"labeldp"] = json.dumps(header(json.loads(metadata[b"labeldp"]))).encode()
    if checksum:
        metadata[b"labeldp.checksum"] = checksum
    pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["text", "number", "none"])
def test_round_trip(tmp_path, labels, name, kind):
    ids = {"text": [f"u{i}é" for i in range(ROWS)], "number": np.arange(ROWS) * 7, "none": None}[kind]
    if ids is None:
        with pytest.warns(UserWarning, match="name 'visits' alone"):
            release = released(tmp_path, labels, name, ids=ids)
    else:
        release = released(tmp_path, labels, name, ids=ids)
    path = tmp_path / "out.parquet"
    release.save(path)
    loaded = labeldp.Release.load(path)
    assert loaded.checksum == release.checksum
    assert loaded.mechanism == release.mechanism
    np.testing.assert_array_equal(loaded.observations, release.observations)
    np.testing.assert_array_equal(loaded.ids, np.arange(ROWS) if ids is None else ids)
    np.testing.assert_array_equal(loaded.evidence([3, 1]), release.mechanism.evidence(release.observations[[3, 1]]))
    assert loaded.guarantee == release.mechanism.guarantee()


def test_any_parquet_tool_reads_it(tmp_path, labels):
    released(tmp_path, labels, "response").save(tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["id", "observation"]
    assert table.schema.field("observation").type == pa.uint8()
    released(tmp_path / "b", labels, "subset").save(tmp_path / "b.parquet")
    assert pq.read_table(tmp_path / "b.parquet").schema.field("observation").type == pa.binary(2)


def test_the_file_says_nothing_that_depends_on_a_label(tmp_path):
    """Two data sets that differ in every label: the headers differ in nothing but time and the ledger's chain."""
    headers = []
    for i, labels in enumerate((np.zeros(ROWS, int), np.full(ROWS, 9))):
        (tmp_path / str(i)).mkdir()
        header = released(tmp_path / str(i), labels).header
        for key in ("made", "ledger"):
            header.pop(key)
        headers.append(header)
    assert headers[0] == headers[1]
    assert set(headers[0]) == {
        "format", "labeldp", "mechanism", "certificate", "adjacency", "trust", "label", "label_names", "rows", "first_row", "ids",
        "shuffled", "data_set", "insecure", "budget",
    }  # fmt: skip


def test_a_cut_file_is_refused(tmp_path, labels):
    path = tmp_path / "out.parquet"
    released(tmp_path, labels).save(path)
    whole = path.read_bytes()
    for keep in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:keep])
        with pytest.raises(FileFormatError, match="whole"):
            labeldp.Release.load(path)


def test_every_flipped_byte_is_found_or_harmless(tmp_path, labels):
    path = tmp_path / "out.parquet"
    release = released(tmp_path, labels)
    release.save(path)
    whole = bytearray(path.read_bytes())
    refused = 0
    for position in range(4, len(whole), 13):
        broken = bytearray(whole)
        broken[position] ^= 0x55
        path.write_bytes(broken)
        try:
            loaded = labeldp.Release.load(path)
        except (FileFormatError, InputError):
            refused += 1
        else:  # a byte that carries nothing, e.g. of Arrow's copy of the schema
            np.testing.assert_array_equal(loaded.observations, release.observations)
            assert loaded.mechanism == release.mechanism
    assert refused > 5


def test_altered_observations_are_found(tmp_path, labels):
    path = tmp_path / "out.parquet"
    released(tmp_path, labels, "response").save(path)
    table = pq.read_table(path)
    changed = table.column("observation").to_numpy().copy()
    changed[7] = (changed[7] + 1) % 10
    rewritten(path, table=table.set_column(1, table.schema.field(1), [pa.array(changed)]))
    with pytest.raises(FileFormatError, match="altered"):
        labeldp.Release.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: {**h, "format": 99}, "newer"),
        (lambda h: {**h, "mechanism": {**h["mechanism"], "parameters": {"size": 3, "holds": "1"}}}, "cannot be"),
        (lambda h: {**h, "mechanism": {**h["mechanism"], "num_classes": 11}}, "altered"),
        (lambda h: {**h, "rows": 3}, "altered"),
        (lambda h: {**h, "insecure": "oh"}, "altered"),
        (lambda h: {**h, "ledger": {}}, "altered"),
        (lambda h: {k: v for k, v in h.items() if k != "rows"}, "damaged description"),
        (lambda h: [h], "damaged description"),
    ],
)
def test_altered_headers_are_found(tmp_path, labels, change, message):
    path = tmp_path / "out.parquet"
    released(tmp_path, labels).save(path)
    rewritten(path, header=change)
    with pytest.raises(FileFormatError, match=message):
        labeldp.Release.load(path)


def test_the_certificate_is_computed_not_believed(tmp_path, labels):
    release = released(tmp_path, labels)
    release.header["certificate"]["epsilon"] = 0.001
    release.save(tmp_path / "out.parquet")
    loaded = labeldp.Release.load(tmp_path / "out.parquet")
    assert loaded.guarantee.epsilon == pytest.approx(2.0)
    assert loaded.to_json()["certificate"]["epsilon"] == pytest.approx(2.0)


def test_not_a_release(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"observation": [1]}), path)
    with pytest.raises(FileFormatError, match="not a labeldp release"):
        labeldp.Release.load(path)
    for missing in (tmp_path / "no.parquet", tmp_path):
        with pytest.raises(InputError, match="no release file"):
            labeldp.Release.load(missing)


def test_loading_never_unpickles(tmp_path, labels, monkeypatch):
    path = tmp_path / "out.parquet"
    released(tmp_path, labels).save(path)

    def refuse(*_, **__):
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    labeldp.Release.load(path)


def test_rows_are_positions(tmp_path, labels):
    release = released(tmp_path, labels)
    assert release.evidence(slice(0, 5)).shape == (5, 10)
    assert release.evidence(np.arange(ROWS) < 3).shape == (3, 10)
    for rows in ([ROWS], [-1]):
        with pytest.raises(InputError, match="positions from 0"):
            release.evidence(rows)


def test_repr_and_summary(tmp_path, labels):
    release = released(tmp_path, labels)
    assert repr(release) == "Release('visits', 500 rows, subset, ε = 2)"
    assert json.loads(json.dumps(release.to_json(), allow_nan=False))["certificate"]["delta"] == 0.0
