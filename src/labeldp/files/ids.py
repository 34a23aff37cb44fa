"""Ids: what may name a row, and the one form in which ids are compared.

`00042`, `42 ` and `42.0` are one id, and so are the two ways to write é: Unicode NFC, no white space around, whole numbers
without leading zeros and without a trailing `.0`. Files keep what was written. Where `007` is not `7`, the owner says so: such
ids are compared as they are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import InputError

CANONICAL, AS_WRITTEN = "canonical", "as written"  # forms in which ids are compared
NO_IDS = "ids must be whole numbers or text (or dates, decimals, UUIDs)"
NOT_COMPARED = "white space around it, leading zeros, a trailing .0 and the composition of accents do not count"
_PIECE = 1 << 20
_WHOLE_NUMBER = r"^(-?)0*([0-9]+?)(?:\.0*)?$"


def is_plain_id(kind: Any) -> bool:
    """Whether ids of this type are kept as they are: whole numbers and text."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_id(kind: Any) -> bool:
    """Whether a column of this type can name rows: what is neither whole number nor text becomes text."""
    also = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal, _is_uuid)
    return is_plain_id(kind) or kind == pa.string_view() or any(is_a(kind) for is_a in also)


def plain_ids(column: Any) -> Any:
    """A column of ids as whole numbers or text; one that cannot name rows is left as it is, to be refused."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if is_plain_id(column.type) or not is_id(column.type) else as_id_text(column)


def as_id_text(ids: Any) -> Any:
    """Ids as `large_string`; equal values are equal texts, whatever the width, scale or unit of their type.

    Dates and times as ISO 8601 has them (one with a zone in UTC, with a Z), decimals in full without zeros at the end, UUIDs in
    lower case with hyphens. Floating-point numbers are no ids: how they are written is nobody's promise.
    """
    if isinstance(ids, pa.ChunkedArray):
        return pa.chunked_array([as_id_text(chunk) for chunk in ids.chunks], pa.large_string())
    kind = ids.type
    if not is_id(kind):
        raise pa.ArrowInvalid(f"{kind} is no type of ids")
    if _is_uuid(kind):
        return _uuid_texts(ids.storage if isinstance(ids, pa.ExtensionArray) else ids)
    if pa.types.is_timestamp(kind):
        return _time_texts(ids)
    if pa.types.is_decimal(kind):
        return _decimal_texts(ids)
    return without_views(ids).cast(pa.large_string())


def without_views(column: Any) -> Any:
    """Text and bytes in the usual layout. Views are only another one, which many of Arrow's functions do not know yet."""
    usual = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(column.type)
    if usual is None:
        return column
    try:
        return column.cast(usual)
    except pa.ArrowNotImplementedError:  # pyarrow 17
        return pa.array(column.to_pylist(), usual)


def _is_uuid(kind: Any) -> bool:
    """16 bytes, which is how Parquet has them, with or without saying what they are."""
    named = isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"
    return bool(named or (pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16))


def _uuid_texts(ids: Any) -> Any:
    digits = np.frombuffer(b"".join(ids.fill_null(bytes(16)).to_pylist()).hex().encode(), np.uint8).reshape(-1, 32)
    texts = np.full((len(ids), 36), ord("-"), np.uint8)
    texts[:, [place for place in range(36) if place not in (8, 13, 18, 23)]] = digits
    ends = pa.py_buffer(np.arange(len(ids) + 1, dtype=np.int64) * 36)
    plain = pa.LargeStringArray.from_buffers(len(ids), ends, pa.py_buffer(texts))
    return pc.if_else(ids.is_valid(), plain, pa.scalar(None, pa.large_string()))


def _time_texts(ids: Any) -> Any:
    unit, zone = ids.type.unit, ids.type.tz
    if zone is not None:
        ids = ids.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit))
    texts = pc.replace_substring(ids.cast(pa.large_string()), " ", "T")
    texts = pc.replace_substring_regex(texts, r"\.?0*$", "") if unit != "s" else texts
    return texts if zone is None else pc.binary_join_element_wise(texts, *pa.array(["Z", ""], pa.large_string()))


def _decimal_texts(ids: Any) -> Any:
    if ids.type.scale == 0:
        return ids.cast(pa.large_string())
    in_full = (None if value is None else f"{value:f}" for value in ids.to_pylist())
    texts = [text.rstrip("0").rstrip(".") if text and "." in text else text for text in in_full]
    return pa.array(["0" if text == "-0" else text for text in texts], pa.large_string())


def comparable(ids: Any, form: str = CANONICAL) -> Any:
    """Ids as Arrow's text, equal where they are the same id."""
    array = _as_arrow(ids)
    text = as_id_text(array)
    if form == AS_WRITTEN or pa.types.is_integer(array.type):
        return text
    if not pc.all(pc.string_is_ascii(text), min_count=0).as_py():
        text = pc.utf8_normalize(text, form="NFC")
    text = pc.utf8_trim_whitespace(text)
    # Nearly all ids are in this form already: the rest is looked for by what is cheap to find.
    padded = pc.and_(pc.starts_with(text, pattern="0"), pc.ascii_is_decimal(text))
    text = _replaced(text, padded, _without_zeros)
    odd = pc.or_(pc.match_substring(text, "."), pc.starts_with(text, pattern="-"))
    return _replaced(text, odd, _as_whole_number)


def _as_arrow(ids: Any) -> Any:
    try:
        if not isinstance(ids, (pa.Array, pa.ChunkedArray)) and {type(one) for one in ids} == {int, str}:
            ids = list(map(str, ids))  # a number and its text are one id, also side by side
        array = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(ids)
    except (pa.ArrowException, TypeError, ValueError):
        raise InputError(f"{NO_IDS}.") from None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    array = plain_ids(array) if len(array) else pa.array([], pa.large_string())
    if not is_plain_id(array.type):
        raise InputError(f"{NO_IDS}; got {array.type}.")
    return array


def _replaced(text: Any, mask: Any, change: Any) -> Any:
    if not pc.any(mask, min_count=0).as_py():
        return text
    return pc.replace_with_mask(text, pc.fill_null(mask, False), change(text.filter(mask)))


def _without_zeros(text: Any) -> Any:
    short = pc.ascii_ltrim(text, characters="0")
    return pc.if_else(pc.equal(short, ""), pa.scalar("0", pa.large_string()), short)


def _as_whole_number(text: Any) -> Any:
    plain = pc.replace_substring_regex(text, pattern=_WHOLE_NUMBER, replacement=r"\1\2")
    return pc.if_else(pc.equal(plain, "-0"), pa.scalar("0", pa.large_string()), plain)


def find(
    names: Any, among: Any, where: str, form: str = CANONICAL, whose: str = "that are looked for"
) -> npt.NDArray[np.int64]:
    """The position of each name in `among`, −1 where it is not.

    Piece by piece: a release may have a hundred million ids, of which a thousand are asked for.
    """
    wanted = comparable(names, form)
    if pc.count_distinct(wanted).as_py() != len(wanted):
        raise InputError(f"the ids {whose} repeat: each row needs one of its own.")
    found = np.full(len(wanted), -1, dtype=np.int64)
    for start in range(0, len(among), _PIECE):
        which = pc.index_in(comparable(among[start : start + _PIECE], form), value_set=wanted)
        here = np.flatnonzero(pc.is_valid(which).to_numpy(zero_copy_only=False))
        names_here = which.drop_null().to_numpy(zero_copy_only=False)
        if (found[names_here] >= 0).any() or len(np.unique(names_here)) != len(names_here):
            raise InputError(f"the ids in {where} repeat: each row needs one of its own.")
        found[names_here] = start + here
    return found


def repeated(ids: Any, form: str = CANONICAL) -> tuple[int, int] | None:
    """The first row whose id was there before, and where; None if all differ."""
    text = comparable(ids, form)
    if pc.count_distinct(text).as_py() == len(text):
        return None
    codes = text.dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    row = int(np.argmax(first[codes] != np.arange(len(codes))))
    return row, int(first[codes[row]])
