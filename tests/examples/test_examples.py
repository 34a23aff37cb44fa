"""The examples run, learn, and tell how well: with seeded noise, few epochs and no network."""

import ast
import importlib.util
import runpy
import socket
import sys
from pathlib import Path
from types import ModuleType

import pytest

from labeldp import SeededEntropy

torch = pytest.importorskip("torch")
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No network; one thread; torch's generator and the environment are afterwards what they were."""

    def refuse(self, address):
        raise AssertionError(f"an example wanted to connect to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # read when transformers is imported, so in a test and not at the top
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):  # Lightning's seed_everything sets them
        monkeypatch.setenv(name, "0")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(threads)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"labeldp_example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, float | None]:
    return ast.literal_eval(capsys.readouterr().out.splitlines()[-1])


def check(results: dict[str, float | None]) -> None:
    """It learned, and what the released labels say agrees with what the public test labels say."""
    assert results["accuracy_test"] > 0.88
    assert 0 < results["standard_error"] < 0.03
    assert abs(results["accuracy_estimated"] - results["accuracy_test"]) < 5 * results["standard_error"]
    assert results["epsilon"] is None  # seeded noise protects nobody


def test_plain_loop(capsys):
    results = load("plain_loop").main(epochs=10, entropy=SeededEntropy(0))
    check(results)
    assert printed(capsys) == results


# Lightning 2.6 builds torch's LeafSpec, which torch 2.13 deprecates; how many workers it recommends depends on the machine.
@pytest.mark.filterwarnings(r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
def test_lightning_module(capsys):
    pytest.importorskip("lightning")
    results = load("lightning_module").main(epochs=10, entropy=SeededEntropy(0))
    check(results)
    assert printed(capsys) == results


def test_hugging_face_trainer(capsys):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    results = load("hugging_face_trainer").main(epochs=4, entropy=SeededEntropy(0))
    check(results)
    assert printed(capsys) == results


def test_as_a_script_the_noise_is_real_and_has_an_epsilon(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["plain_loop.py", "--epochs", "1"])
    runpy.run_path(str(EXAMPLES / "plain_loop.py"), run_name="__main__")
    assert 3.99 < printed(capsys)["epsilon"] <= 4
