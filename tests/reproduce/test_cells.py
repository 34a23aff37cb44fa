"""Cells: names that stay, commands that parse, noise that is worth the ε it is named after."""

import shlex
from pathlib import Path

import pytest
import typer

from labeldp.data.public import WITH_SCIKIT_LEARN
from labeldp.errors import InputError
from labeldp.reproduce.cells import chosen
from labeldp.reproduce.methods import CLASSES, ENSEMBLES, SCALES, frozen
from labeldp.reproduce.names import NAMES, plan

EVERY = [(name, scale) for name in NAMES for scale in SCALES]


def parsed(arguments):
    """What the command line makes of them; nothing is run."""
    from labeldp.cli import app

    command, given = typer.main.get_command(app), list(arguments)
    while (commands := getattr(command, "commands", None)) is not None:
        command = commands[given.pop(0)]
    return command.make_context(command.name, given).params


@pytest.mark.parametrize(("name", "scale"), EVERY)
def test_every_command_parses(name, scale):
    for cell in plan(name, scale, 2).cells():
        given = parsed(cell.command(Path("somewhere"), Path("data")))
        assert given["out"] == Path("somewhere")
        assert given["seed"] == cell.seed or "-apart" in cell.name
        assert given["data"] == (None if cell.dataset in WITH_SCIKIT_LEARN else Path("data"))
        assert (
            (given.get("dataset") or given["preset"])
            .replace("pate-", "")
            .replace("alibi-", "")
            .startswith(cell.dataset)
        )


def test_names_are_those_of_directories_and_belong_to_one_command():
    by_name, by_command = {}, {}
    for name, scale in EVERY:
        for cell in plan(name, scale, 2).cells():
            assert by_name.setdefault(cell.name, cell.arguments) == cell.arguments, cell.name
            assert by_command.setdefault(cell.arguments, cell.name) == cell.name
            assert set(cell.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
            if scale == "paper" and name not in (
                "tabular",
                "moments",
                "frontier",
            ):  # no paper has these: its cells are those of scale cpu
                assert cell.name.startswith("paper-")


def test_the_queue_of_equal_compute_is_the_one_that_has_been_run():
    """Directories of finished cells are found by these names, and cells.json compares these commands."""
    cells = plan("equal-compute", "cpu").cells()
    train = "labeldp experiment --dataset cifar10 --model fast --epochs {} --seed 0 --threads 1 --canaries 500 --candidates 10 --mechanism "
    golden = {
        "cifar10-alibi-eps1-seed0": train.format(8) + "laplace --epsilon 1",
        "cifar10-agibi-eps1-seed0": train.format(8) + "gaussian --epsilon 1",
        "cifar10-subset-eps2-seed0": train.format(8) + "subset --epsilon 2",
        "cifar10-response-eps4-seed0": train.format(8) + "response --epsilon 4",
        "cifar10-min-projection-eps1-seed0": train.format(8) + "laplace --epsilon 1 --denoise min-projection",
        "cifar10-lp-2st-hard-eps1-seed0": train.format(5)
        + "response --epsilon 1 --stages 2 --stage-epochs 6 --denoise none",
        "cifar10-lp-2st-evidence-eps1-seed0": train.format(5) + "response --epsilon 1 --stages 2 --stage-epochs 6",
        "cifar10-subset-2st-eps1-seed0": train.format(5) + "subset --epsilon 1 --stages 2 --stage-epochs 6",
        "cifar10-none-seed0": train.format(8) + "none",
        # 528 and 176 are benchmarks/pate_runs.py's.
        "cifar10-pate-frozen-eps1-seed0": "labeldp pate run --dataset cifar10 --contrastive 6 --teachers 1000 "
        "--max-asked 2000 --max-answered 1000 --sigma1 528 --sigma2 176 --threshold 500 --answer-accuracy 0.6 "
        "--students 1 --student-epochs 4 --seed 0",
    }
    commands = {cell.name: cell.shell(Path("x")) for cell in cells}
    for name, command in golden.items():
        assert commands[name] == f"{command} --out x"
    order = [cell.name for cell in cells]
    places = [order.index(f"{name}-seed{seed}") for name, seed in (
        ("cifar10-subset-eps1", 0), ("cifar10-subset-eps2", 0), ("cifar10-none", 0), ("cifar10-pate-frozen-eps1", 0),
        ("cifar10-subset-eps4", 0), ("cifar10-subset-eps1", 1), ("cifar100-subset-eps4", 0),
    )]  # fmt: skip
    assert places == sorted(places)
    assert "cifar10-subset-eps4-seed1" not in order
    assert "cifar10-subset-eps4-seed1" in [cell.name for cell in plan("equal-compute", "cpu", 2).cells()]


def test_tables_share_cells():
    names = {name: {cell.name for cell in plan(name, "cpu").cells()} for name in NAMES}
    alibi = {name for name in names["table1"] if "alibi" in name}
    assert len(alibi) == 7
    assert names["table-agibi"] & alibi == names["table-heuristic"] & alibi == alibi - {"cifar100-alibi-eps8.1-seed0"}
    assert names["table-pate"] < names["table1"]
    assert names["figure1"] < names["table1"]
    assert "cifar10-alibi-eps1-seed0" in names["equal-compute"] & names["table1"]
    assert {"cifar100-alibi-eps4-seed0", "cifar100-lp-2st-hard-eps4-seed0"} <= names["equal-compute"] & names["table2"]


def test_published_epsilons_are_those_of_the_cells_names():
    from labeldp.mechanisms import PateAnswers

    seen = 0
    for name, scale in EVERY:
        for cell in plan(name, scale).cells():
            if cell.method == "pate-frozen" and cell.epsilon is not None:
                given = parsed(cell.command(Path("x")))
                names = ("teachers", "sigma1", "sigma2", "threshold", "max_asked", "max_answered")
                found = PateAnswers(CLASSES[cell.dataset], *(given[name] for name in names)).guarantee()
                assert 0.98 * cell.epsilon < found.epsilon <= cell.epsilon, cell.name
                assert found.delta == 1e-5
                assert given["sigma1"] == pytest.approx(3 * given["sigma2"])
                seen += 1
    assert seen > 10


def test_methods_of_two_stages_take_as_much_compute():
    """3/4 of the epochs on half of the rows and 5/8 on all."""
    for scale in SCALES:
        cells = {cell.method: parsed(cell.command(Path("x"))) for cell in plan("equal-compute", scale).cells()}
        for method in ("lp-2st-hard", "lp-2st-evidence", "subset-2st"):
            whole = cells["alibi"].get("epochs") or 200
            assert cells[method]["stage_epochs"] / 2 + cells[method]["epochs"] == whole


def test_a_shell_gets_one_line(tmp_path):
    cell = frozen("cifar10", ENSEMBLES["cifar10"], 1.0, 0)
    line = cell.shell(tmp_path / "with a space", Path("my data"))
    assert shlex.split(line) == ["labeldp", *cell.command(tmp_path / "with a space", Path("my data"))]
    assert "\n" not in line


def test_only_some_cells():
    cells = plan("equal-compute", "smoke").cells()
    assert [cell.name for cell in chosen(cells, ["none", "agibi"])] == ["digits-agibi-eps2-seed0", "digits-none-seed0"]
    with pytest.raises(InputError, match="--list shows them"):
        chosen(cells, ["cifar"])
    with pytest.raises(InputError, match="unknown name"):
        plan("table9", "smoke")
    with pytest.raises(InputError, match="--scale is"):
        plan("table1", "huge")
    with pytest.raises(InputError, match="--seeds"):
        plan("table1", "smoke", 0)
