"""docs/reference/api.md: every public name with its signature, its docstring and a class's public methods.

Public is what a package lists in its `__all__`, and what the guides call by its full name: `FURTHER`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tools.docs.commands import prose

import labeldp
from labeldp.commands.option import Declared, Options, declarations

PACKAGES = ("commands", "mechanisms", "release", "training", "audit", "estimators", "statistics")
FURTHER = (
    "mechanisms.candidates.most_informative", "mechanisms.candidates.most_likely", "mechanisms.candidates.information",
    "mechanisms.repeats.Repeats",
    "release.prior.PublicPrior", "release.rows.Span", "release.rows.Part", "release.rows.Named", "release.joint.join_releases",
    "evaluation.estimate_metric", "evaluation.estimate_metrics", "evaluation.MetricEstimate", "evaluation.estimate_curves",
    "evaluation.Curves", "evaluation.log_likelihoods", "evaluation.compare",
    "denoise.min_projection", "denoise.min_max", "denoise.softmax", "denoise.argmax",
    "training.loss.SoftLabelLoss", "runs.job.Job", "runs.run.train", "experiments.staged.Staged", "runs.crossfit.cross_fit",
    "runs.run.predict", "runs.run.evaluate", "training.fixmatch.FixMatchTrainer",
    "runs.judging.Judged", "estimators.boosting.dataset", "estimators.boosting.objective", "estimators.boosting.metric",
    "estimators.boosting.predict_proba", "estimators.boosted.fit_boosted", "estimators.boosted.BoostedTrees",
    "estimators.boosted.BoostingRecipe", "estimators.linear.fit_linear_path", "release.scorer.Scorer",
    "selection.drafts.PrivateSelection",
    "models.build", "data.features.read_features", "data.features.join",
    "audit.plant.plant_file",
    "pate.linear.teacher_votes", "pate.teachers.vote", "pate.answers.release_answers", "pate.account.account",
    "report.page.Report", "report.view.acting",
    "reproduce.names.plan", "reproduce.cells.Place", "reproduce.runner.Runner", "reproduce.page.collect",
)  # fmt: skip
SECTIONS = {
    "commands": "Commands",
    "mechanisms": "Mechanisms",
    "accounting": "Cost and ledger",
    "release": "Releases",
    "evaluation": "Metrics without clean labels",
    "statistics": "One noisy statistic",
    "denoise": "Uninformed post-processing",
    "training": "Training",
    "runs": "Run directories",
    "experiments": "Experiments on bundled data",
    "selection": "Private selection",
    "estimators": "LightGBM and scikit-learn",
    "models": "Models",
    "data": "Features",
    "audit": "Audits",
    "pate": "PATE",
    "report": "Reports",
    "reproduce": "The paper's tables",
    "private": "Private labels",
    "entropy": "Entropy",
    "errors": "Errors and warnings",
}
HEAD = """\
# Python reference

Every public name, from its docstring; [From Python](../python.md) shows how they go together.
Whatever is not on this page may change without notice.
This page is written by `make references` from the code; do not edit it.
"""


@dataclass(frozen=True)
class Name:
    """A public name: the shortest path to it, and what it is."""

    path: str
    target: Any

    @property
    def section(self) -> str:
        """Where it is defined: a package or a module directly below labeldp."""
        where = getattr(self.target, "__module__", None) or self.path
        return (where if where.startswith("labeldp.") else self.path).split(".")[1]


def names() -> list[Name]:
    """Every public name, each once."""
    paths = [f"labeldp.{name}" for name in labeldp.__all__]
    for package in PACKAGES:
        module = importlib.import_module(f"labeldp.{package}")
        paths += [f"{module.__name__}.{name}" for name in getattr(module, "__all__", ())]
    paths += [f"labeldp.{path}" for path in FURTHER]
    found: dict[int, Name] = {}
    for path in paths:
        where, _, name = path.rpartition(".")
        target = getattr(importlib.import_module(where), name)
        found.setdefault(id(target), Name(path, target))
    return list(found.values())


def page() -> str:
    """The whole page."""
    public = names()
    lines = [HEAD]
    homeless = [name.path for name in public if name.section not in SECTIONS]
    if homeless:
        raise KeyError(f"SECTIONS has no title for {', '.join(homeless)}")
    for section, title in SECTIONS.items():
        here = [name for name in public if name.section == section]
        if not here:
            continue
        lines += [f"## {title}", ""]
        for name in here:
            lines += [f"### {name.path}", "", *_described(name, public)]
    return "\n".join(lines)


def documented(target: Any) -> str:
    """Its own docstring; what a dataclass makes up does not count."""
    text = inspect.getdoc(target) or ""
    made_up = inspect.isclass(target) and text.startswith(f"{target.__name__}(")
    return "" if made_up else text


def members(kind: type) -> Iterator[tuple[str, Any, type]]:
    """Public methods and properties that labeldp wrote, each with the class that has it."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("labeldp"):
            continue
        for name, value in vars(owner).items():
            if not name.startswith("_") and name not in seen and _is_member(name, value):
                seen.add(name)
                yield name, value, owner


def _is_member(name: str, value: Any) -> bool:
    if inspect.isfunction(value):
        return value.__name__ == name  # else it is a field's default
    return isinstance(value, classmethod | staticmethod | property | functools.cached_property)


def _described(name: Name, public: list[Name]) -> list[str]:
    target = name.target
    if not inspect.isclass(target):
        if not callable(target):
            return [f"A {type(target).__name__}: {', '.join(f'`{key}`' for key in target)}.", ""]
        return ["```text", signature(name.path.rpartition(".")[2], target), "```", "", *_text(documented(target)), ""]
    if issubclass(target, BaseException):
        kinds = ", ".join(f"`{base.__name__}`" for base in target.__bases__)
        return [*_text(documented(target)), "", f"A kind of {kinds}.", ""]
    shown = options(target) if issubclass(target, Options) else signature(target.__name__, target)
    lines = ["```text", f"class {shown}", "```", "", *_text(documented(target)), ""]
    inherited: dict[str, list[str]] = {}
    classes = {one.target: one.path for one in public if inspect.isclass(one.target)}
    for method, value, owner in members(target):
        if owner is not target and owner in classes:
            inherited.setdefault(classes[owner], []).append(method)
            continue
        shown, text = _member(method, value, target), _text(inspect.getdoc(getattr(target, method)) or "")
        lines += [f"- `{shown}`", "", *(f"    {line}".rstrip() for line in text), ""]
    for path, methods in inherited.items():
        lines += [
            f"From [{path}](#{path.replace('.', '').lower()}): {', '.join(f'`{method}`' for method in methods)}.",
            "",
        ]
    return lines


def options(kind: type[Options]) -> str:
    """A command's options by the names that Python has for them; what each is for, the command line's reference says."""
    parts = ["*", *map(_field, declarations(kind))]
    return f"{kind.__name__}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _field(one: Declared) -> str:
    text = f"{one.name}: " + ("…" if one.option.kind is not None else _annotation(one.kind))
    return text if one.required else f"{text} = {str(one.default) if isinstance(one.default, Path) else one.default!r}"


def _member(name: str, value: Any, kind: type) -> str:
    if isinstance(value, property | functools.cached_property):
        function: Any = value.fget if isinstance(value, property) else value.func
        result = inspect.signature(function).return_annotation
        return f".{name}" + ("" if result is inspect.Signature.empty else f": {_annotation(result)}")
    bound = isinstance(value, classmethod | staticmethod)
    function = value.__func__ if bound else value
    shown = signature(name, function, skip_first=not isinstance(value, staticmethod), wrap=False)
    # What a base class declares of whoever calls it: `def load(cls: type[T]) -> T`.
    arrow = f" -> {_annotation(inspect.signature(function).return_annotation)}"
    if arrow.removeprefix(" -> ") in _type_variables(function):
        shown = f"{shown.removesuffix(arrow)} -> {kind.__name__}"
    return f"{kind.__name__ if bound else ''}.{shown}"


def _type_variables(function: Any) -> set[str]:
    """By the names under which its module has them."""
    there = vars(importlib.import_module(function.__module__))
    return {name for name, one in there.items() if isinstance(one, TypeVar)}


def signature(name: str, target: Callable[..., Any], skip_first: bool = False, wrap: bool = True) -> str:
    """`name(a: int, *, b: str = 'x') -> C`, the same under every version of Python."""
    try:
        found = inspect.signature(target)
    except ValueError:
        return name
    parameters = list(found.parameters.values())[1 if skip_first else 0 :]
    parts: list[str] = []
    starred = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_parameter(parameter))
    result = found.return_annotation
    arrow = "" if result is inspect.Signature.empty or inspect.isclass(target) else f" -> {_annotation(result)}"
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= 100 or not wrap:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    text = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        text = ("*" if parameter.kind is parameter.VAR_POSITIONAL else "**") + text
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        shown = repr(parameter.default)
        # What has no name, or is of this machine, is left open.
        text += " = " + ("…" if " at 0x" in shown or shown.startswith("<") or sys.executable in shown else shown)
    return text


def _annotation(hint: Any) -> str:
    text: str = hint if isinstance(hint, str) else inspect.formatannotation(hint)
    return re.sub(r"\b(?:npt|np|typing|torch|pathlib|collections\.abc)\.", "", text)


def _text(text: str) -> list[str]:
    """A docstring as Markdown; what it indents stays as it is."""
    return [line if line.startswith("    ") else prose(line) for line in text.splitlines()]
