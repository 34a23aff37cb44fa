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

from labeldp.accounting.rows import AS_WRITTEN, CANONICAL
from labeldp.errors import InputError

_PIECE = 1 << 20
_WHOLE_NUMBER = r"^(-?)0*([0-9]+?)(?:\.0*)?$"


def is_id(kind: Any) -> bool:
    """Whether a column of this type can name rows."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def comparable(ids: Any, form: str = CANONICAL) -> Any:
    """Ids as Arrow's text, equal where they are the same id."""
    array = _as_arrow(ids)
    text = array.cast(pa.large_string())
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
        raise InputError("ids are whole numbers or text.") from None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not (is_id(array.type) or len(array) == 0):
        raise InputError(f"ids are whole numbers or text; got {array.type}.")
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
