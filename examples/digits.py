"""Write scikit-learn's bundled digits as the label owner would hold them: a public id and a private label."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits


def main(path: str) -> None:
    labels = load_digits().target
    uids = [f"digit-{i:04d}" for i in range(len(labels))]
    pq.write_table(pa.table({"uid": uids, "digit": pa.array(labels, pa.int8())}), path)
    print(f"wrote {path}: {len(labels):,} rows with an id and a private label")


if __name__ == "__main__":
    main(sys.argv[1])
