"""Write scikit-learn's bundled digits as two parties would hold them: one has the labels, the other the pictures."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits


def main(folder: Path) -> None:
    digits = load_digits()
    uids = [f"digit-{i:04d}" for i in range(len(digits.target))]
    pq.write_table(pa.table({"uid": uids, "digit": pa.array(digits.target, pa.int8())}), folder / "digits.parquet")
    pixels = {f"p{i:02d}": column for i, column in enumerate(digits.data.astype(np.float32).T)}
    pq.write_table(pa.table({"uid": uids, **pixels}), folder / "features.parquet")
    print(
        f"wrote {folder}/digits.parquet (private labels) and {folder}/features.parquet (public): {len(uids):,} rows each"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
