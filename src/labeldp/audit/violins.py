"""How sure the model was, and how often it was surer of the planted label: what violins are drawn of, and Figure 1 of the paper.

Each canary's planted label y′ is compared with all other labels y″ that it might have had: the C−2 other wrong ones in the paper's
planting, the K−1 other candidates in a fair draw. The comparisons are sorted by the model's maximal confidence
p = max(M_y′, M_y″), on the scale of its odds p/(1−p): on a plain one nearly all of them crowd at 0 and 1. A guess is right if
M_y′ > M_y″.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.audit.canaries import Canaries
from labeldp.audit.paper import check_confidences, comparisons
from labeldp.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LOWEST, ZOOM, HIGHEST = 0.01, 0.99, 0.99999  # a higher confidence is drawn at the top
BINS = 600  # of a violin, bottom to top
_BANDWIDTH = BINS / 32
_MOST = 1 << 48  # guesses in a bin
# Block by block: the model's confidence in the planted label (n), and in each of the others (n, k).
Block: TypeAlias = tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]
Comparisons: TypeAlias = Callable[[], Iterable[Block]]


@dataclass(frozen=True)
class Violins:
    """How many guesses are right and wrong, in equal bins of log-odds from `low` to HIGHEST; and below `low`."""

    low: float
    right: npt.NDArray[np.int64]
    wrong: npt.NDArray[np.int64]
    right_below: int
    wrong_below: int

    def stated(self) -> StatedViolins:
        """For a file."""
        right, wrong = (tuple(side.tolist()) for side in (self.right, self.wrong))
        return StatedViolins(self.low, right, wrong, self.right_below, self.wrong_below)


@dataclass(frozen=True)
class StatedViolins:
    """The same in a file, which may be anybody's."""

    low: float
    right: tuple[int, ...]
    wrong: tuple[int, ...]
    right_below: int
    wrong_below: int

    def __post_init__(self) -> None:
        counts = (*self.right, *self.wrong, self.right_below, self.wrong_below)
        if not len(self.right) == len(self.wrong) == BINS or not all(0 <= count < _MOST for count in counts):
            raise InputError(f"a violin counts guesses in {BINS} bins.")
        if not 0 < self.low < HIGHEST:
            raise InputError("a violin begins at a confidence between 0 and 1.")

    def violins(self) -> Violins:
        """To be drawn."""
        right, wrong = (np.array(side, dtype=np.int64) for side in (self.right, self.wrong))
        return Violins(self.low, right, wrong, self.right_below, self.wrong_below)


def papers_comparisons(
    confidences: npt.ArrayLike, true_label: npt.ArrayLike, canary_label: npt.ArrayLike
) -> Comparisons:
    """The paper's planting. The arguments are those of `paper_interval`."""
    arrays = check_confidences(confidences, true_label, canary_label)
    return lambda: ((planted, others) for _, planted, others in comparisons(*arrays))


def canary_comparisons(
    probabilities: npt.NDArray[np.floating[Any]], canaries: Canaries, places: npt.NDArray[np.int64] | None = None
) -> Comparisons:
    """Canaries of a fair draw. `probabilities` are those of all rows; `places` are the canaries' among them, if not their rows."""
    said = np.take_along_axis(probabilities[canaries.rows if places is None else places], canaries.candidates, axis=1)
    planted = canaries.candidates == canaries.planted[:, None]
    block = said[planted], said[~planted].reshape(len(said), -1)
    return lambda: [block]


def count_guesses(compared: Iterable[Block], low: float) -> Violins:
    """Sort the comparisons into bins. A tie is a wrong guess, as in the attack."""
    bottom, top = log_odds(low), log_odds(HIGHEST)
    counts, below = np.zeros((2, BINS), np.int64), np.zeros(2, np.int64)
    for planted, others in compared:
        surer = np.maximum(planted[:, None], others)
        sure, right = surer >= low, planted[:, None] > others
        for k, side in enumerate((right, ~right)):
            chosen = surer[sure & side].astype(np.float64).clip(0, HIGHEST)
            bins = (np.log2(chosen / (1 - chosen)) - bottom) / (top - bottom) * BINS
            counts[k] += np.bincount(bins.astype(np.int64).clip(0, BINS - 1), minlength=BINS)
            below[k] += np.count_nonzero(~sure & side)
    return Violins(low, counts[0], counts[1], int(below[0]), int(below[1]))


def smooth(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """A Gaussian kernel over the bins, reflected at both ends: the area stays the number of guesses."""
    reach = int(4 * _BANDWIDTH)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / _BANDWIDTH) ** 2)
    return np.convolve(np.pad(counts, reach, mode="symmetric"), kernel / kernel.sum(), mode="valid")


def log_odds(confidence: float) -> float:
    """To base 2: one more doubles the odds."""
    return math.log2(confidence / (1 - confidence))


# ----------------------------------------------------------------
# Figure 1 of the paper, for any run.
#
# A violin has the guesses that are right on its right side and the wrong ones on its left, both on one scale. The zoomed box holds those
# from 99% up. Where neither label gets 1%, there is nothing to guess by: those comparisons are counted below the violin, not drawn.

_TICKS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
_RIGHT, _WRONG = "#0072B2", "#D55E00"  # Okabe and Ito's blue and vermilion: safe for the colour-blind
_QUIET = "#707070"
_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.edgecolor": _QUIET,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "svg.hashsalt": "labeldp",  # the same figure is the same file
}


def memorization_figure(
    confidences: npt.ArrayLike,
    true_label: npt.ArrayLike,
    canary_label: npt.ArrayLike,
    *,
    title: str | None = None,
) -> Figure:
    """The paper's planting. The arguments are those of `paper_interval`."""
    return violins(papers_comparisons(confidences, true_label, canary_label), title=title)


def canary_figure(
    probabilities: npt.NDArray[np.float64],
    canaries: Canaries,
    places: npt.NDArray[np.int64] | None = None,
    *,
    title: str | None = None,
) -> Figure:
    """Canaries of a fair draw. `probabilities` are those of all rows; `places` are the canaries' among them, if not their rows."""
    return violins(canary_comparisons(probabilities, canaries, places), title=title)


def violins(compared: Comparisons, *, title: str | None = None) -> Figure:
    """Violins of right and wrong guesses by confidence, 6 inches wide."""
    style = _matplotlib_style()
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import ConnectionPatch

    whole_counts, zoomed_counts = count_guesses(compared(), LOWEST), count_guesses(compared(), ZOOM)
    with style.context(["default", _STYLE]):
        figure = Figure(figsize=(6, 4), layout=ConstrainedLayoutEngine(wspace=0.06))
        whole, zoomed = figure.subplots(1, 2)
        _violin(whole, whole_counts)
        _violin(zoomed, zoomed_counts)
        whole.set_ylabel("model's confidence in the surer label")
        zoomed.yaxis.tick_right()
        whole.axhspan(log_odds(ZOOM), log_odds(HIGHEST), color=_QUIET, alpha=0.12, linewidth=0, zorder=0)
        zoomed.set_facecolor("#70707010")
        for level, corner in ((HIGHEST, (0.0, 1.0)), (ZOOM, (0.0, 0.0))):
            start, across, inside = (1.0, log_odds(level)), whole.get_yaxis_transform(), zoomed.transAxes
            line = ConnectionPatch(start, corner, across, inside, color=_QUIET, linewidth=0.6)
            line.set_in_layout(False)
            figure.add_artist(line)
        figure.supxlabel("comparisons per doubling of the odds" + _not_drawn(whole_counts), fontsize=9)
        if title is not None:
            figure.suptitle(title, fontsize=10, fontweight="bold")
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write an SVG or a PNG (200 dots an inch), by the suffix. The same figure gives the same bytes: no date, no random names."""
    kind = Path(path).suffix.lower()
    unsaid = {".svg": {"Date": None}, ".png": {"Software": None}}
    if kind not in unsaid:
        raise InputError(f"a figure is saved as .svg or .png; got {Path(path).name!r}.")
    with _matplotlib_style().context(["default", _STYLE]):
        figure.savefig(path, format=kind[1:], dpi=200, metadata=unsaid[kind])


def _violin(axes: Axes, guesses: Violins) -> None:
    """Wrong guesses to the left, right ones to the right, and how many there are of each."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    bottom, top = log_odds(guesses.low), log_odds(HIGHEST)
    total = int(guesses.right.sum() + guesses.wrong.sum())
    axes.set_title(f"≥ {guesses.low:.0%}: {total:,} comparisons", pad=20)
    axes.set_ylim(bottom, top)
    ticks = [tick for tick in _TICKS if tick >= guesses.low]
    names = [("≥ " if tick == HIGHEST else "") + f"{100 * tick:g}%" for tick in ticks]
    axes.set_yticks([log_odds(tick) for tick in ticks], names)
    if total == 0:
        axes.set_xticks([])
        axes.text(
            0.5, 0.5, "no such label\ngets this much", transform=axes.transAxes, ha="center", va="center", color=_QUIET
        )
        return
    height, widest = np.linspace(bottom, top, BINS), 0.0
    for side, name, counts, color in ((-1, "wrong", guesses.wrong, _WRONG), (1, "right", guesses.right, _RIGHT)):
        width = smooth(counts) * BINS / (top - bottom)
        widest = max(widest, float(width.max()))
        axes.fill_betweenx(height, 0, side * width, color=color, alpha=0.85, linewidth=0)
        axes.annotate(
            f"{name} {counts.sum() / total:.1%}",
            (max(side, 0), 1), xycoords="axes fraction", xytext=(0, 5), textcoords="offset points",
            ha="left" if side < 0 else "right", color=color, fontweight="bold",
        )  # fmt: skip
    axes.axvline(0, color=_QUIET, linewidth=0.6)
    axes.set_xlim(-1.08 * widest, 1.08 * widest)
    axes.xaxis.set_major_locator(MaxNLocator(4, symmetric=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.10g}"))


def _not_drawn(guesses: Violins) -> str:
    below = guesses.right_below + guesses.wrong_below
    if below == 0:
        return ""
    share = guesses.right_below / below
    return f"\n(not drawn, both labels below {guesses.low:.0%}: {below:,} comparisons, {share:.1%} right)"


def _matplotlib_style() -> ModuleType:
    try:
        from matplotlib import style
    except ImportError:
        raise InputError('figures are drawn by matplotlib, an extra: pip install "labeldp[figures]"') from None
    return style
