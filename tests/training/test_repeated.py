import json
import math

import pytest
from scipy.stats import beta

from labeldp.errors import InputError
from labeldp.training.repeated import Game, repeat


def test_games_are_played_once_and_prove_what_they_prove(tmp_path):
    game = Game("digits", None, "none", epochs=1)
    first = repeat(game, tmp_path / "games", 8, processes=1)
    assert (first.attack, first.correct, first.guesses, first.certificate) == ("release", 8, 8, None)
    lines = (tmp_path / "games" / "games.jsonl").read_text()
    with (tmp_path / "games" / "games.jsonl").open("a") as file:
        file.write('{"coin": 1, "mo\n')  # a kill cut it short
    whole = repeat(game, tmp_path / "games", 12, processes=1)
    assert (whole.correct, whole.canaries) == (12, 12)
    assert (tmp_path / "games" / "games.jsonl").read_text().startswith(lines)
    assert whole.epsilon_low > first.epsilon_low
    assert json.loads((tmp_path / "games" / "summary.json").read_text()) == whole.to_json()
    coins = {json.loads(line)["coin"] for line in lines.splitlines()}
    assert coins <= {0, 1}
    with pytest.raises(InputError, match="another game"):
        repeat(Game("digits", None, "none", epochs=2), tmp_path / "games", 12, processes=1)


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
    from labeldp.mechanisms.plan import calibrate
    from labeldp.training.repeated import _result

    one_sided = [{"coin": 1, "model": 1.0, "release": 1.0}] * 5
    assert _result(one_sided, calibrate("gaussian", epsilon=1.0, num_classes=10, delta=1e-5), 0.95).epsilon_low == 0


@pytest.mark.parametrize("changes", [{"row": 10**6}, {"labels": (3, 3)}, {"labels": (0, 10)}, {"mechanism": None}])
def test_impossible_games(tmp_path, changes):
    given = {"dataset": "digits", "epsilon": None, "mechanism": "none"} | changes
    with pytest.raises(InputError):
        repeat(Game(**given), tmp_path / "g", 2, processes=1)
