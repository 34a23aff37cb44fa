"""Declared classes, and columns of every type as class numbers."""

import numpy as np
import pyarrow as pa
import pytest

from labeldp.errors import InputError
from labeldp.release.classes import Classes

TWO = Classes(2)
ANSWERS = Classes(3, ("no", "yes", "not sure"))


def codes(classes, column, first_row=0):
    return classes.encode(column, first_row).reveal().tolist()


def test_a_count():
    assert Classes.parse("10") == Classes(10, None)


def test_names():
    assert Classes.parse("no,yes") == Classes(2, ("no", "yes"))
    assert Classes.parse("no, yes , not sure").names == ("no", "yes", "not sure")


@pytest.mark.parametrize("content", [b"no\nyes\nnot sure\n", b"no\r\nyes\r\nnot sure\r\n", b"no\nyes\nnot sure"])
def test_names_in_a_file(tmp_path, content):
    path = tmp_path / "names.txt"
    path.write_bytes(content)
    assert Classes.parse(f"@{path}") == ANSWERS


def test_names_in_a_file_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("no\nyes\nnot sure\n", encoding="utf-8-sig")
    assert Classes.parse(f"@{path}") == ANSWERS


def test_names_in_a_file_with_commas_and_blanks_around_them(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("no, never\n yes \n")
    column = pa.array(["yes", " no, never"])
    assert codes(Classes.parse(f"@{path}"), column) == [1, 0]


@pytest.mark.parametrize("text", ["1", "0", "-2", "65537"])
def test_a_count_out_of_range_says_what_the_range_is(text):
    with pytest.raises(InputError, match="from 2 to 65,536"):
        Classes.parse(text)


@pytest.mark.parametrize("text", ["", "a", "2.0", "two", "no;yes"])
def test_what_is_neither_a_count_nor_names(text):
    with pytest.raises(InputError, match="`classes` takes a count"):
        Classes.parse(text)


@pytest.mark.parametrize("text", ["no,no", "no,", ",", "a,b,a"])
def test_names_differ_and_are_not_empty(text):
    with pytest.raises(InputError, match="class names must differ"):
        Classes.parse(text)


def test_names_and_count_agree():
    with pytest.raises(InputError, match="3 classes need 3 names; got 2"):
        Classes(3, ("no", "yes"))


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]
TEXTS = [pa.string(), pa.large_string()]


@pytest.mark.parametrize("kind", INTEGERS + FLOATS, ids=str)
def test_numbers_of_every_type(kind):
    assert codes(Classes(3), pa.array([0, 2, 1, 0], pa.int64()).cast(kind)) == [0, 2, 1, 0]


def test_half_precision():
    assert codes(TWO, pa.array(np.array([1, 0], np.float16))) == [1, 0]


def test_truth_values():
    assert codes(TWO, pa.array([True, False])) == [1, 0]


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_many_classes_and_a_narrow_type(kind):
    """More classes are declared than the column's type can count."""
    assert codes(Classes(65536), pa.array([0, 127], kind)) == [0, 127]


def test_the_last_of_the_most_classes():
    assert codes(Classes(65536), pa.array([65535, 0])) == [65535, 0]
    with pytest.raises(InputError, match="row 1 "):
        codes(Classes(65536), pa.array([0, 65536]))


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_names_of_every_type(kind):
    assert codes(ANSWERS, pa.array(["not sure", "no", "yes"], kind)) == [2, 0, 1]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_names_in_a_dictionary(kind):
    column = pa.array(["yes", "no", "yes", "not sure"], kind).dictionary_encode()
    assert codes(ANSWERS, column) == [1, 0, 1, 2]


def test_the_order_of_a_dictionary_is_not_that_of_the_classes():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["yes", "not sure", "no"]))
    assert codes(ANSWERS, column) == [1, 2, 0]


def test_an_unused_value_of_a_dictionary_is_no_label():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["yes", "no", "87654321"]))
    assert codes(ANSWERS, column) == [1, 0]


def test_a_missing_value_of_a_dictionary_is_a_missing_label():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["yes", None]))
    with pytest.raises(InputError, match=r"^row 1 has no label\.$"):
        codes(ANSWERS, column)


def test_numbers_in_a_dictionary():
    assert codes(TWO, pa.array([1, 0, 1]).dictionary_encode()) == [1, 0, 1]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_numbers_as_text(kind):
    column = pa.array(["1", "01", "1.0", "1.", "+1", " 1 ", "0", "000", "0.00", "10"], kind)
    assert codes(Classes(11), column) == [1, 1, 1, 1, 1, 1, 0, 0, 0, 10]


@pytest.mark.parametrize("text", ["-1", "-0", "1.5", "0x1", "1e0", "1,0", "٠", "1 0", "0.0.0", "", "."])
def test_text_that_is_no_class_number(text):
    with pytest.raises(InputError, match=r"^row 1 holds (a label outside|text where)"):
        codes(TWO, pa.array(["0", text]))


def test_names_are_not_numbers():
    """Where names are declared, 01 is not 1."""
    assert codes(Classes(2, ("1", "01")), pa.array(["01", "1"])) == [1, 0]


@pytest.mark.parametrize("column", [pa.array([7, 3]), pa.array([7.0, 3.0]), pa.array(["7", "3"])], ids=lambda c: c.type)
def test_numbers_as_names(column):
    assert codes(Classes(2, ("3", "7")), column) == [1, 0]


def test_truth_values_as_names():
    assert codes(Classes(2, ("true", "false")), pa.array([True, False])) == [0, 1]


def test_blanks_around_a_name_do_not_count_and_those_inside_do():
    assert codes(ANSWERS, pa.array([" no", "yes\t", " not sure "])) == [0, 1, 2]
    with pytest.raises(InputError, match="row 0 "):
        codes(ANSWERS, pa.array(["notsure"]))


def test_errors_count_rows_from_the_first_of_the_file():
    for column in (pa.array(["no", None]), pa.array(["no", "87654321"]), pa.array([0, 7]), pa.array([0.0, 0.5])):
        classes = ANSWERS if pa.types.is_string(column.type) else TWO
        with pytest.raises(InputError, match=r"^row 1001 ") as caught:
            classes.encode(column, 1000)
        assert "87654321" not in str(caught.value)


def test_a_sliced_column():
    column = pa.array(["87654321", "yes", "no", "87654321"]).slice(1, 2)
    assert codes(ANSWERS, column) == [1, 0]
    assert codes(ANSWERS, column.dictionary_encode()) == [1, 0]
    assert codes(TWO, pa.array([9, 1, 0, 9]).slice(1, 2)) == [1, 0]


@pytest.mark.parametrize("kind", [pa.date32(), pa.list_(pa.int8()), pa.binary(), pa.decimal128(12, 2)], ids=str)
def test_types_that_hold_no_labels(kind):
    with pytest.raises(InputError, match="not class numbers or names"):
        TWO.encode(pa.nulls(2, kind).fill_null(_something(kind)), 0)


def _something(kind):
    if pa.types.is_list(kind):
        return pa.scalar([1], kind)
    return pa.scalar(b"1", kind) if pa.types.is_binary(kind) else pa.scalar(1, pa.int32()).cast(kind)
