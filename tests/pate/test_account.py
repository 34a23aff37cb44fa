"""`labeldp pate account`: the number that may be published, and those that may not."""

import json

import numpy as np
import pytest

from labeldp.accounting.gaussian import gaussian_epsilon
from labeldp.errors import InputError
from labeldp.pate.account import account

OPTIONS = ("--sigma1", 150, "--sigma2", 40, "--threshold", 200)


@pytest.fixture
def votes(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.multinomial(250, [0.86, *[0.14 / 9] * 9], size=120)
    np.savez(tmp_path / "votes.npz", votes=table, answered=rng.random(120) < 0.5)
    return tmp_path / "votes.npz"


def test_the_golden_file_from_the_command_line(cli):
    """../shared/data/pate: what tensorflow/privacy's pate_2018 gives, to 1e-6."""
    from labeldp.data.download import data_folder

    folder = data_folder(None) / "pate"
    if not (folder / "votes_shared.npz").exists():
        pytest.skip(f"{folder} is not there")
    golden = json.loads((folder / "votes_shared.json").read_text())
    orders = ",".join(str(order) for order in golden["orders"])
    smooth = golden["smooth_sensitivity"]
    code, out, _ = cli(
        "pate", "account", folder / "votes_shared.npz", *OPTIONS, "--delta", 1e-5, "--json", "--orders", orders, "--smooth-sensitivity",
        "--order", smooth["order"], "--beta", smooth["beta"],
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    assert (found["asked"], found["answered"], found["basis"], found["delta"]) == (400, 195, "counts", 1e-5)
    private = found["owner_only"]
    for name in ("rdp_threshold", "rdp_answers", "orders"):
        assert private[name] == pytest.approx(golden[name], rel=1e-6, abs=1e-6)
    assert private["epsilon_data_dependent"] == pytest.approx(golden["epsilon_data_dependent"], abs=1e-6)
    assert private["order"] == golden["optimal_order"]
    assert private["smooth_sensitivity"] == pytest.approx(smooth["value"], abs=1e-6)
    assert found["epsilon"] == pytest.approx(gaussian_epsilon((400 / 150**2 + 2 * 195 / 40**2) ** 0.5, 1e-5), rel=1e-9)


def test_caps_are_the_basis_where_they_are_named(votes, cli):
    code, out, _ = cli("pate", "account", votes, *OPTIONS, "--max-asked", 500, "--max-answered", 200, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["basis"] == "caps"
    assert found["epsilon"] == pytest.approx(gaussian_epsilon((500 / 150**2 + 2 * 200 / 40**2) ** 0.5, 1e-5), rel=1e-9)
    assert "smooth_sensitivity" not in found["owner_only"]
    assert len(found["owner_only"]["orders"]) > 100
    code, out, _ = cli("pate", "account", votes, *OPTIONS)
    assert "only if they were fixed beforehand" in out
    assert "OWNER ONLY" in out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--max-asked", 500), "pairs"),
        (("--max-asked", 100, "--max-answered", 100), "more than the caps"),
        (("--threshold", 251), "250 teachers"),
        (("--sigma1", -1), "sigma1"),
        (("--orders", "2,x"), "--orders"),
        (("--orders", "1"), "above 1"),
        (("--smooth-sensitivity",), "--order and --beta"),
        (("--order", 20), "go with --smooth-sensitivity"),
        (("--delta", 0), "delta"),
    ],
)
def test_bad_options(votes, cli, change, words):
    code, _, err = cli("pate", "account", votes, *OPTIONS, *change)
    assert code == 2
    assert words in err


def test_bad_files(tmp_path, cli):
    np.savez(tmp_path / "some.npz", votes=np.ones((3, 4), int))
    np.savez(tmp_path / "uneven.npz", votes=np.array([[1, 2], [1, 1]]), answered=np.array([True, False]))
    np.savez(tmp_path / "empty.npz", votes=np.zeros((0, 4), int), answered=np.zeros(0, bool))
    (tmp_path / "text.npz").write_text("x")
    for name, words in (
        ("none.npz", "no file"), ("some.npz", "votes (n, C) and answered"), ("text.npz", "votes (n, C) and answered"),
        ("uneven.npz", "one teacher, one vote"), ("empty.npz", "no queries"),
    ):  # fmt: skip
        code, _, err = cli("pate", "account", tmp_path / name, "--sigma1", 5, "--sigma2", 2, "--threshold", 1)
        assert (code, words in err) == (2, True), err


def test_no_answer_at_all_is_accounted_for_the_tests():
    found = account(np.array([[3, 2]] * 4), np.zeros(4, bool), threshold=5, sigma1=2, sigma2=1)
    assert found.answered == 0
    assert found.epsilon == pytest.approx(gaussian_epsilon((4 / 2**2) ** 0.5, 1e-5), rel=1e-9)
    with pytest.raises(InputError, match="threshold"):
        account(np.array([[3, 2]]), np.zeros(1, bool), threshold=6, sigma1=2, sigma2=1)
