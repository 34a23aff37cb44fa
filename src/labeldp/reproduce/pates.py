"""table-pate, study-answers and study-threshold: what the number of answers and the threshold do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from labeldp.files.summary import PateSummary, StatedParameters, TablesSummary
from labeldp.reproduce.cells import Cell
from labeldp.reproduce.methods import CLASSES, ENSEMBLES, Ensemble, frozen, pate_fm
from labeldp.reproduce.page import accuracy, certificate, compute, missing_note
from labeldp.reproduce.papers import PATE, TABLE1, Published
from labeldp.reproduce.plan import (
    MISSING,
    PATE_NOTES,
    SCALE_NOTES,
    TEST_ROWS,
    Figure,
    Reproduction,
    Result,
    Results,
    Row,
    Sheet,
    Spread,
    found,
    span,
)
from labeldp.reproduce.tables import keys, pate, stand_in

COLUMNS = (
    "data set", "level", "paper: teachers", "paper: σ1, σ2", "paper: τ", "paper: answered", "paper: ensemble", "paper: student",
    "teachers", "σ1, σ2", "τ", "answered of asked", "ensemble", "student, mean ± std over seeds", "certificate ε", "FLOP", "seconds",
)  # fmt: skip
STUDY = ("τ", "answered of asked", "caps", "certificate ε", "ensemble", "answers", "student, mean ± std over seeds")
OWNERS = (
    "The ensemble's accuracy (on the rows that may be asked about) and that of the answers come from votes and true "
    "labels: an owner's alone, here of public benchmarks. Where canaries are planted, their labels count as the true "
    "ones, which lowers it by up to their share."
)
ANSWERS = (10, 25, 50, 75, 100)  # a class
THRESHOLDS = (10, 25, 50, 75, 90)  # percent of the teachers
_AGREEING = Ensemble(50, 25, 200, 100, 0.8, 6)  # few teachers with many digits each: 90% of them do agree now and then


def table_pate(scale: str, seeds: int) -> Reproduction:
    """The paper's PATE rows: ensemble, answers, student."""
    rows = []
    for key in keys(scale, dict(PATE)):
        cells = tuple(pate(scale, key, seed) for seed in range(seeds))
        paper = Published(PATE[key].student, TABLE1[key]["PATE-FM"].epsilon)
        rows.append(Row(stand_in(scale, key[0]), key[1], "PATE", cells, paper, pate=PATE[key]))
    notes = (OWNERS, SCALE_NOTES[scale], PATE_NOTES[scale])
    return Reproduction("table-pate", scale, "PATE: teachers, answers, students", tuple(rows), _sheets, notes)


def _sheets(plan: Reproduction, results: Results) -> list[Sheet]:
    lines = []
    for row in plan.rows:
        done, printed = found(row.cells, results), row.pate
        assert printed is not None
        lines.append((
            row.title, row.level, f"{printed.teachers:,}", f"{printed.sigma1:g}, {printed.sigma2:g}", f"{printed.threshold:g}",
            f"{printed.answered:,}", f"{printed.ensemble:g}%", f"{printed.student:g}%", *_parameters(done), _answered(done),
            _owners(done, "ensemble_accuracy"), accuracy(done), certificate(done), *compute(done),
        ))  # fmt: skip
    return [Sheet(plan.title, COLUMNS, tuple(lines), headers=2, notes=missing_note(plan.rows, results))]


def _parameters(done: list[Result]) -> tuple[str, str, str]:
    if not done:
        return MISSING, MISSING, MISSING
    said = _stated(done[0])
    return f"{said.teachers:,}", f"{said.sigma1:g}, {said.sigma2:g}", f"{said.threshold:g}"


def _stated(result: Result) -> StatedParameters:
    assert not isinstance(result.summary, TablesSummary)
    return result.summary.mechanism.parameters


def _answered(done: list[Result]) -> str:
    if not done:
        return MISSING
    pates = [result.summary for result in done if isinstance(result.summary, PateSummary)]
    answered, asked = ([float(getattr(one, name)) for one in pates] for name in ("answered", "asked"))
    return f"{span(answered, ',.0f')} of {span(asked, ',.0f')}"


def _owners(done: list[Result], name: str) -> str:
    spread = Spread.of(getattr(result.owner, name) for result in done)
    return MISSING if spread is None else f"{spread.mean:.1%}"


# ── studies ──


def study_answers(scale: str, seeds: int) -> Reproduction:
    """Accuracy and certificate against the number of answers, at one noise."""

    def cell(share: int, seed: int) -> Cell:
        if scale == "paper":
            answered = share * CLASSES["cifar10"]
            return pate_fm(
                "cifar10", "high", None, seed, name=f"answers{share}", max_asked=2 * answered, max_answered=answered
            )
        usual = ENSEMBLES[_data(scale)]
        answered = share * 10
        asked = min(2 * answered, 1400 if scale == "smoke" else 60_000)
        ensemble = replace(usual, asked=asked, answered=answered)
        return _study(scale, ensemble, f"answers{share}", seed, usual.sigmas(2.0))

    notes = (
        "Teachers, noise and threshold are the same in all rows, so the certificate grows with the answers. The paper: "
        "beyond 10 to 25 answers a class its FixMatch students gain little.",
        *_study_notes(scale),
    )
    return _studied("study-answers", "PATE: how many answers?", "answers a class", ANSWERS, cell, scale, seeds, notes)


def study_threshold(scale: str, seeds: int) -> Reproduction:
    """Accuracy against the threshold, at one certificate."""

    def cell(share: int, seed: int) -> Cell:
        if scale == "paper":
            return pate_fm("cifar10", "high", None, seed, name=f"threshold{share}", threshold=2 * share)
        usual = _AGREEING if scale == "smoke" else ENSEMBLES["fashion"]
        ensemble = replace(usual, threshold=usual.teachers * share // 100)
        return _study(scale, ensemble, f"threshold{share}", seed, usual.sigmas(8.0))

    notes = (
        "Caps and noise are the same in all rows, and so is the certificate, which does not depend on the threshold; how "
        "many of the questions are answered does. The paper: keep the threshold between 10% and 75% of the teachers.",
        *_study_notes(scale),
    )
    title = "PATE: how high a threshold?"
    return _studied("study-threshold", title, "τ, % of the teachers", THRESHOLDS, cell, scale, seeds, notes)


def _data(scale: str) -> str:
    return "digits" if scale == "smoke" else "fashion"


def _study(scale: str, ensemble: Ensemble, name: str, seed: int, sigmas: tuple[float, float]) -> Cell:
    dataset = _data(scale)
    return frozen(dataset, ensemble, None, seed, name=f"{dataset}-pate-{name}", sigmas=sigmas)


def _study_notes(scale: str) -> tuple[str, ...]:
    how = "PATE-FM by the preset pate-cifar10-high" if scale == "paper" else "linear teachers on frozen features"
    where = {"smoke": "digits", "cpu": "Fashion-MNIST", "paper": "CIFAR-10"}[scale]
    return f"{where}, {how}; one draw of noise and one student a seed (three students at scale paper).", OWNERS


def _studied(
    name: str, title: str, what: str, values: tuple[int, ...], cell: Callable[[int, int], Cell], scale: str, seeds: int,
    notes: tuple[str, ...],
) -> Reproduction:  # fmt: skip
    dataset = "cifar10" if scale == "paper" else _data(scale)
    rows = tuple(
        Row(dataset, str(value), "PATE", tuple(cell(value, seed) for seed in range(seeds))) for value in values
    )

    def sheets(plan: Reproduction, results: Results) -> list[Sheet]:
        lines = tuple(_line(row, results) for row in plan.rows)
        return [Sheet(title, (what, *STUDY), lines, notes=missing_note(plan.rows, results))]

    def draw(results: Results, file: Path) -> bool:
        from labeldp.reproduce.page import Chart, Line

        def line(title: str, name: str) -> Line:
            points = ((row.level, [getattr(result, name) for result in found(row.cells, results)]) for row in rows)
            return Line(title, tuple((float(level), values) for level, values in points if values))

        certified = line("certificate ε", "epsilon")
        return Chart(what, TEST_ROWS[dataset], (line("student", "accuracy"),), certified).draw(file)

    drawings = (Figure(dataset, f"{title} Test accuracy against {what}", draw),)
    return Reproduction(name, scale, title, rows, sheets, notes, drawings=drawings)


def _line(row: Row, results: Results) -> tuple[str, ...]:
    done = found(row.cells, results)
    if not done:
        return row.level, *(MISSING,) * len(STUDY)
    caps = _stated(done[0])
    return (
        row.level, f"{caps.threshold:g} of {caps.teachers:,}", _answered(done), f"{caps.max_answered:,} of {caps.max_asked:,}",
        certificate(done), _owners(done, "ensemble_accuracy"), _owners(done, "answers_accuracy"), accuracy(done),
    )  # fmt: skip
