"""The kinds of files that cross between parties, and who reads each of them."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from labeldp.accounting.cost import Cost
from labeldp.files.run import RunFolder
from labeldp.release.joint import join_releases
from labeldp.release.release import Release
from labeldp.report.page import Report
from labeldp.report.view import View
from labeldp.statistics.histogram_file import HistogramPlan
from labeldp.statistics.reading import load_statistic
from labeldp.statistics.score_file import Score, ScorePlan
from labeldp.statistics.statistic import StatisticFile

from .fields import Field, json_file, npy_file, npz_file, parquet_file, safetensors_file, sealed_file
from .order import Claim, Claims
from .world import FEATURES, OWN, said
from .world import run as command

Reader = Callable[[], Claims]  # in the directory of all files


@dataclass(frozen=True)
class Kind:
    """`word`: the fields that readers take on the file's word, and say so; of others no statement depends on the account alone."""

    name: str
    fields: Callable[[Path], Iterator[Field]]
    readers: dict[str, Reader]
    word: tuple[str, ...] | None = None

    def on_its_word(self, field: Field) -> bool:
        return self.word is None or field.name.startswith(self.word)


def certificate_claims(said: dict[str, Any] | None, account: bool) -> Claims:
    """Of a certificate as every JSON has it."""
    if not isinstance(said, dict):
        return {}
    account = account or "given" in said
    return {
        "epsilon": Claim("most", said.get("epsilon"), account),
        "delta": Claim("most", said.get("delta"), account),
        "given": Claim("warning", "given" in said, account),
    }


# ── releases ──


def inspected(file: str) -> Reader:
    def read() -> Claims:
        found = said("inspect", file)
        account = "given" in found  # "no file can show it"
        return {
            **certificate_claims(found["certificate"], account),
            "insecure": Claim("warning", found["insecure"] is not None, account),
            "trust": Claim("trust", Release.load(file).mechanism.trust, account),
            "promise": Claim("text", json.dumps(found["budget"]), account),
        }

    return read


def verified(file: str, ledger: str = "owner.ledger") -> Reader:
    return lambda: {"verified": Claim("text", said("ledger", "verify", file, "--ledger", ledger)["ok"])}


def shown(file: str) -> Reader:
    """What people read: it says what `--json` says, and must not fail where that does not."""

    def read() -> Claims:
        text = command("inspect", file)
        assert text.isascii() or all(one.isprintable() for one in text.splitlines())
        return {"insecure": Claim("warning", "INSECURE" in text, "no file can show" in text)}

    return read


# ── statistics ──


def stated(file: str) -> Reader:
    """The certificate is what the noise implies that intervals are computed with; all of it by the owner's word that it ran."""

    def read() -> Claims:
        found = said("inspect", file)
        account = "given" in found
        loaded = load_statistic(Path(file))
        _check_noise(loaded)
        claims = {
            **certificate_claims(found["certificate"], account),
            "insecure": Claim("warning", found["insecure"] is not None, account),
            "trust": Claim("trust", found["trust"], account),
            "promise": Claim("text", json.dumps(found["budget"]), account),
            "rows": Claim("text", found["rows"], account),
            "chosen": Claim("text", found.get("chosen"), account),
        }
        for model, said_of in found.get("models", {}).items():
            for name, metric in said_of["metrics"].items():
                claims[f"{model} {name}"] = Claim("within", metric["interval_95"], account)
        if isinstance(loaded, Score):
            for model in loaded.models:
                json.dumps(loaded.curves(model, positive=1).to_json(), allow_nan=False)
        return claims

    return read


def _check_noise(file: StatisticFile) -> None:
    """A certificate smaller than the noise's variance allows would come from another number than the intervals do."""
    paid, plan = file.statistic.guarantee(), file.statistic
    if isinstance(plan, (ScorePlan, HistogramPlan)) and not paid.delta:
        v = plan.noise.variance  # 2q/(1 − q)², of which q is one root
        stay = 1 + (1 - math.sqrt(1 + 2 * v)) / v
        assert paid.epsilon >= plan.moved * -math.log(stay) * (1 - 1e-6)
    elif paid.delta:
        moved = (
            plan.moved if isinstance(plan, ScorePlan) else plan.noise.radius**2 * (1 if plan.num_classes == 2 else 2)
        )
        least = Cost.of_gaussian(Decimal(moved) / Decimal(plan.noise.variance) * Decimal("0.99"), 0.0, 0.0)
        assert paid.epsilon >= least.epsilon(paid.delta) * 0.99


def fitted(file: str) -> Reader:
    """A model of moments, or of a histogram, and what its run says of them."""

    def read() -> Claims:
        shutil.rmtree("fit", ignore_errors=True)
        found = said("train", "--moments", file, *FEATURES.split(), "--out", "fit")
        command("predict", "fit", *FEATURES.split(), "--out", "fit/p.parquet")
        # The file's own word, as `inspect` says of it.
        return {
            **certificate_claims(found["certificate"], True),
            "insecure": Claim("warning", found["insecure"] is not None, True),
            "trust": Claim("trust", found["trust"], True),
        }

    return read


def joined(*files: str) -> Reader:
    def read() -> Claims:
        whole = join_releases([Release.load(file) for file in files])
        return {
            **certificate_claims(whole.certificate(), True),
            "insecure": Claim("warning", whole.insecure is not None, True),
        }

    return read


# ── audits ──


def audited(*arguments: str, account: bool = False) -> Reader:
    """The bound, what it stands beside, whether only the owner may see it."""

    def read() -> Claims:
        shutil.rmtree("kept", ignore_errors=True)
        found = said("audit", *arguments, "--out", "kept")
        kept = json.loads(Path("kept/audit.json").read_text(encoding="utf-8"))
        reference = account or any("as its file says" in warning for warning in found["warnings"])
        return {
            "low": Claim("least", found["epsilon_low"], account),
            "confidence": Claim("least", found["confidence"]),
            "certificate": Claim("most", found["certificate"], account or found["given"] is not None),
            "assumption": Claim("warning", not found["assumption"].startswith("none")),
            "owner only": Claim("warning", kept["owner_only"] is not None, reference),
        }

    return read


# ── runs ──


def reported(*folders: str, html: bool = False) -> Reader:
    """Each run by its name: alone, and then as it stands beside the others."""

    def read() -> Claims:
        alone = [claim for folder in folders for claim in reported(folder)().items()] if len(folders) > 1 else []
        report, claims = Report.of([Path(folder) for folder in folders]), dict(alone)
        for run, found in zip(report.runs, report.to_json()["runs"], strict=True):
            ledger = None if run.ledger is None else json.dumps(run.ledger["data_sets"])
            cap = View.of(run, 1).cap
            promise = Claim("text", cap and cap.text, account=cap is not None and "promised" in cap.when)
            more = {"ledger": Claim("text", ledger), "promise": promise}
            claims |= {f"{run.name}: {name}": claim for name, claim in (run_claims(found) | more).items()}
        json.dumps(report.to_json(), allow_nan=False)
        if html:
            assert "by its own account" in report.html() or not any(
                run.measured or run.accuracies or run.metrics or run.curves for run in report.runs
            )
        return claims

    return read


def run_claims(found: dict[str, Any]) -> Claims:
    unchecked = not found["checked"]
    claims = {
        **certificate_claims(found["certificate"], unchecked),
        "checked": Claim("least", int(found["checked"])),
        "insecure": Claim("warning", found["insecure"] is not None, unchecked),
        "trust": Claim("trust", found["trust"], unchecked),
        "data set": Claim("text", found["data_set"], unchecked),
        "may be signed": Claim("least", ("stop", "look", "fine").index(found["sign_off"]["state"])),
        "lines done": Claim("least", _done(found["checklist"])),
    }
    for accuracy in found["accuracies"]:
        claims[f"accuracy {accuracy['how']}"] = Claim("within", accuracy["interval_95"], "given" in accuracy)
        claims[f"right {accuracy['how']}"] = Claim("least", accuracy["value"], "given" in accuracy)
    for name, metric in found["metrics"].items():
        claims[f"metric {name}"] = Claim("within", metric["interval_95"], "given" in metric)
        claims[f"value {name}"] = Claim("text", metric["value"], "given" in metric)
        claims[f"rows {name}"] = Claim("least", metric["rows"], "given" in metric)
    for number, one in enumerate(found["measured"]):
        claims[f"measured {number}"] = Claim("least", one["epsilon_low"], "given" in one)
    if found["headline"] is not None:
        headline = found["headline"]
        claims["headline"] = Claim("least", headline["epsilon_low"], "given" in headline)
        claims["confidence"] = Claim("least", headline["confidence"])
        claims["assuming"] = Claim("warning", not headline["assumption"].startswith("none"), "given" in headline)
    return claims


def _done(lines: list[dict[str, Any]]) -> int:
    """Of those that do not say by whose account they are done."""
    by_account = "by the audit’s own account", "by its own account", "as the files say", "as the release says"
    return sum(line["status"] == "done" and not any(words in line["why"] for words in by_account) for line in lines)


def predicted(folder: str) -> Reader:
    def read() -> Claims:
        found = RunFolder(Path(folder)).promise()
        account = "given" in found
        insecure = Claim("warning", found["insecure"] is not None, account)
        return {**certificate_claims(found["certificate"], account), "insecure": insecure}

    return read


def evaluated(folder: str, release: str) -> Reader:
    def read() -> Claims:
        found = said("evaluate", folder, "--release", release, *FEATURES.split())
        return {
            "accuracy": Claim("within", found["interval_95"], "given" in found),
            "right": Claim("least", found["accuracy_estimated"], "given" in found),
            "insecure": Claim("warning", found["insecure"] is not None),
        }

    return read


def trained_again() -> Claims:
    """The same command in a finished directory."""
    found = said("train", "--release", "first.parquet", *FEATURES.split(), "--epochs", "2", "--out", "run")
    return {
        **certificate_claims(found["certificate"], False),
        "insecure": Claim("warning", found["insecure"] is not None),
        "trust": Claim("trust", found["trust"]),
        "accuracy": Claim("within", found.get("interval_95"), "given" in found),
    }


# ── priors ──


def released_with(prior: str) -> Reader:
    """What the owner's certificate becomes with this prior."""

    def read() -> Claims:
        shutil.rmtree("again", ignore_errors=True)
        Path("again").mkdir()
        shutil.copy("before.ledger", "again/owner.ledger")
        shutil.copytree("before.ledger.releases", "again/owner.ledger.releases")
        own = OWN.replace("owner.ledger", "again/owner.ledger").split()
        found = said(
            "release",
            "p.parquet",
            *own,
            "--rows",
            "2/2",
            "--public-prior",
            prior,
            "--epsilon",
            "2",
            "--out",
            "again/r.parquet",
        )
        return certificate_claims(found["certificate"], False)

    return read


def _files(*each: Callable[[Path], Iterator[Field]]) -> Callable[[Path], Iterator[Field]]:
    return lambda place: (field for one in each for field in one(place))


def _folder(folder: str) -> Callable[[Path], Iterator[Field]]:
    """Every file of a run directory, by its ending."""

    def fields(place: Path) -> Iterator[Field]:
        for path in sorted((place / folder).rglob("*")):
            file = str(path.relative_to(place))
            if "/owner/" in file or ".releases/" in file:
                continue
            if path.suffix in (".json", ".jsonl"):
                yield from json_file(place, file)
            elif path.suffix == ".npz":
                yield from npz_file(place, file)
            elif path.suffix == ".npy":
                yield from npy_file(place, file)
            elif path.suffix == ".safetensors":
                yield from safetensors_file(place, file)
            elif path.suffix == ".parquet":
                yield from parquet_file(place, file, b"labeldp")

    return fields


def _parquet(file: str) -> Callable[[Path], Iterator[Field]]:
    return lambda place: parquet_file(place, file, b"labeldp")


def _sealed(file: str) -> Callable[[Path], Iterator[Field]]:
    return lambda place: sealed_file(place, file)


_STATED = ("statistic", "array", "insecure", "budget", "rows", "(", "label_names")
_WORD = ("mechanism", "public_prior", "insecure", "budget", "column", "(", "ids")
AUDIT = ("scores.parquet", "--canaries", "canaries.npz", "--release", "first.parquet")

KINDS = (
    Kind(
        "release",
        _parquet("first.parquet"),
        {
            "inspect": inspected("first.parquet"),
            "ledger verify": verified("first.parquet"),
            "join": joined("first.parquet", "second.parquet"),
            "report": reported("run"),
        },
        _WORD,
    ),
    Kind(
        "release, with a prior",
        _parquet("second.parquet"),
        {"inspect": inspected("second.parquet"), "ledger verify": verified("second.parquet")},
        _WORD,
    ),
    Kind("release, insecure", _parquet("weak.parquet"), {"inspect": inspected("weak.parquet")}, _WORD),
    Kind(
        "score",
        _sealed("score.parquet"),
        {
            "inspect": stated("score.parquet"),
            "shown": shown("score.parquet"),
            "ledger verify": verified("score.parquet", "stated.ledger"),
        },
        _STATED,
    ),
    Kind(
        "score, insecure",
        _sealed("weak_score.parquet"),
        {"inspect": stated("weak_score.parquet"), "shown": shown("weak_score.parquet")},
        _STATED,
    ),
    Kind(
        "choice",
        _sealed("choice.parquet"),
        {
            "inspect": stated("choice.parquet"),
            "shown": shown("choice.parquet"),
            "ledger verify": verified("choice.parquet", "stated.ledger"),
        },
        _STATED,
    ),
    Kind(
        "moments",
        _sealed("moments.parquet"),
        {
            "inspect": stated("moments.parquet"),
            "shown": shown("moments.parquet"),
            "ledger verify": verified("moments.parquet", "stated.ledger"),
            "train": fitted("moments.parquet"),
        },
        _STATED,
    ),
    Kind(
        "histogram",
        _sealed("histogram.parquet"),
        {
            "inspect": stated("histogram.parquet"),
            "shown": shown("histogram.parquet"),
            "ledger verify": verified("histogram.parquet", "stated.ledger"),
            "train": fitted("histogram.parquet"),
        },
        _STATED,
    ),
    Kind("public prior", _parquet("scores.parquet"), {"release": released_with("scores.parquet")}),
    Kind("scores", _parquet("scores.parquet"), {"audit": audited(*AUDIT)}),
    Kind(
        "scores of another model",
        _parquet("other.parquet"),
        {"audit": audited("other.parquet", *AUDIT[1:]), "reference": audited(*AUDIT, "--reference", "other.parquet")},
    ),
    Kind("canaries", lambda place: npz_file(place, "canaries.npz"), {"audit": audited(*AUDIT, account=True)}),
    Kind("kept audit", _folder("audit"), {"report": reported("audit"), "with its run": reported("run", "audit")}),
    Kind(
        "run",
        _folder("run"),
        {
            "report": reported("run"),
            "predict": predicted("run"),
            "evaluate": evaluated("run", "third.parquet"),
            "train again": trained_again,
        },
    ),
    Kind("run of moments", _folder("summed"), {"report": reported("summed"), "predict": predicted("summed")}),
    Kind("run of a histogram", _folder("counted"), {"report": reported("counted"), "predict": predicted("counted")}),
    Kind("run with curves", _folder("ranked"), {"report": reported("ranked", html=True)}),
    Kind("run with canaries", _folder("own"), {"report": reported("own"), "audit": audited("own", account=True)}),
    Kind("insecure run", _folder("seeded"), {"report": reported("seeded"), "predict": predicted("seeded")}),
    Kind("selected run", _folder("chosen"), {"report": reported("chosen")}),
    Kind("PATE run", _folder("pate"), {"report": reported("pate")}),
)
