"""Write scikit-learn's bundled digits as two parties would hold them: one has the labels, the other the pictures.

The last 360, in a fixed public order that mixes the writers, are for testing: their labels are nobody's secret.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

from labeldp.data.bundled import digits_order

TEST = 360


def main(folder: Path) -> None:
    digits = load_digits()
    order = digits_order(len(digits.target))
    uids = [f"digit-{row:04d}" for row in order]
    labels = pa.table({"uid": uids, "digit": pa.array(digits.target[order], pa.int8())})
    pixels = {f"p{i:02d}": column for i, column in enumerate(digits.data[order].astype(np.float32).T)}
    features, rows = pa.table({"uid": uids, **pixels}), len(uids) - TEST
    pq.write_table(labels[:rows], folder / "digits.parquet")
    pq.write_table(features[:rows], folder / "features.parquet")
    pq.write_table(labels[rows:], folder / "test-labels.parquet")
    pq.write_table(features[rows:], folder / "test-features.parquet")
    print(f"wrote {folder}/digits.parquet (private labels) and {folder}/features.parquet (public): {rows:,} rows each;")
    print(f"and {folder}/test-features.parquet with {folder}/test-labels.parquet: {TEST} rows whose labels are public")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
