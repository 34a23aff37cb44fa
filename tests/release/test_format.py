"""The release file: whole or refused; read by others; certificate computed, not believed."""

import json
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp.errors import FileFormatError, InputError
from labeldp.mechanisms import PateAnswers, Selected
from labeldp.mechanisms.joint import Joint
from labeldp.mechanisms.plan import NAMES, calibrate
from labeldp.release import format as files
from labeldp.release.release import Description

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


# ── piece by piece ──


@pytest.mark.parametrize("kind", ["text", "number", "none"])
def test_a_description_is_the_releases_own(tmp_path, labels, kind, monkeypatch):
    monkeypatch.setattr(files, "_BATCH_ROWS", 64)
    ids = {"text": [f"u{i}é" for i in range(ROWS)], "number": np.arange(ROWS) * 7, "none": None}[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released(tmp_path, labels, ids=ids).save(tmp_path / "out.parquet")
    loaded, described = labeldp.Release.load(tmp_path / "out.parquet"), Description.read(tmp_path / "out.parquet")
    assert described.to_json() == loaded.to_json()
    assert (len(described), described.observations) == (ROWS, None)


@pytest.mark.parametrize("row", [0, 63, 64, 300, ROWS - 1])
def test_damage_in_any_piece_is_found(tmp_path, labels, row, monkeypatch):
    """In an observation, and in a number that the checksum does not cover."""
    monkeypatch.setattr(files, "_BATCH_ROWS", 64)
    path = tmp_path / "out.parquet"
    with pytest.warns(UserWarning, match="alone"):
        released(tmp_path, labels, "response", ids=None).save(path)
    table = pq.read_table(path)
    for name, change in (("observation", lambda value: (value + 1) % 10), ("id", lambda value: value + 1)):
        values = table.column(name).to_numpy().copy()
        values[row] = change(values[row])
        index = table.schema.get_field_index(name)
        rewritten(
            path,
            table=table.set_column(index, table.schema.field(index), pa.array(values, table.schema.field(index).type)),
        )
        for read in (Description.read, labeldp.Release.load):
            with pytest.raises(FileFormatError, match="altered or damaged"):
                read(path)


def test_what_is_valid_only_as_a_whole_is_checked_as_a_whole(tmp_path, labels, monkeypatch):
    """Each piece may be within a cap that all of them together exceed."""
    monkeypatch.setattr(files, "_BATCH_ROWS", 64)
    path = tmp_path / "out.parquet"
    released(tmp_path, labels, "response").save(path)
    most = int((labels < 10).sum() // 2)
    monkeypatch.setattr(labeldp.RandomizedResponse, "valid_as_a_whole", True)
    monkeypatch.setattr(labeldp.RandomizedResponse, "valid", lambda self, observations: len(observations) <= most)
    for read in (Description.read, labeldp.Release.load):
        with pytest.raises(FileFormatError, match="altered or damaged"):
            read(path)
    most = ROWS
    assert len(Description.read(path).observations) == ROWS


def test_mechanisms_with_caps_are_judged_as_a_whole():
    assert all(mechanism.valid_as_a_whole for mechanism in (PateAnswers, Selected, Joint))
    assert not any(type(calibrate(name, epsilon=2.0, num_classes=3)).valid_as_a_whole for name in NAMES)
