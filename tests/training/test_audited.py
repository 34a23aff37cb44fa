"""A run with canaries can be looked at again: `labeldp audit run/`."""

import json

import pytest


@pytest.mark.parametrize(("mechanism", "delta"), [("subset", 0.0), ("gaussian", 1e-5)])
def test_a_runs_directory_is_audited(tmp_path, cli, mechanism, delta):
    run = tmp_path / "run"
    options = ("--epsilon", 2, "--mechanism", mechanism, "--epochs", 2, "--canaries", 60, "--candidates", 10)
    code, out, _ = cli("train", "--dataset", "digits", *options, "--out", run, "--json")
    assert code == 0
    both = json.loads(out)["audit"]
    code, out, _ = cli("audit", run, "--json", "--figure", tmp_path / "violins.png")
    assert code == 0
    found = json.loads(out)
    assert found["delta"] == delta  # the release's own
    assert [look["attack"] for look in found["looks"]] == ["model", "release"]
    for look in found["looks"]:  # the same guesses; but two attacks share the 5%
        alone = both[look["attack"]]
        assert look["epsilon_low"] <= alone["epsilon_low"]
        if look["attack"] == "release":
            assert look["correct"] == alone["correct"]
    assert (tmp_path / "violins.png").read_bytes()[:4] == b"\x89PNG"
    assert cli("audit", run, "--canaries", run / "canaries.npz")[0] == 2
    assert cli("audit", tmp_path)[0] == 2
    code, _, said = cli("audit", run, "--method", "paper")
    assert code == 2
    assert "--wrong-only" in said
