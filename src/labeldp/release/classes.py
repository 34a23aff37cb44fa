"""The declared classes: a count, or names. They are declared by the caller and never read off the labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import InputError
from labeldp.private import PrivateLabels, check_num_classes


@dataclass(frozen=True)
class Classes:
    """How many classes there are and, where labels are text, what they are called."""

    count: int
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_num_classes(self.count)
        if self.names is not None:
            if len(self.names) != self.count:
                raise InputError(f"{self.count} classes need {self.count} names; got {len(self.names)}.")
            text = all(isinstance(name, str) and name and name.isprintable() for name in self.names)
            if not text or len(set(self.names)) != len(self.names):
                raise InputError("class names must differ from each other, be printable text, and not be empty.")

    @classmethod
    def parse(cls, text: str) -> Classes:
        """From the command line: `10`, `no,yes`, or `@names.txt` with one name a line."""
        if text.startswith("@"):
            try:
                lines = Path(text[1:]).read_text(encoding="utf-8-sig").splitlines()
            except (OSError, UnicodeDecodeError):
                raise InputError(f"the class names in {text[1:]} cannot be read.") from None
            names = tuple(line.strip() for line in lines)
            return cls(len(names), names)
        if "," in text:
            names = tuple(name.strip() for name in text.split(","))
            return cls(len(names), names)
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", text.strip()):
            raise InputError(f"`classes` takes a count (10) or all the names (no,yes); got {text!r}.")
        return cls(int(text))

    def encode(self, column: Any, first_row: int) -> PrivateLabels:
        """A column of labels as class numbers. Errors name the row, never the label."""
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if column.null_count:
            missing = pc.index(pc.is_null(column), True).as_py()
            raise InputError(f"row {first_row + missing} has no label.")
        kind = column.type
        if not (_is_number(kind) or _is_text(kind)):
            raise InputError(f"the label column holds {kind}, not class numbers or names.")
        if self.names is None and _is_number(kind):
            return PrivateLabels(column.to_numpy(zero_copy_only=False), self.count, first_row=first_row)
        text = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
        names = self.names
        if names is None:
            text = pc.replace_substring_regex(text, r"^\+?0*(\d+)(\.0*)?$", r"\1")  # 1.0 and 01 are 1
            names = tuple(str(i) for i in range(self.count))
        codes = pc.index_in(text, value_set=pa.array(names))
        if codes.null_count:
            row = pc.index(pc.is_null(codes), True).as_py()
            what = f"a label outside the {self.count} declared classes"
            if self.names is not None:
                what += " (names are compared to the letter)"
            if (
                self.names is None
                and not pc.match_substring_regex(text.slice(row, 1), r"^[-+]?\d+(\.\d*)?$")[0].as_py()
            ):
                what = f"text where class numbers 0 to {self.count - 1} are declared"
            raise InputError(f"row {first_row + row} holds {what}.")
        return PrivateLabels(codes.to_numpy(zero_copy_only=False).astype(np.uint32), self.count, first_row=first_row)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
