"""Two worlds that differ in every label, with the same noise: what is left differs in the noisy numbers, and in what is hashed from them.

Files, their sizes, layout and times; the ledger, its folder; what is printed; how commands end, and what they say when they fail.
"""

import json
import os
import re
import secrets
import sys
import traceback
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import Ledger, SeededEntropy
from labeldp.cli import main
from labeldp.entropy import SecureEntropy
from labeldp.errors import InputError, LabelDPError
from labeldp.files.predictions import write_predictions
from labeldp.release.sealed import read_sealed
from labeldp.statistics import histogram, moments, score
from labeldp.statistics.choose import ModelChoice
from labeldp.statistics.moment_noise import MomentNoise
from labeldp.statistics.noise import GaussianCountNoise, GeometricNoise

ROWS = 240
NOISY = {"score": {"count"}, "choice": {"chosen"}, "moments": {"moments"}, "histogram": {"count"}}
OF_NOISE = ("checksum", "chosen", "metrics", "class_shares")
_HASHED = re.compile(r"[0-9a-f]{16,}")  # the ledger's chain, into which checksums of what was published go


class World:
    """One owner at a desk, whose randomness begins anew with each command."""

    def __init__(self, patch, capfd, desk, classes):
        self.patch, self.capfd, self.desk, self.classes, self.told = patch, capfd, desk, classes, []
        self.noise = SeededEntropy(0)
        patch.setattr(SecureEntropy, "bytes", lambda entropy, count: self.noise.bytes(count))
        patch.setattr(secrets, "token_hex", lambda count=32: self.noise.bytes(count).hex())
        patch.setattr(secrets, "token_bytes", lambda count=32: self.noise.bytes(count))
        desk.mkdir()
        patch.chdir(desk)
        draw = np.random.default_rng(0)
        ids = np.array([f"u{i}" for i in range(ROWS)])
        for name in "ab":
            p = draw.dirichlet(np.ones(classes), ROWS).astype(np.float32)
            write_predictions(desk / f"{name}.parquet", ids[::-1], p)
        x = {f"x{j}": draw.normal(size=ROWS) for j in range(3)}
        pq.write_table(pa.table({"uid": ids, **x}), desk / "x.parquet")

    def labels(self, codes, name="y.csv"):
        texts = [("no", "maybe", "absolutely")[code] if isinstance(code, int) else code for code in codes]
        (self.desk / name).write_text("uid,y\n" + "".join(f"u{i},{text}\n" for i, text in enumerate(texts)))

    def run(self, line):
        self.noise = SeededEntropy(0)
        self.patch.setattr(sys, "argv", ["labeldp", *line.split()])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        out, err = self.capfd.readouterr()
        if "--json" in line and code == 0:
            out = without(json.loads(out))
        self.told.append((line, code, out, err))
        return code

    def left(self):
        """What an observer finds: names, sizes, times and modes of all files, and the ledger's entries."""
        names = {
            _HASHED.sub("#", str(path.relative_to(self.desk))): (path.stat().st_size, path.stat().st_mode)
            for path in self.desk.rglob("*")
            if path.name not in ("y.csv", "l.ledger") and not path.name.startswith(("head-", "ids-"))
        }
        files = {}
        for path in sorted(self.desk.glob("*.out.parquet")):
            sealed = read_sealed(path)
            noisy = NOISY[sealed.header["statistic"]["name"]]
            plain = {name: one.tobytes() for name, one in sealed.arrays.items() if name not in noisy}
            metadata = pq.read_metadata(path)
            groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            files[path.name] = (without(sealed.header), plain, groups, path.stat().st_mtime_ns, _masked(path, noisy))
        entries = [(e.number, e.kind, without(dict(e.body))) for e in Ledger(self.desk / "l.ledger").verify()]
        return names, files, entries, self.told


def _masked(path, noisy):
    """The bytes of all columns but the noisy one. (The rest are the description, which was compared, and its checksum.)"""
    content, metadata = path.read_bytes(), pq.read_metadata(path)
    found = []
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            place = chunk.data_page_offset, chunk.total_compressed_size
            plain = chunk.path_in_schema.split(".")[0] not in noisy
            found.append((*place, content[place[0] : sum(place)] if plain else None))
    return found


def without(data):
    """JSON, without what is computed from noisy numbers."""
    if isinstance(data, dict):
        return {key: "#" if key in OF_NOISE else without(value) for key, value in data.items()}
    if isinstance(data, list):
        return [without(one) for one in data]
    return _HASHED.sub("#", data) if isinstance(data, str) else data


def life(world, codes):
    """Everything that an owner does with statistics."""
    names = "no,maybe,absolutely" if world.classes == 3 else "no,maybe"
    own = f"--labels y.csv --label y --id uid --classes {names} --ledger l.ledger"
    world.labels(codes)
    raised = "--again charge --budget 9 --raise-budget --json"
    codes = [
        world.run(f"score a.parquet {own} --epsilon 1 --out 1.out.parquet --recipient Ann --json"),
        world.run(f"score a.parquet {own} --epsilon 1 --out 2.out.parquet --recipient Bob --json"),
        world.run(f"score a.parquet b.parquet {own} --epsilon 1 --out 3.out.parquet"),
        world.run(f"score a.parquet b.parquet {own} --epsilon 1 --out 3.out.parquet {raised}"),
        world.run(
            f"score a.parquet b.parquet {own} --epsilon 1 --delta 1e-5 --out 4.out.parquet --again charge --json "
            "--budget-gaussian 8 --budget-delta 1e-5 --raise-budget"
        ),
        world.run(f"score a.parquet b.parquet {own} --epsilon 1 --choose log_loss --out 5.out.parquet {raised}"),
        world.run(f"moments x.parquet {own} --epsilon 1 --out 6.out.parquet --again charge --json"),
        world.run(f"score b.parquet {own} --epsilon 20 --out 7.out.parquet --again charge"),
        world.run(f"moments x.parquet {own} --epsilon 1 --pure --out 9.out.parquet {raised}"),
        world.run("inspect 1.out.parquet --json"),
        world.run("inspect 6.out.parquet --json"),
        world.run("inspect 9.out.parquet --json"),
        world.run("ledger show --ledger l.ledger"),
        world.run("ledger get 3 --ledger l.ledger --out 8.out.parquet"),
        world.run(f"release y.csv --label y --id uid --classes {names} --ledger l.ledger --epsilon 1 --out r.parquet"),
    ]
    assert codes == [0, 0, 3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 3], world.told
    return world.left()


@pytest.fixture
def worlds(monkeypatch, capfd, tmp_path):
    def both(live, classes, *settings):
        left = []
        for number, setting in enumerate(settings):
            desk = tmp_path / "desk"
            with monkeypatch.context() as patch:
                left.append(live(World(patch, capfd, desk, classes), setting))
            desk.rename(tmp_path / f"desk-{number}")
        return left

    return both


@pytest.mark.parametrize("classes", [2, 3])
def test_nothing_but_the_noisy_numbers_depends_on_labels(worlds, classes):
    zeros, others = [0] * ROWS, [1 + i % (classes - 1) for i in range(ROWS)]
    first, second = worlds(life, classes, zeros, others)
    for one, other in zip(first, second, strict=True):
        if isinstance(one, dict):
            assert one.keys() == other.keys()
            for name in one:
                assert one[name] == other[name], name
        else:
            assert one == other
    assert len(first[1]) == 8


def faulty(world, fault):
    """Labels that cannot be used: which sentence is said, and what is left."""
    codes = [fault] * ROWS
    names = "no,maybe,absolutely" if world.classes == 3 else "no,maybe"
    own = f"--labels y.csv --label y --id uid --classes {names} --ledger l.ledger --epsilon 1 --out o.parquet"
    commands = [f"score a.parquet {own}", f"score a.parquet b.parquet {own} --choose brier"]
    commands += [f"moments x.parquet {own}", f"moments x.parquet {own} --pure"]
    for wrong in ("", "SECRETVALUE"):
        codes[7] = wrong
        world.labels(codes)
        for command in commands:
            assert world.run(command) == 2
    world.labels([fault] * ROWS)
    with (world.desk / "y.csv").open("a") as file:
        file.write(f"u3,{('no', 'maybe', 'absolutely')[fault]}\n")
    for command in commands:
        assert world.run(command) == 2
    return sorted(os.listdir(world.desk)), world.told


def test_errors_name_rows_and_never_labels(worlds):
    first, second = worlds(faulty, 2, 0, 1)
    assert first == second
    files, told = first
    assert not any("out" in name or name == "o.parquet" or "ledger" in name for name in files)
    for _, _, out, err in told:
        assert out == ""
        assert len(err.splitlines()) == 1
        assert not {"SECRETVALUE", "maybe", "'no'"} & set(err.replace(":", " ").split())
        assert "row 7 " in err or "row 240 " in err


@pytest.mark.parametrize("call", [score, moments, histogram])
def test_nothing_in_an_exceptions_chain_quotes_a_label(tmp_path, call):
    x = np.full((4, 2), 0.5)
    for labels in (["no", "SECRET", "no", "yes"], [0, 1, None, 1], [0, 1, np.nan, 1], [0, 87654321, 0, 1]):
        with pytest.raises(InputError) as caught:
            call(x, labels, num_classes=2, epsilon=1.0, data_set="d", ids=range(4), ledger=tmp_path / "l")
        error = caught.value
        while error is not None:
            said = "".join(traceback.format_exception_only(error))
            assert "SECRET" not in said
            assert "87654321" not in said
            error = error.__cause__ or error.__context__
    assert not (tmp_path / "l").exists() or not Ledger(tmp_path / "l").book().releases


def test_libraries_are_not_heard(tmp_path, monkeypatch, recwarn):
    """Whether NumPy warns, and how often, may tell of labels."""
    for kind in (GeometricNoise, GaussianCountNoise, MomentNoise):
        drawn = kind.sample

        def sample(*arguments, drawn=drawn):
            warnings.warn("of labels", stacklevel=1)
            return drawn(*arguments)

        monkeypatch.setattr(kind, "sample", sample)
    x, y = np.random.default_rng(0).random((60, 1)), np.arange(60) % 2
    common = {"num_classes": 2, "ids": np.arange(60), "epsilon": 1.0}
    score(x, y, data_set="d", ledger=tmp_path / "a", **common)
    score(x, y, data_set="d", ledger=tmp_path / "b", delta=1e-5, **common)
    moments(x, y, data_set="d", ledger=tmp_path / "c", **common)
    histogram(x, y, data_set="d", ledger=tmp_path / "h", **common)
    assert not recwarn.list


class Counting:
    """Seeded, and counts what is drawn."""

    secure = True

    def __init__(self, seed):
        self.inner, self.drawn = SeededEntropy(seed), []

    def bytes(self, count):
        self.drawn.append(count)
        return self.inner.bytes(count)


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_how_much_is_drawn_depends_on_noise_alone(tmp_path, delta):
    """How long it takes, and what a broken generator would tell, do not follow the labels."""
    x, drawn = np.random.default_rng(0).random((200, 1)), []
    for number, y in enumerate((np.zeros(200, int), np.ones(200, int), np.arange(200) % 2)):
        entropy = Counting(5)
        common = {"num_classes": 2, "ids": np.arange(200), "data_set": "d", "entropy": entropy}
        score(x, y, ledger=tmp_path / f"s{number}", epsilon=0.1, delta=delta, **common)
        moments(x, y, ledger=tmp_path / f"m{number}", epsilon=0.1, **common)
        histogram(x, y, ledger=tmp_path / f"h{number}", epsilon=0.1, **common)
        drawn.append(entropy.drawn)
    assert drawn[0] == drawn[1] == drawn[2]


def test_seeded_noise_protects_nobody_for_good(tmp_path):
    x, y, ids = np.random.default_rng(0).random((60, 1)), np.arange(60) % 2, np.arange(60)
    common = {"num_classes": 2, "ids": ids, "epsilon": 1.0, "data_set": "d"}
    for call, more in ((score, {}), (score, {"delta": 1e-5}), (moments, {}), (histogram, {})):
        ledger = Ledger(tmp_path / f"{call.__name__}{len(more)}")
        made = call(x, y, ledger=ledger, entropy=SeededEntropy(1), **common, **more)
        assert made.insecure == made.header["insecure"] == "the noise comes from a known seed"
        assert made.guarantee is None
        assert made.certificate() == {"epsilon": None, "delta": None, "reason": made.insecure}
        assert made.header["certificate"] == made.certificate()
        assert made.header["budget"]["publishable"] is None
        secure = call(x, y, ledger=ledger, again="charge", **common, **more)
        assert "unprotected since" in secure.insecure
        assert secure.header["budget"]["publishable"] is None  # of the data set nothing is promised any more
        assert ledger.book().data_sets["d"].publishable() is None


def test_protected_rows_are_not_counted_with_seeded_noise(tmp_path):
    x, y, ids = np.random.default_rng(0).random((60, 1)), np.arange(60) % 2, np.arange(60)
    common = {"num_classes": 2, "ids": ids, "epsilon": 1.0, "data_set": "d", "ledger": tmp_path / "l"}
    score(x, y, **common)
    with pytest.raises(labeldp.RefusedError):
        score(x, y, entropy=SeededEntropy(1), again="charge", **common)
    for call in (moments, histogram):
        with pytest.raises(LabelDPError):
            call(x, y, entropy=SeededEntropy(1), again="charge", **common)
    assert len(Ledger(tmp_path / "l").book().releases) == 1


@pytest.mark.parametrize("models", [2, 127, 1000])
def test_a_choice_draws_one_word_whatever_the_totals(models):
    """Totals are private: neither how many bytes are drawn nor how often may follow them."""
    choice = ModelChoice("accuracy", models, 1, 1 << 60)
    for totals in ([0] * models, [0] * (models - 1) + [10**6], list(range(models))):
        entropy = Counting(1)
        choice.draw(totals, entropy)
        assert entropy.drawn == [40]
