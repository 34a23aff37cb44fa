"""Choosing a recipe within a budget of FLOP, by the likelihood of released labels that were held out. It costs no privacy: all of it
looks at what was released.

Successive halving (Jamieson & Talwalkar 2016). Every candidate is trained for an equal, small number of FLOP; the better half goes on
to twice as many, afresh; and so on until one is left. With n₁, n₂, … candidates in the rungs, a candidate of the first has

    share · budget / Σ_r n_r·2^(r−1)

and whole epochs only, so that no more than the `share` is spent. The winner is trained afresh with all that remains, as any run is.
Where a tenth of the budget is enough for it, an encoder is learned first, from images alone, for candidates that start with it; what it
takes is taken from the budget.

Half of the rows held out choose, the same for all candidates; none of them is trained on, and the other half reports (`Job.split`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.proper import compare, log_likelihoods
from labeldp.files.run import RunFolder, write_json
from labeldp.files.summary import StatedSearch, StatedTrial
from labeldp.runs.job import Job
from labeldp.runs.run import Progress, PublicTest, open_run, train

if TYPE_CHECKING:
    from labeldp.runs.pretrained import Pretrained

Likelihoods = npt.NDArray[np.float64]  # of each row that chooses
Try = Callable[
    [Job, Path], tuple[Likelihoods, float]
]  # train in a directory, or find it trained there; and what it took

SHARE = 0.3  # of the budget, for the search
ENCODER_SHARE = 0.1  # of the budget, for an encoder to start with
_ENCODER_EPOCHS = 3  # at least: one that learned for less is hardly a better start than a random one
_CLEARLY = 2.0  # standard errors, paired: from here on a longer trial counts as worse than a shorter one


@dataclass(frozen=True)
class SearchCandidate:
    """A recipe to try: a model, and what is changed of its usual recipe."""

    name: str
    model: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    started: bool = False  # from an encoder


_STRONG = {"randaugment": 1, "cutout": 8, "shift": 3, "average": 0.99}
_WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strong views": _STRONG,
    "mixup": {"mixup": 0.5},
    "strong views and consistency": {**_STRONG, "consistency": 0.5, "strong_from": 0.5},
}
_STARTED = ("plain", "strong views and consistency")  # the ways that are tried from an encoder, too
WIDTHS = ("fast", "fast-medium", "fast-wide")
CHANGED = tuple(sorted({name for changes in _WAYS.values() for name in changes}))


def candidates_of(models: tuple[str, ...] = WIDTHS) -> tuple[SearchCandidate, ...]:
    """The public list: every way with every one of these models."""
    return tuple(
        SearchCandidate(f"{model}, {words}", model, changes) for model in models for words, changes in _WAYS.items()
    )


def started_candidates(model: str) -> tuple[SearchCandidate, ...]:
    """Those that start with an encoder of this kind."""
    return tuple(
        SearchCandidate(f"{model}, from an encoder, {words}", model, _WAYS[words], started=True) for words in _STARTED
    )


@dataclass(frozen=True)
class Entrant:
    """A candidate with the training that it means, and what an epoch of that takes."""

    name: str
    job: Job
    epoch_flop: int  # at most
    started: bool = False  # from the plan's encoder

    def epochs(self, flop: float) -> int:
        """How many whole ones so many FLOP allow."""
        return int(flop // self.epoch_flop)

    def training(self, epochs: int, **changes: Any) -> Job:
        """Of so many epochs."""
        recipe: Any = self.job.recipe
        return replace(self.job, recipe=replace(recipe, epochs=epochs), **changes)

    def trial(self, epochs: int) -> Job:
        """To compare with others."""
        return self.training(epochs, select="search", patience=None, trial=True)

    def own(self, epochs: int, *, chosen: bool) -> Job:
        """The training that is kept. If it was `chosen`, then by rows that report nothing; they choose its epoch, too."""
        return self.training(epochs, select="best" if chosen and self.job.select == "last" else self.job.select)


def _flop_an_epoch(job: Job) -> int:
    from labeldp.runs.networks import flop_an_epoch

    return flop_an_epoch(job)


def _encoder_flop_an_epoch(job: Job) -> int:
    from labeldp.features.contrastive import flop_an_epoch

    return flop_an_epoch(job.features, job.model)


@dataclass(frozen=True)
class PlannedEncoder:
    """A network that is to learn from images alone."""

    model: str
    epochs: int
    flop: float  # at most


@dataclass(frozen=True)
class SearchPlan:
    """Who enters, and what each may spend."""

    budget: float
    entrants: tuple[Entrant, ...]  # the cheapest first
    left_out: tuple[str, ...] = ()
    encoder: PlannedEncoder | None = None

    @classmethod
    def alone(cls, job: Job, budget: float, flop: Callable[[Job], int] = _flop_an_epoch) -> SearchPlan:
        """No search: one recipe, which has the whole budget."""
        check_budget(job, budget)
        entrant = Entrant(job.model, job, flop(job))
        if not entrant.epochs(budget):
            raise InputError(
                f"`flop={budget:g}` is less than one epoch of {job.model} on these rows, which takes {entrant.epoch_flop:.3g}."
            )
        return cls(budget, (entrant,))

    @classmethod
    def of(
        cls, job: Job, budget: float, given: frozenset[str] = frozenset(), flop: Callable[[Job], int] = _flop_an_epoch,
        encoder_flop: Callable[[Job], int] = _encoder_flop_an_epoch,
    ) -> SearchPlan:  # fmt: skip
        """Every candidate that the budget gives an epoch. What was `given` (of the model and of its recipe) is meant, and stays."""
        alone = cls.alone(job, budget, flop)
        _check_judge(job)
        replace(job, select="search").split()  # enough rows to choose by
        entrants = sorted(_entrants(job, given, flop), key=lambda one: one.epoch_flop)  # equally cheap: as in the list
        plan = cls(budget, tuple(entrants))
        encoder = _planned_encoder(job, budget, given, encoder_flop)
        if encoder is not None:
            plan = plan._starting(encoder, sorted(_started(job, given, flop), key=lambda one: one.epoch_flop))
        while len(plan.entrants) > 1 and not plan.entrants[-1].epochs(plan.allowance(1)):
            plan = plan._without_the_dearest()
        if len(plan.entrants) == 1:
            return replace(plan, entrants=(replace(alone.entrants[0], name=plan.entrants[0].name),))
        return plan

    def _starting(self, encoder: PlannedEncoder, started: list[Entrant]) -> SearchPlan:
        """With these beside the others, if there is budget for an encoder."""
        if encoder.epochs < _ENCODER_EPOCHS:
            return replace(self, left_out=tuple(one.name for one in started))
        entrants = sorted((*self.entrants, *started), key=lambda one: one.epoch_flop)
        return replace(self, entrants=tuple(entrants), encoder=encoder)

    def _without_the_dearest(self) -> SearchPlan:
        *entrants, dearest = self.entrants
        encoder = self.encoder if any(one.started for one in entrants) else None
        return replace(self, entrants=tuple(entrants), left_out=(dearest.name, *self.left_out), encoder=encoder)

    @property
    def rest(self) -> float:
        """What an encoder leaves of the budget."""
        return self.budget - (0.0 if self.encoder is None else self.encoder.flop)

    def allowance(self, rung: int) -> float:
        """FLOP of a trial; rungs are counted from 1."""
        return _first_allowance(self.rest, len(self.entrants)) * 2.0 ** (rung - 1)

    def begun(self, start: Pretrained) -> SearchPlan:
        """With the encoder that was learned."""
        entrants = (replace(one, job=replace(one.job, start=start)) if one.started else one for one in self.entrants)
        return replace(self, entrants=tuple(entrants))

    def entrant(self, name: str) -> Entrant | None:
        """By its name."""
        return next((one for one in self.entrants if one.name == name), None)


def check_budget(job: Job, budget: float) -> None:
    """What a budget of FLOP is for."""
    if not 0 < budget < math.inf:
        raise InputError(
            f"`flop` is a positive number of operations; got {budget:g}. 1e14 are some ten minutes of a core."
        )
    if job.features.ndim != 4:
        raise InputError(
            "`flop` is a budget for networks on images, and these features are a table: leave it out. `model='lightgbm'` and "
            "`model='linear'` choose their strength themselves; of an mlp, say `epochs`."
        )
    if not job.by_steps:
        raise InputError(
            f"`flop` is a budget for models that are trained by gradient steps, and {job.model} has none: leave it out, or name "
            "another `model` (fast, for images of at least 17 × 17 pixels)."
        )


def _check_judge(job: Job) -> None:
    if not job.holdout or job.judge() is None or job.release.mechanism.trust != "local":
        why = "no row is held out" if not job.holdout else "this release cannot judge"
        raise InputError(
            f"a recipe is chosen by released labels that were held out, and {why}: `no_search` trains one recipe within `flop`."
        )


def _planned_encoder(
    job: Job, budget: float, given: frozenset[str], flop: Callable[[Job], int]
) -> PlannedEncoder | None:
    """None where no network of the kind can learn from such images, or a start is given."""
    if job.start is not None or "start" in given or job.model not in WIDTHS or job.features.dtype != np.uint8:
        return None
    try:
        epoch = flop(job)
    except InputError:  # too small
        return None
    epochs = int(ENCODER_SHARE * budget // epoch)
    return PlannedEncoder(job.model, epochs, epochs * epoch)


def _started(job: Job, given: frozenset[str], flop: Callable[[Job], int]) -> Iterator[Entrant]:
    return _entered(job, started_candidates(job.model), given, flop)


def _entrants(job: Job, given: frozenset[str], flop: Callable[[Job], int]) -> Iterator[Entrant]:
    models = WIDTHS if "model" not in given and job.start is None and job.model in WIDTHS else (job.model,)
    return _entered(job, candidates_of(models), given, flop)


def _entered(
    job: Job, candidates: tuple[SearchCandidate, ...], given: frozenset[str], flop: Callable[[Job], int]
) -> Iterator[Entrant]:
    """The trainings that they mean: each once, and none that cannot be."""
    usual: Any = job.recipe
    seen: list[tuple[str, Any]] = []
    for candidate in candidates:
        changes = {name: value for name, value in candidate.changes.items() if name not in given}
        try:
            recipe = replace(usual, **changes)
        except InputError:  # what was given does not go with this change
            continue
        distorts = "randaugment" in changes and job.features.dtype != np.uint8  # made for bytes
        if distorts or (candidate.model, recipe) in seen:
            continue
        seen.append((candidate.model, recipe))
        made = replace(job, model=candidate.model, recipe=recipe)
        yield Entrant(candidate.name, made, flop(made), candidate.started)


def _first_allowance(budget: float, entrants: int) -> float:
    """FLOP of a trial in the first rung."""
    parts, count, rung = 0, entrants, 1
    while count > 1:
        parts += count * 2 ** (rung - 1)
        count, rung = count // 2, rung + 1
    return SHARE * budget / max(parts, 1)


# ----------------------------------------------------------------
# Trials.


@dataclass(frozen=True)
class _Tried:
    entrant: Entrant
    rung: int
    epochs: int
    likelihoods: Likelihoods
    flop: float

    def stated(self, best: _Tried, kept: bool) -> StatedTrial:
        behind, error = (0.0, 0.0) if self is best else compare(best.likelihoods, self.likelihoods)
        return StatedTrial(
            name=self.entrant.name, model=self.entrant.job.model, rung=self.rung, epochs=self.epochs, flop=self.flop,
            log_likelihood=float(self.likelihoods.mean()),
            standard_error=float(self.likelihoods.std(ddof=1) / math.sqrt(len(self.likelihoods))),
            behind=max(0.0, behind), behind_error=error, kept=kept,  # of equals, rounding may make it negative
        )  # fmt: skip


def search(
    plan: SearchPlan,
    run: RunFolder,
    attempt: Try,
    begin: Callable[[int], None] = lambda epochs: None,
    tell: Callable[[str], None] = lambda text: None,
    encoder_flop: float = 0.0,
) -> StatedSearch:
    """Try, halve, try for longer; who is left. Trials that are found finished in the run directory are not repeated."""
    if plan.left_out:
        tell(f"not tried, for want of budget: {'; '.join(plan.left_out)}")
    left, stated, tried = plan.entrants, list[StatedTrial](), list[_Tried]()
    rung = 0
    while len(left) > 1:
        rung += 1
        found = []
        for number, entrant in enumerate(left, start=1):
            epochs = entrant.epochs(plan.allowance(rung))
            tell(f"rung {rung}, {number} of {len(left)}: {entrant.name}, {epochs:,} epoch{'s' if epochs > 1 else ''}")
            begin(epochs)
            found.append(_Tried(entrant, rung, epochs, *attempt(entrant.trial(epochs), run.trial(rung, number).path)))
        order = sorted(found, key=lambda one: -float(one.likelihoods.mean()))  # as likely: the cheaper one first
        kept = order[: len(left) // 2]
        stated += [one.stated(order[0], one in kept) for one in found]
        for one in stated[-len(found) :]:
            tell(trial_text(one))
        tried += found
        left = tuple(one.entrant for one in found if one in kept)
    winner = left[0]
    epochs, shortened = _length(winner, plan.rest, tried)
    return StatedSearch(
        plan.budget, len(tried[0].likelihoods) if tried else 0, tuple(stated), winner.name, epochs, plan.left_out, shortened, encoder_flop
    )  # fmt: skip


def _length(winner: Entrant, budget: float, tried: list[_Tried]) -> tuple[int, bool]:
    """As many epochs as the rest of the budget allows; but if a longer trial was clearly worse than a shorter one, the noise is being
    learned, and the better of these lengths is enough."""
    most = winner.epochs(budget - sum(one.flop for one in tried))
    own = [one for one in tried if one.entrant is winner]
    best = max(own, key=lambda one: float(one.likelihoods.mean()), default=None)
    if best is None or best is own[-1]:
        return most, False
    gain, error = compare(best.likelihoods, own[-1].likelihoods)
    return (best.epochs, True) if gain > _CLEARLY * error else (most, False)


def trial_text(one: StatedTrial) -> str:
    """For people."""
    behind = f", {one.behind:.4f} ± {one.behind_error:.4f} behind" if one.behind else ""
    kept = "kept" if one.kept else "dropped"
    return f"{one.name}: log-likelihood {one.log_likelihood:.4f} ± {one.standard_error:.4f}{behind}: {kept}"


# ----------------------------------------------------------------
# Within a run directory.


def train_within(
    plan: SearchPlan,
    folder: Path,
    *,
    public_test: PublicTest | None = None,
    progress: Progress = lambda metrics: None,
    on_trial: Progress = lambda metrics: None,
    on_step: Callable[[int, int], None] = lambda step, of: None,
    begin: Callable[[int], None] = lambda epochs: None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Search (in folder/search), then train the winner in `folder`, as any run; asked again, it goes on where it was."""
    run = RunFolder(folder)

    def attempt(job: Job, place: Path) -> tuple[Likelihoods, float]:
        trial = train(job, place, progress=on_trial, on_step=on_step)
        return _likelihoods(job, place), trial["train_flop"]

    found = run.read_search()
    if found is None:
        if run.config.exists():
            raise InputError(f"{folder} holds a run whose recipe was not searched for; choose another `out`.")
        plan, spent = _learned(plan, run, begin, tell)
        found = search(plan, run, attempt, begin, tell, spent)
        run.make()
        write_json(run.searched, found.to_json())
    winner = plan.entrant(found.winner)
    entered = {one.name for one in found.trials} or {found.winner}
    if winner is None or (found.budget, entered) != (plan.budget, {one.name for one in plan.entrants}):
        raise InputError(f"{folder} holds a search with another budget, or among others; choose another `out`.")
    if winner.started and winner.job.start is None:  # it was found, not made
        plan, _ = _learned(plan, run, begin, tell)
        winner = plan.entrant(found.winner) or winner
    begin(found.epochs)
    job = winner.own(found.epochs, chosen=bool(found.trials))
    summary = train(job, folder, public_test=public_test, progress=progress, on_step=on_step)
    if "search" not in summary:
        found = _looked_back(found, job, run)
        summary |= {"search_flop": found.flop, "search": found.to_json()}
        run.write_summary("training", summary)
    return summary


def _likelihoods(job: Job, place: Path) -> Likelihoods:
    """Of the rows that choose, by the model that was trained there."""
    rows = job.split().select
    predicted, _ = open_run(place, job.machine, job.model)
    return log_likelihoods(job.release.evidence(rows), predicted(job.features[rows]))


def _looked_back(found: StatedSearch, job: Job, run: RunFolder) -> StatedSearch:
    """With what the rows that choose say of the winner's own training. Trials are short: that a long one learns the noise shows here."""
    if not found.trials:
        return found
    own = _likelihoods(job, run.path)
    best = max(found.trials, key=lambda one: one.log_likelihood)
    number = 1 + [one for one in found.trials if one.rung == best.rung].index(best)
    place = run.trial(best.rung, number)
    better = None
    if place.summary.exists():  # trials may have been deleted
        gain, error = compare(_likelihoods(job, place.path), own)
        better = f"{best.name}, {best.epochs:,} epochs" if gain > _CLEARLY * error else None
    error = float(own.std(ddof=1) / math.sqrt(len(own)))
    return replace(found, log_likelihood=float(own.mean()), standard_error=error, better=better)


def _learned(
    plan: SearchPlan, run: RunFolder, begin: Callable[[int], None], tell: Callable[[str], None]
) -> tuple[SearchPlan, float]:
    """With the encoder that the plan has, learned or found learned, and the FLOP that it took."""
    if plan.encoder is None:
        return plan, 0.0
    from labeldp.features.encoder import EncoderRecipe, learned_encoder
    from labeldp.runs.pretrained import Pretrained

    epochs, job = plan.encoder.epochs, plan.entrants[0].job
    tell(f"an encoder learns from images alone: {epochs:,} epochs")
    begin(epochs)
    learned_encoder(
        np.ascontiguousarray(job.features), run.search_encoder.path,
        EncoderRecipe("contrastive", epochs, plan.encoder.model, job.recipe.seed), device=job.machine.device,
        on_epoch=lambda epoch, loss: tell(f"encoder, epoch {epoch}/{epochs}: loss {loss:.4f}"),
    )  # fmt: skip
    start = Pretrained.of(run.search_encoder.path)
    return plan.begun(start), float(start.encoder.flop)
