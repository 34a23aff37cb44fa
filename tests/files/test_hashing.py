"""Fingerprints that do not depend on batches or order, and sorting hashes on disk."""

import datetime
import decimal
import hashlib
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.files import hashing
from labeldp.files.hashing import ColumnHasher, HashSorter, IdHasher
from labeldp.files.ids import AS_WRITTEN, CANONICAL, as_id_text, is_id, plain_ids, without_views

KEY, OTHER_KEY = b"k" * 32, b"q" * 32

# ── columns ──

numbers = st.integers(-(2**31), 2**31 - 1)
words = st.text(st.characters(codec="utf-8"), max_size=4)
COLUMNS = {
    "int32": (pa.int32(), numbers),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "float16": (pa.float16(), st.floats(-4, 4, width=16).map(np.float16)),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), words),
    "large_string": (pa.large_string(), words),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "fixed binary": (pa.binary(2), st.binary(min_size=2, max_size=2)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), words),
    "list": (pa.list_(pa.int32()), st.lists(numbers, max_size=3)),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.binary())]),
        st.fixed_dictionaries({"a": st.none() | numbers, "b": words, "c": st.binary(max_size=2)}),
    ),
    "list of structs": (
        pa.list_(pa.struct([("a", pa.list_(pa.string()))])),
        st.lists(st.fixed_dictionaries({"a": st.none() | st.lists(st.none() | words, max_size=2)}), max_size=2),
    ),
    "map": (pa.map_(pa.string(), pa.int32()), st.lists(st.tuples(words, numbers), max_size=2)),
    "date": (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "timestamp[us]": (pa.timestamp("us"), st.integers(-(2**62), 2**62)),
    "timestamp[ns]": (pa.timestamp("ns"), st.integers(-(2**62), 2**62)),
    "timestamp[ns, zone]": (pa.timestamp("ns", tz="UTC"), st.integers(-(2**62), 2**62)),
    "duration[ns]": (pa.duration("ns"), st.integers(-(2**62), 2**62)),
    "time64[ns]": (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    "list of timestamps": (pa.list_(pa.timestamp("ns")), st.lists(st.integers(-(2**62), 2**62), max_size=2)),
    "decimal": (pa.decimal128(9, 2), st.integers(-99999, 99999).map(lambda i: decimal.Decimal(i) / 100)),
}


def digest(*chunks, key=KEY):
    hasher = ColumnHasher(key)
    for chunk in chunks:
        hasher.add(chunk)
    return hasher.digest()


def make(kind, values):
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_where_batches_end_leaves_no_trace(name, data):
    kind, cells = COLUMNS[name]
    values = data.draw(st.lists(st.none() | cells, min_size=1, max_size=12))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    bounds = list(itertools.pairwise([0, *cuts, len(values)]))
    whole = make(kind, values)
    sliced = [whole.slice(a, b - a) for a, b in bounds]
    rebuilt = [make(kind, values[a:b]) for a, b in bounds if b > a]
    assert digest(whole) == digest(*sliced) == digest(*rebuilt)
    assert digest(whole) != digest(whole, key=OTHER_KEY)


def spelled(value):
    """A value's text; a struct's does not depend on the order in which its fields were drawn."""
    if isinstance(value, dict):
        return repr(sorted((key, spelled(item)) for key, item in value.items()))
    if isinstance(value, list):
        return repr([spelled(item) for item in value])
    return repr(value)


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_value_and_its_place_count(name, data):
    kind, cells = COLUMNS[name]
    values = data.draw(st.lists(st.none() | cells, min_size=1, max_size=8))
    place = data.draw(st.integers(0, len(values) - 1))
    other = data.draw(st.none() | cells)
    changed = [*values[:place], other, *values[place + 1 :]]
    before, after = make(kind, values), make(kind, changed)
    assert (digest(before) == digest(after)) == (spelled(values) == spelled(changed))
    turned = values[place:] + values[:place]
    assert (digest(before) == digest(make(kind, turned))) == (spelled(values) == spelled(turned))
    assert digest(before) != digest(make(kind, [*values, other]))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (["ab", "c"], ["a", "bc"]),
        (["", "a"], ["a", ""]),
        ([None, "a"], ["", "a"]),
        ([b"", None], [None, b""]),
        ([0, None], [None, 0]),
        ([0], [None]),
        ([False], [None]),
        ([0.0], [-0.0]),
        ([[1], [2, 3]], [[1, 2], [3]]),
        ([[], None], [None, []]),
        ([["a,b"]], [["a", "b"]]),
        ([[None]], [["null"]]),
        ([{"a": "1"}], [{"a": "1 "}]),
        ([{"a": None}], [None]),
    ],
)
def test_what_looks_alike_is_told_apart(one, two):
    together = pa.array([*one, *two])
    assert digest(together.slice(0, len(one))) != digest(together.slice(len(one)))


def test_an_encoding_as_a_dictionary_is_not_a_change():
    values = pa.array(["a", "b", None, "a"])
    assert digest(values) == digest(values.dictionary_encode())


def test_the_year_12000_is_hashed_too():
    far = pa.array([3_700_000, 3_700_001], pa.date32())
    assert digest(far) != digest(far.take(pa.array([1, 0])))
    assert digest(pa.array([datetime.date(2000, 1, 1)])) != digest(pa.array([datetime.date(2000, 1, 2)]))


# ── ids ──

id_lists = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20, unique=True)


def fingerprint(*batches, key=KEY):
    hasher = IdHasher(key)
    for batch in batches:
        hasher.add(batch)
    return hasher.fingerprint()


@given(id_lists, st.randoms())
def test_the_fingerprint_of_ids_is_free_of_order_and_batches(ids, random):
    mixed = random.sample(ids, len(ids))
    cut = random.randint(0, len(ids))
    whole = fingerprint(pa.array(ids))
    assert (
        whole
        == fingerprint(pa.array(mixed))
        == fingerprint(pa.array(mixed[:cut], pa.int64()), pa.array(mixed[cut:], pa.int64()))
    )
    assert whole != fingerprint(pa.array(ids), key=OTHER_KEY)


@given(id_lists, st.data())
def test_the_fingerprint_of_ids_changes_with_any_of_them(ids, data):
    place = data.draw(st.integers(0, len(ids) - 1))
    other = data.draw(st.integers(-(2**63), 2**63 - 1).filter(lambda i: i not in ids))
    changed = [*ids[:place], other, *ids[place + 1 :]]
    assert fingerprint(pa.array(ids)) != fingerprint(pa.array(changed))
    assert fingerprint(pa.array(ids)) != fingerprint(pa.array([*ids, other]))
    assert fingerprint(pa.array(ids)) != fingerprint(pa.array(ids[1:], pa.int64()))


@given(st.lists(st.integers(0, 127), min_size=1, max_size=20))
def test_a_number_and_its_decimal_text_are_the_same_id(ids):
    expected = IdHasher(KEY).hashes(pa.array([str(i) for i in ids]))
    for kind in (pa.int8(), pa.uint8(), pa.int64(), pa.uint64()):
        assert (IdHasher(KEY).hashes(pa.array(ids, kind)) == expected).all()
    assert (IdHasher(KEY).hashes(pa.array([str(i) for i in ids], pa.large_string())) == expected).all()


def test_hashes_are_keyed_blake2b():
    """A naive reference."""
    ids = ["a", "", "ü", "-5"]
    expected = [
        int.from_bytes(hashlib.blake2b(i.encode(), digest_size=16, key=KEY).digest()[:8], "little") for i in ids
    ]
    assert IdHasher(KEY).hashes(pa.array(ids)).tolist() == expected
    assert IdHasher(OTHER_KEY).hashes(pa.array(ids)).tolist() != expected


def test_spellings_of_a_number_are_one_id_unless_they_are_taken_as_written():
    spellings = pa.array(["7", "07", "7.0"])
    assert len(set(IdHasher(KEY).hashes(spellings).tolist())) == 1
    assert len(set(IdHasher(KEY, AS_WRITTEN).hashes(spellings).tolist())) == 3


def test_ids_with_two_forms_have_two_hashes():
    ids = pa.array(["a", "07", "b "])
    for form, other in ((CANONICAL, AS_WRITTEN), (AS_WRITTEN, CANONICAL)):
        own, pairs = IdHasher(KEY, form).add(ids)
        assert (own == IdHasher(KEY, form).hashes(ids)).all()
        assert (pairs == np.stack((own[1:], IdHasher(KEY, other).hashes(ids)[1:]), axis=1)).all()


def test_an_older_fingerprint_is_that_of_ids_as_written():
    hasher, older = IdHasher(KEY), IdHasher(KEY, AS_WRITTEN)
    for each in (hasher, older):
        each.add(pa.array(["a", "07", "b "]))
    assert hasher.fingerprint_as_written() == older.fingerprint() == older.fingerprint_as_written()
    assert hasher.fingerprint() != older.fingerprint()


def test_looking_is_not_taking_note():
    hasher = IdHasher(KEY)
    empty = hasher.fingerprint()
    looked = hasher.hashes(pa.array([1, 2]))
    assert hasher.fingerprint() == empty
    assert (hasher.add(pa.array([1, 2]))[0] == looked).all()
    assert hasher.fingerprint() != empty


# ── sorting ──


def sort(path, batches):
    sorter = HashSorter(path)
    for batch in batches:
        sorter.add(np.array(batch, dtype=np.uint64))
    result = sorter.finish()
    return np.fromfile(path, dtype="<u8").tolist(), *result


def repeats(hashes):
    return {h for h in hashes if hashes.count(h) > 1}


EDGES = [0, 1, (1 << 64) // 2, (1 << 64) // 3, (2 << 64) // 3, (1 << 63) - 1, (1 << 64) - 1]
hash_values = st.sampled_from(EDGES) | st.integers(0, 2**64 - 1)


@settings(max_examples=100, deadline=None)
@given(batches=st.lists(st.lists(hash_values, max_size=6), max_size=8), run=st.integers(1, 10))
def test_hashes_are_sorted_and_repeated_ones_found(tmp_path_factory, batches, run):
    """Runs of a few hashes each, so that equal ones meet within a slice, from other runs, and where slices end."""
    path = tmp_path_factory.mktemp("sort") / "ids.u64"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "_RUN", run)
        written, digest_, repeated = sort(path, batches)
    hashes = [h for batch in batches for h in batch]
    assert written == sorted(hashes)
    assert digest_ == hashlib.sha256(np.array(sorted(hashes), dtype="<u8").tobytes()).hexdigest()[:32]
    assert set(repeated) == repeats(hashes)


def test_many_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(hashing, "_RUN", 100)
    hashes = np.random.default_rng(0).integers(0, 2**64, 5000, dtype=np.uint64)
    hashes[4321] = hashes[17]
    written, _, repeated = sort(tmp_path / "ids.u64", np.array_split(hashes, 77))
    assert written == np.sort(hashes).tolist()
    assert repeated == [hashes[17]]


def test_the_digest_does_not_depend_on_order_or_runs(tmp_path, monkeypatch):
    hashes = np.random.default_rng(1).integers(0, 2**64, 500, dtype=np.uint64)
    _, whole, _ = sort(tmp_path / "a", [hashes])
    monkeypatch.setattr(hashing, "_RUN", 64)
    _, mixed, _ = sort(tmp_path / "b", np.array_split(hashes[::-1], 9))
    assert whole == mixed


def test_files_are_private_and_runs_are_removed(tmp_path):
    sort(tmp_path / "ids.u64", [[3, 1], [2]])
    assert [p.name for p in tmp_path.iterdir()] == ["ids.u64"]
    assert (tmp_path / "ids.u64").stat().st_mode & 0o777 == 0o600


# ── what names rows, as text ──


def texts(values, kind=None):
    array = pa.array(values, kind)
    assert is_id(array.type)
    found = as_id_text(array)
    assert found.type == pa.large_string()
    assert as_id_text(pa.chunked_array([array[:1], array[1:]])).to_pylist() == found.to_pylist()
    assert plain_ids(array).type in (array.type, pa.large_string())
    return found.to_pylist()


def test_whole_numbers_and_texts():
    assert texts([1, None, -7]) == ["1", None, "-7"]
    assert texts([2**64 - 1], pa.uint64()) == ["18446744073709551615"]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert texts(["007", None, "é, and more than twelve bytes"], kind) == [
            "007",
            None,
            "é, and more than twelve bytes",
        ]


@given(st.lists(st.none() | st.uuids(), max_size=5), st.booleans())
def test_uuids(values, named):
    array = pa.array([None if one is None else one.bytes for one in values], pa.binary(16))
    if named and hasattr(pa, "uuid"):
        array = pa.ExtensionArray.from_storage(pa.uuid(), array)
    assert is_id(array.type)
    assert as_id_text(array).to_pylist() == [None if one is None else str(one) for one in values]
    assert as_id_text(array[1:]).to_pylist() == [None if one is None else str(one) for one in values[1:]]


@given(st.decimals(-(10**12), 10**12, places=8), st.integers(8, 20), st.sampled_from([pa.decimal128, pa.decimal256]))
def test_decimals_in_full(value, scale, kind):
    (text,) = texts([value], kind(38, scale))
    assert decimal.Decimal(text) == value
    assert "E" not in text.upper()
    assert not ("." in text and text.endswith(("0", ".")))
    assert (text,) == tuple(texts([value], kind(37, scale + 1)))  # the same value in another type


def test_decimals_that_are_whole_numbers():
    assert texts([decimal.Decimal(42), None], pa.decimal128(38, 0)) == ["42", None]
    assert texts([decimal.Decimal("42.00"), decimal.Decimal("-0.00")]) == ["42", "0"]
    assert texts([decimal.Decimal(1200)], pa.decimal128(3, -2)) == ["1200"]
    assert texts([decimal.Decimal(100)], pa.decimal256(50, 2)) == ["100"]


def test_dates():
    for kind in (pa.date32(), pa.date64()):
        assert texts([datetime.date(2024, 2, 9), None], kind) == ["2024-02-09", None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times(unit):
    at = datetime.datetime(2024, 2, 9, 10, 20, 30)
    assert texts([at, None], pa.timestamp(unit)) == ["2024-02-09T10:20:30", None]
    there = pa.array([at], pa.timestamp(unit, "Europe/Paris"))  # `at` in UTC, shown in another zone
    assert as_id_text(there).to_pylist() == texts([at], pa.timestamp(unit, "UTC")) == ["2024-02-09T10:20:30Z"]
    if unit != "s":
        assert texts([at.replace(microsecond=120_000)], pa.timestamp(unit)) == ["2024-02-09T10:20:30.12"]


def test_times_beyond_all_calendars_have_a_text_too():
    for unit in ("s", "ms", "us", "ns"):
        odd = as_id_text(pa.array([-(2**62), 2**62], pa.int64()).view(pa.timestamp(unit))).to_pylist()
        assert len(set(odd)) == 2


def test_what_cannot_name_rows():
    for array in (
        pa.array([1.5]),
        pa.array([b"x"]),
        pa.array([b"abc"], pa.binary(3)),
        pa.array([[1]]),
        pa.array([True]),
    ):
        assert not is_id(array.type)
        assert plain_ids(array) is array


def test_views_are_only_another_layout():
    assert without_views(pa.array(["a", None], pa.string_view())).equals(pa.array(["a", None], pa.large_string()))
    assert without_views(pa.array([b"a"], pa.binary_view())).equals(pa.array([b"a"], pa.large_binary()))
