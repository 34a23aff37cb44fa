"""What the documents say is run: every bash and Python block of the README and of docs/ that can be."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labeldp import Laplace, SubsetSelection

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("pages", [("README.md", "docs/file-format.md"), ("docs/python.md",)])
def test_every_block_runs(tmp_path, pages):
    """In one folder, in order, as a reader would; docs/file-format.md reads the file that the README wrote."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LABELDP_LEDGER": str(tmp_path / "reader.ledger"),
    }
    blocks = [block for page in pages for block in BLOCK.findall((ROOT / page).read_text())]
    assert len(blocks) >= 2
    if pages == ("docs/python.md",):  # one session, as in a notebook
        blocks = [("python", "\n".join(text for _, text in blocks))]
    for language, text in blocks:
        command = ["bash", "-euo", "pipefail", "-c", text] if language == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def test_the_readmes_claim_is_what_the_code_computes():
    (claimed,) = re.findall(r"k-subset selection tells a learner (\d+)% more", (ROOT / "README.md").read_text())
    subset = SubsetSelection.calibrated(epsilon=1.0, num_classes=10).information()
    laplace = Laplace.calibrated(epsilon=1.0, num_classes=10).information()
    assert int(claimed) == round(100 * (subset / laplace - 1))


@pytest.mark.parametrize("page", ["README.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target


def test_every_command_and_option_is_documented():
    """`labeldp release --help` and the guide together name every option; every command has a sentence."""
    from labeldp.cli import app, ledger, pate

    guide = "".join(
        (ROOT / name).read_text()
        for name in (
            "README.md",
            "docs/owner.md",
            "docs/training.md",
            "docs/audit.md",
            "docs/pate.md",
            "docs/selection.md",
            "docs/reproduce.md",
        )
    )
    for command in [*app.registered_commands, *ledger.app.registered_commands, *pate.app.registered_commands]:
        assert command.callback.__doc__
    for name in (
        "plan",
        "release",
        "inspect",
        "ledger show",
        "ledger verify",
        "ledger get",
        "train",
        "predict",
        "evaluate",
        "download",
        "audit",
        "audit-repeat",
        "audit-heuristic",
        "canaries plant",
        "pate run",
        "pate teachers",
        "pate aggregate",
        "pate student",
        "pate account",
        "pate features",
        "select",
        "reproduce",
    ):
        assert f"labeldp {name}" in guide


def test_every_public_name_is_documented():
    import labeldp

    text = (ROOT / "docs" / "python.md").read_text()
    for name in labeldp.__all__:
        assert re.search(rf"\b{name}\b", text), name
        assert getattr(labeldp, name) is not None


def test_every_option_has_a_help_text():
    import inspect

    from labeldp.cli.release import command

    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        for metadata in getattr(parameter.annotation, "__metadata__", ()):
            assert metadata.help
