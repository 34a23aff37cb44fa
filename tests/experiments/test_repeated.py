import json
import math

import pytest
from scipy.stats import beta

from labeldp.errors import InputError
from labeldp.experiments.repeated import Game, repeat


def test_games_are_played_once_and_prove_what_they_prove(tmp_path):
    game, path = Game("digits", None, "none", epochs=1), tmp_path / "games" / "games.jsonl"
    first = repeat(game, tmp_path / "games", 12, processes=1)
    assert (first.attack, first.correct, first.guesses, first.certificate) == ("release", 12, 12, None)
    lines = path.read_text().splitlines(keepends=True)
    assert {json.loads(line)["coin"] for line in lines} <= {0, 1}
    path.write_text("".join(lines[:10]) + '{"coin": 1, "mo')  # a kill cut it short
    whole = repeat(game, tmp_path / "games", 12, processes=1)
    again = path.read_text().splitlines(keepends=True)
    assert again[:10] == lines[:10]
    assert again[10] == '{"coin": 1, "mo\n'  # ended, not run into by the next game
    assert len(again) == 13
    assert (whole.correct, whole.canaries, whole.epsilon_low) == (12, 12, first.epsilon_low)
    assert repeat(game, tmp_path / "games", 12, processes=1) == whole  # nothing is played again
    assert path.read_text().splitlines(keepends=True) == again
    assert json.loads((tmp_path / "games" / "summary.json").read_text()) == {"kind": "games", **whole.to_json()}
    with pytest.raises(InputError, match="another game"):
        repeat(Game("digits", None, "none", epochs=2), tmp_path / "games", 12, processes=1)


def test_the_number_of_games_is_fixed_by_the_first_start(tmp_path, cli):
    """Who looks every 50 of 2,000 games, and stops when it suits, exceeds the true ε in 13% of cases, not in 5%."""
    command = (
        "audit-repeat",
        "--dataset",
        "digits",
        "--mechanism",
        "none",
        "--epochs",
        1,
        "--processes",
        1,
        "--out",
        tmp_path / "g",
    )
    assert cli(*command, "--trainings", 2)[0] == 0
    before = (tmp_path / "g" / "games.jsonl").read_text()
    for trainings in (3, 1):
        code, _, err = cli(*command, "--trainings", trainings)
        assert (code, "begun for 2 trainings, which is fixed" in err, "--out" in err) == (2, True, True)
    code, _, err = cli(*command, "--trainings", 0)
    assert (code, "at least 1" in err) == (2, True)
    assert (tmp_path / "g" / "games.jsonl").read_text() == before
    (tmp_path / "g" / "config.json").write_text("{}")  # begun before the number was kept
    assert "without a number of trainings" in cli(*command, "--trainings", 2)[2]


@pytest.mark.parametrize(
    "line",
    [
        '{"coin": 1}',
        "[]",
        '{"coin": 2, "model": 1.0, "release": 1.0}',
        '{"coin": 1, "model": "a", "release": 1.0}',
        '{"coin": 1, "model": NaN, "release": 1.0}',
    ],
)
def test_lines_that_are_no_games(tmp_path, line):
    game = Game("digits", None, "none", epochs=1)
    repeat(game, tmp_path, 1, processes=1)
    (tmp_path / "games.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match="no game"):
        repeat(game, tmp_path, 1, processes=1)


def test_labels_and_confidence_are_the_users(tmp_path, cli):
    command = (
        "audit-repeat",
        "--dataset",
        "digits",
        "--mechanism",
        "none",
        "--epochs",
        1,
        "--processes",
        1,
        "--trainings",
        1,
        "--out",
    )
    code, out, _ = cli(*command, tmp_path / "g", "--labels", "7,3", "--confidence", "0.999", "--json")
    assert (code, json.loads(out)["confidence"]) == (0, 0.999)
    assert json.loads((tmp_path / "g" / "config.json").read_text())["game"]["labels"] == [7, 3]
    for more, message in (
        (("--labels", "7"), "two class numbers"),
        (("--labels", "7,7"), "two different classes"),
        (("--labels", "-1,7"), "two different classes"),
        (("--labels", "7,10"), "two different classes"),
        (("--confidence", "95"), "between 0 and 1"),
    ):
        code, _, err = cli(*command, tmp_path / "h", *more)
        assert (code, message in err) == (2, True), err


def test_a_mechanism_is_not_refuted_and_processes_agree(tmp_path):
    result = repeat(Game("digits", 1.0, "response", epochs=1), tmp_path / "g", 24, processes=2)
    games = [json.loads(line) for line in (tmp_path / "g" / "games.jsonl").read_text().splitlines()]
    for look in result.looks:  # against scipy: Clopper–Pearson at α/2 of what the file says
        guessed = [game for game in games if game[look.attack] != 0]
        right = sum((game[look.attack] > 0) == (game["coin"] == 1) for game in guessed)
        assert (look.guesses, look.correct) == (len(guessed), right)
        rate = float(beta.ppf(0.025, right, len(guessed) - right + 1)) if right else 0.0
        assert look.epsilon_low == pytest.approx(max(0.0, math.log(rate / (1 - rate))) if rate else 0.0, abs=1e-6)
    assert result.epsilon_low == max(look.epsilon_low for look in result.looks)
    assert result.certificate == pytest.approx(1.0)
    assert {look.attack for look in result.looks} == {"model", "release"}
    assert result.guesses + result.abstained == 24
    # Four coins may all fall on one side: nothing is proven then, and nothing breaks.
    gaussian = repeat(Game("digits", 1.0, "gaussian", 1e-5, epochs=1), tmp_path / "h", 4, processes=1)
    assert gaussian.delta == 1e-5
    from labeldp.experiments.repeated import Played, _result
    from labeldp.mechanisms.plan import calibrate

    one_sided = [Played(1, 1.0, 1.0)] * 5
    assert _result(one_sided, calibrate("gaussian", epsilon=1.0, num_classes=10, delta=1e-5), 0.95).epsilon_low == 0


@pytest.mark.parametrize("changes", [{"row": 10**6}, {"labels": (3, 3)}, {"labels": (0, 10)}, {"mechanism": None}])
def test_impossible_games(tmp_path, changes):
    given = {"dataset": "digits", "epsilon": None, "mechanism": "none"} | changes
    with pytest.raises(InputError):
        repeat(Game(**given), tmp_path / "g", 2, processes=1)
