"""One path through all of it, as users type it: plant, release, train, predict, audit, report. `make test-floors` walks it too."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def test_from_labels_to_a_report(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELDP_LEDGER", str(tmp_path / "owner.ledger"))
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    labels, names = draw.integers(0, 3, 600), [f"u{i}" for i in range(600)]
    rows = {"uid": names, "x": draw.normal(labels, 0.5), "colour": np.array(["red", "green", "blue"])[labels]}
    pq.write_table(pa.table({**rows, "label": labels}), "labels.parquet")

    def done(*arguments):
        code, out, err = cli(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    named, given = ("--label", "label", "--id", "uid"), ("--features", "features.parquet", "--id", "uid")
    planting = ("--classes", "3", "--count", "20", "--out", "planted.parquet", "--secret", "canaries.npz")
    assert done("canaries", "plant", "labels.parquet", *named, *planting)["canaries"] == 20
    released = done(
        "release",
        "planted.parquet",
        *named,
        "--classes",
        "3",
        "--epsilon",
        "4",
        "--shuffle",
        "--out",
        "released.parquet",
    )
    assert released["certificate"]["epsilon"] <= 4
    assert done("features", "labels.parquet", *named, "--out", "features.parquet")["rows"] == 600
    trained = done("train", "--release", "released.parquet", *given, "--epochs", "10", "--out", "run")
    assert trained["accuracy_estimated"] > 0.6
    assert done("predict", "run", *given, "--out", "scores.parquet")["rows"] == 600
    audited = ("--canaries", "canaries.npz", "--release", "released.parquet")
    assert done("audit", "scores.parquet", *audited, "--out", "audit")["epsilon_low"] <= 4
    done("report", "run", "audit", "--out", "report.html")
    assert "report.html" in {path.name for path in tmp_path.iterdir()}
    assert done("ledger", "verify", "--releases", "released.parquet")["ok"]
