"""Columns of a data frame whose values are categories, as codes: the same ones for rows that come later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp.errors import InputError


@dataclass(frozen=True)
class Categories:
    """Of which columns, by number, each value has which code; of what is no data frame, nothing."""

    values: dict[int, Any]  # pandas' own index of categories

    @classmethod
    def of(cls, frame: Any) -> Categories:
        """pandas' category columns."""
        if not _is_frame(frame):
            return cls({})
        kinds = enumerate(frame.dtypes)
        return cls({number: kind.categories for number, kind in kinds if str(kind) == "category"})

    @property
    def columns(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(self.values)

    def coded(self, frame: Any) -> Any:
        """With codes in place of values; NaN where something is missing, or was not seen before."""
        if not _is_frame(frame):
            return frame
        texts = [str(name) for name, kind in frame.dtypes.items() if str(kind) in ("object", "str", "string")]
        if texts:
            raise InputError(
                f'column {texts[0]!r} holds text: make it categories (X[{texts[0]!r}].astype("category")), or encode it as numbers.'
            )
        if not self.values:
            return frame
        frame = frame.copy(deep=False)
        for number, known in self.values.items():
            column = frame.iloc[:, number]
            codes = known.get_indexer(column.astype(object)).astype(np.float64)
            frame[frame.columns[number]] = np.where(codes < 0, np.nan, codes)
        return frame


def _is_frame(given: Any) -> bool:
    return hasattr(given, "dtypes") and hasattr(given, "iloc") and getattr(given, "ndim", 0) == 2
