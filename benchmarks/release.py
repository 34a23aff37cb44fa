"""How fast labels are released, in how much memory, and how that compares with a loop over labels and with OpenDP.

    python benchmarks/release.py --out benchmarks/results/release.json [--quick] [--skip-large] [--large-rows N]

Contenders take turns (ours, loop, OpenDP, ours, …), so that a machine's drift hits all of them. A ratio is that of two neighbouring
turns. The loop is what the paper's code does, `[noise(label) for label in labels]`, in numpy and `random`: its floating-point
noise carries no certificate. Peak memory is that of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import labeldp
from labeldp.entropy import SecureEntropy
from labeldp.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse, SubsetSelection, UnaryEncoding
from labeldp.mechanisms.plan import NAMES, calibrate
from labeldp.mechanisms.table import WHOLE
from labeldp.private import PrivateLabels, code_dtype

try:
    import opendp.prelude as dp
except ImportError:
    dp = None

EPSILON, DELTA = 1.0, 1e-5
CLASSES = (2, 10, 100)
FAST_ENOUGH = {("response", 2): 20e6, ("subset", 100): 200e3, ("laplace", 100): 200e3}  # rows a second
TIMES_THE_LOOP = 50
LARGE_ROWS, LARGE_BYTES = 100_000_000, 1_000_000_000
FILE_CHUNK = 1 << 20

Work = Callable[[], object]  # draws the observations that it was prepared for
Prepare = Callable[[int], Work]  # for so many rows
Draw = Callable[[int], object]  # one label in, one observation out


@dataclass(frozen=True)
class Settings:
    """How long to measure."""

    seconds: float  # of one turn
    repeats: int
    commands: int  # how often each command is run
    large_rows: int
    id_rows: int
    subset_rows: int


FULL = Settings(seconds=0.3, repeats=7, commands=3, large_rows=LARGE_ROWS, id_rows=5_000_000, subset_rows=1_000_000)
QUICK = Settings(seconds=0.05, repeats=5, commands=1, large_rows=2_000_000, id_rows=100_000, subset_rows=50_000)


# ── the contenders ──


def some_labels(rows: int, classes: int) -> npt.NDArray[Any]:
    """Uniform labels; how fast they are released does not depend on them."""
    return np.random.default_rng(0).integers(0, classes, rows, dtype=code_dtype(classes))


def ours(mechanism: Mechanism) -> Prepare:
    """`mechanism.observe`, with the operating system's entropy."""

    def prepare(rows: int) -> Work:
        labels = PrivateLabels(some_labels(rows, mechanism.num_classes), mechanism.num_classes)
        return lambda: mechanism.observe_uncharged(labels, SecureEntropy())

    return prepare


def loop(mechanism: Mechanism) -> Prepare:
    """One label at a time. Labels are Python integers already: converting them is not counted."""
    draw = one_at_a_time(mechanism)

    def prepare(rows: int) -> Work:
        labels = some_labels(rows, mechanism.num_classes).tolist()
        return lambda: [draw(label) for label in labels]

    return prepare


def one_at_a_time(mechanism: Mechanism) -> Draw:
    """What somebody would write for one label."""
    rng, classes = np.random.default_rng(), mechanism.num_classes
    others = [[c for c in range(classes) if c != label] for label in range(classes)]

    def onehot(label: int) -> npt.NDArray[np.float64]:
        vector = np.zeros(classes)
        vector[label] = 1.0
        return vector

    if isinstance(mechanism, RandomizedResponse):
        keep = keep_probability(mechanism)
        return lambda label: label if random.random() < keep else random.choice(others[label])
    if isinstance(mechanism, SubsetSelection):
        holds, size = mechanism.holds / WHOLE, mechanism.size

        def subset(label: int) -> list[int]:
            if random.random() < holds:
                return [label, *random.sample(others[label], size - 1)]
            return random.sample(others[label], size)

        return subset
    if isinstance(mechanism, UnaryEncoding):
        flip = 1 - mechanism.keep / WHOLE
        return lambda label: (onehot(label) > 0) ^ (rng.random(classes) < flip)
    if isinstance(mechanism, Laplace):
        return lambda label: onehot(label) + rng.laplace(0.0, mechanism.scale, size=classes)
    if isinstance(mechanism, Gaussian):
        return lambda label: onehot(label) + rng.normal(0.0, mechanism.sigma, size=classes)
    raise TypeError(f"no loop is written for {mechanism.name}")


def keep_probability(mechanism: RandomizedResponse) -> float:
    return 1 - (mechanism.num_classes - 1) * mechanism.other / WHOLE


def opendp_contenders(mechanism: Mechanism) -> dict[str, Prepare]:
    """OpenDP has randomized response for one label, and Laplace noise for a whole vector (here: flattened one-hots)."""
    if dp is None:
        return {}
    dp.enable_features("contrib")
    if isinstance(mechanism, RandomizedResponse):
        return {"opendp": opendp_response(mechanism)}
    if isinstance(mechanism, Laplace):
        # By default its noise is a multiple of 2^-1074; a coarser grid is faster, and needs to know the vector's size.
        return {"opendp": opendp_laplace(mechanism), "opendp, grid 2^-60": opendp_laplace(mechanism, grid=-60)}
    return {}


def opendp_response(mechanism: RandomizedResponse) -> Prepare:
    """A call for each label; there is no other way."""
    classes = mechanism.num_classes
    respond = dp.m.make_randomized_response(list(range(classes)), keep_probability(mechanism))
    check_epsilon("OpenDP's randomized response", respond.map(1))

    def prepare(rows: int) -> Work:
        labels = some_labels(rows, classes).tolist()
        return lambda: [respond(label) for label in labels]

    return prepare


def opendp_laplace(mechanism: Laplace, grid: int | None = None) -> Prepare:
    """One call for all labels; one label replaced changes the vector by 2 in ℓ1."""

    def prepare(rows: int) -> Work:
        size = rows * mechanism.num_classes
        known = {} if grid is None else {"size": size}
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), **known)
        noise = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=2 / EPSILON, k=grid)
        check_epsilon("OpenDP's Laplace noise", noise.map(2.0))
        true_cells = np.arange(rows) * mechanism.num_classes + some_labels(rows, mechanism.num_classes)

        def work() -> object:
            onehots = np.zeros(size)
            onehots[true_cells] = 1.0
            return noise(onehots)

        return work

    return prepare


def check_epsilon(whose: str, epsilon: float) -> None:
    """A comparison at another ε would be none."""
    if not math.isclose(epsilon, EPSILON, rel_tol=1e-6):
        raise SystemExit(f"{whose} has ε = {epsilon}, not {EPSILON}.")


# ── speed ──


def elapsed(work: Work) -> float:
    """Seconds; freeing what was drawn is not counted."""
    start = time.perf_counter()
    observations = work()
    took = time.perf_counter() - start
    del observations
    return took


def rows_that_take(seconds: float, prepare: Prepare) -> int:
    """About so many rows; tables are built and caches warm afterwards."""
    rows = 16
    prepare(rows)()
    while (took := elapsed(prepare(rows))) < seconds / 4:
        rows *= 2
    return max(1, round(rows * seconds / took))


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean, spread and n; the best for whoever wants the machine's own noise out of the way."""
    return {
        "mean": statistics.mean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "best": max(values),
        "n": len(values),
    }


def measure(mechanism: Mechanism, settings: Settings) -> dict[str, Any]:
    """Rows a second of ours and of each rival, taking turns."""
    contenders = {"labeldp": ours(mechanism), "loop": loop(mechanism), **opendp_contenders(mechanism)}
    rows = {name: rows_that_take(settings.seconds, prepare) for name, prepare in contenders.items()}
    works = {name: prepare(rows[name]) for name, prepare in contenders.items()}
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(settings.repeats):
        for name, work in works.items():
            speeds[name].append(rows[name] / elapsed(work))
    mine = speeds.pop("labeldp")
    rivals = {
        name: {
            "rows": rows[name],
            "rows_per_second": summary(theirs),
            "times_faster": summary([a / b for a, b in zip(mine, theirs, strict=True)]),
        }
        for name, theirs in speeds.items()
    }
    return {
        "mechanism": mechanism.name,
        "classes": mechanism.num_classes,
        "parameters": mechanism.parameters(),
        "rows": rows["labeldp"],
        "rows_per_second": summary(mine),
        "memory": memory_of(mechanism.name, mechanism.num_classes, rows["labeldp"]),
        "rivals": rivals,
    }


# ── memory ──

# A process's peak counts from before exec, when it was still a copy of its parent: so a small parent starts it.
LAUNCHER = """
import json, os, sys, time
out, command = sys.argv[1], sys.argv[2:]
start = time.perf_counter()
to_file = [(os.POSIX_SPAWN_OPEN, 1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
_, status, usage = os.wait4(os.posix_spawn(command[0], command, os.environ, file_actions=to_file), 0)
seconds, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
exit_code = os.waitstatus_to_exitcode(status)
print(json.dumps({"exit": exit_code, "seconds": seconds, "cpu_seconds": cpu, "maxrss": usage.ru_maxrss}))
"""


@dataclass(frozen=True)
class Ran:
    """One finished command: what it printed as JSON, how long it took, and its own peak memory."""

    output: dict[str, Any]
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(*arguments: str) -> Ran:
    """This Python with these arguments, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "stdout"
        launched = subprocess.run(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, str(printed), sys.executable, *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        usage = json.loads(launched.stdout)
        if usage["exit"] != 0:
            raise SystemExit(f"{' '.join(arguments)} failed with exit code {usage['exit']}: {launched.stderr}")
        output = json.loads(printed.read_text(encoding="utf-8"))
    return Ran(output, usage["seconds"], usage["cpu_seconds"], rss_bytes(usage["maxrss"]))


def rss_bytes(maxrss: int) -> int:
    """Kilobytes on Linux, bytes on macOS."""
    return maxrss if sys.platform == "darwin" else maxrss * 1024


def own_peak() -> int:
    return rss_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def memory_of(name: str, classes: int, rows: int) -> dict[str, int]:
    """What `observe` needs beyond the imports: labels, observations and all that comes in between."""
    return run(__file__, "--memory-of", name, str(classes), str(rows)).output


def print_memory(name: str, classes: int, rows: int) -> None:
    """The child's side of `memory_of`."""
    imported = own_peak()
    observations = ours(calibrated(name, classes))(rows)()
    peak = own_peak()
    sizes = {"rows": rows, "observation_bytes": int(np.asarray(observations).nbytes)}
    print(json.dumps({**sizes, "imports_bytes": imported, "peak_bytes": peak, "used_bytes": peak - imported}))


# ── whole files ──


def binary_labels(start: int, stop: int) -> dict[str, Any]:
    return {"label": np.random.default_rng(start).integers(0, 2, stop - start, dtype=np.int8)}


def labels_with_ids(start: int, stop: int) -> dict[str, Any]:
    return {"uid": [f"user-{i:012d}" for i in range(start, stop)], **binary_labels(start, stop)}


def hundred_classes(start: int, stop: int) -> dict[str, Any]:
    return {"label": np.random.default_rng(start).integers(0, 100, stop - start, dtype=np.int8)}


def write_labels(path: Path, rows: int, columns: Callable[[int, int], dict[str, Any]]) -> None:
    """A Parquet file, a chunk at a time."""
    with pq.ParquetWriter(path, pa.table(columns(0, 1)).schema) as writer:
        for start in range(0, rows, FILE_CHUNK):
            writer.write_table(pa.table(columns(start, min(start + FILE_CHUNK, rows))))


def measure_command(
    what: str, rows: int, columns: Callable[[int, int], dict[str, Any]], options: Sequence[str], repeats: int
) -> dict[str, Any]:
    """The real command on a real file, each time with a ledger of its own."""
    with tempfile.TemporaryDirectory(prefix="labeldp-bench-") as temporary:
        folder = Path(temporary)
        source = folder / "labels.parquet"
        write_labels(source, rows, columns)
        arguments = ["--label", "label", *options, "--epsilon", str(EPSILON), "--json"]
        runs = []
        for i in range(repeats):
            place = folder / str(i)
            place.mkdir()
            out = place / "out.parquet"
            files = ["--ledger", str(place / "labels.ledger"), "--out", str(out)]
            runs.append(run("-m", "labeldp", "release", str(source), *arguments, *files))
            check_release(runs[-1], out, rows)
            out_bytes = out.stat().st_size
            shutil.rmtree(place)
        return {
            "what": what,
            "command": f"labeldp release labels.parquet {' '.join(arguments)} --ledger … --out …",
            "mechanism": runs[0].output["mechanism"]["name"],
            "rows": rows,
            "seconds": summary([one.seconds for one in runs]) | {"best": min(one.seconds for one in runs)},
            "cpu_seconds": summary([one.cpu_seconds for one in runs]) | {"best": min(one.cpu_seconds for one in runs)},
            "rows_per_second": summary([rows / one.seconds for one in runs]),
            "peak_rss_bytes": max(one.peak_bytes for one in runs),
            "input_bytes": source.stat().st_size,
            "output_bytes": out_bytes,
        }


def check_release(ran: Ran, out: Path, rows: int) -> None:
    """A command that did something else is no measurement."""
    stated, written = ran.output, pq.read_metadata(out).num_rows
    if not (stated["rows"] == written == rows and stated["charged"] and stated["certificate"]["epsilon"] <= EPSILON):
        raise SystemExit(f"the command did not release {rows:,} rows at ε = {EPSILON}: {stated}")


def measure_commands(settings: Settings) -> list[dict[str, Any]]:
    """From the largest file to the smallest."""
    with_id, subset = ["--classes", "2", "--id", "uid"], ["--classes", "100", "--mechanism", "subset"]
    cases = (
        ("binary labels", settings.large_rows, binary_labels, ["--classes", "2"]),
        ("binary labels with a text id", settings.id_rows, labels_with_ids, with_id),
        ("100 classes, k-subset", settings.subset_rows, hundred_classes, subset),
    )
    done = []
    for what, rows, columns, options in cases:
        done.append(measure_command(what, rows, columns, options, settings.commands))
        print(command_line(done[-1]), flush=True)
    return done


# ── targets ──


def speed_targets(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows a second where one is stated; the loop everywhere. Means are what counts."""
    targets = []
    for result in results:
        key = (result["mechanism"], result["classes"])
        where = f"{key[0]}, {key[1]} classes"
        if key in FAST_ENOUGH:
            targets.append(at_least(f"{where}: rows/s", FAST_ENOUGH[key], result["rows_per_second"]["mean"]))
        times = result["rivals"]["loop"]["times_faster"]["mean"]
        targets.append(at_least(f"{where}: times the loop", TIMES_THE_LOOP, times))
    return targets


def memory_targets(commands: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Only a run with all the rows counts."""
    large = [c for c in commands if c["rows"] >= LARGE_ROWS]
    return [
        {
            "what": f"{command['rows']:,} rows, {command['what']}: peak bytes",
            "below": LARGE_BYTES,
            "measured": command["peak_rss_bytes"],
            "met": command["peak_rss_bytes"] < LARGE_BYTES,
        }
        for command in large
    ]


def at_least(what: str, target: float, measured: float) -> dict[str, Any]:
    return {"what": what, "at_least": target, "measured": measured, "met": measured >= target}


# ── words ──


def machine() -> dict[str, Any]:
    """Where and with what the numbers were measured."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "opendp": "not installed" if dp is None else version("opendp"),
        "labeldp": labeldp.__version__,
        "revision": revision(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def revision() -> str | None:
    """The commit, and whether `src` differs from it."""
    git = ["git", "-C", str(Path(__file__).parent.parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src"], check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + (" with changes" if changed else "")


def amount(value: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


HEADER = f"{'mechanism':<10}{'C':>4}{'rows/s':>9}{'± sd':>7}{'best':>8}{'n':>3}{'memory':>9}{'B/row':>6}   times faster"


def result_line(result: dict[str, Any]) -> str:
    speed, memory = result["rows_per_second"], result["memory"]
    rivals = ", ".join(rival_text(name, rival) for name, rival in result["rivals"].items())
    if dp is None and result["mechanism"] in ("response", "laplace"):
        rivals += ", opendp not installed"
    return (
        f"{result['mechanism']:<10}{result['classes']:>4}{amount(speed['mean']):>9}{amount(speed['sd']):>7}"
        f"{amount(speed['best']):>8}{speed['n']:>3}{amount(memory['used_bytes']) + 'B':>9}"
        f"{memory['used_bytes'] / memory['rows']:>6.0f}   {rivals}"
    )


def rival_text(name: str, rival: dict[str, Any]) -> str:
    times, speed = rival["times_faster"], rival["rows_per_second"]["mean"]
    return f"{name} {times['mean']:,.3g}× (± {times['sd']:.2g}; {amount(speed)}/s)"


def command_line(command: dict[str, Any]) -> str:
    seconds = command["seconds"]
    spread = "" if seconds["sd"] is None else f" ± {seconds['sd']:.2f}"
    return (
        f"{command['rows']:,} rows, {command['what']} ({command['mechanism']}): {seconds['mean']:.2f}{spread} s (n = {seconds['n']}), "
        f"{amount(command['rows_per_second']['mean'])} rows/s, peak {amount(command['peak_rss_bytes'])}B, "
        f"files {amount(command['input_bytes'])}B → {amount(command['output_bytes'])}B"
    )


def target_line(target: dict[str, Any]) -> str:
    wanted = f"≥ {amount(target['at_least'])}" if "at_least" in target else f"< {amount(target['below'])}"
    return f"{'met   ' if target['met'] else 'MISSED'}  {target['what']} {wanted}: {amount(target['measured'])}"


# ── all of it ──


def calibrated(name: str, classes: int) -> Mechanism:
    return calibrate(name, epsilon=EPSILON, num_classes=classes, delta=DELTA if name == "gaussian" else None)


def measure_mechanisms(settings: Settings) -> list[dict[str, Any]]:
    print(HEADER)
    done = []
    for name in NAMES:
        for classes in CLASSES:
            done.append(measure(calibrated(name, classes), settings))
            print(result_line(done[-1]), flush=True)
    return done


def benchmark(settings: Settings, out: Path, *, commands: bool) -> None:
    """Measure, print, and write the JSON."""
    report: dict[str, Any] = {"machine": machine(), "epsilon": EPSILON, "delta": DELTA, "settings": vars(settings)}
    print(", ".join(f"{name} {value}" for name, value in report["machine"].items()), end="\n\n")
    report["mechanisms"] = measure_mechanisms(settings)
    print()
    report["commands"] = measure_commands(settings) if commands else []
    report["targets"] = speed_targets(report["mechanisms"]) + memory_targets(report["commands"])
    print()
    for target in report["targets"]:
        print(target_line(target))
    if not any("below" in target for target in report["targets"]):
        print(f"not measured: peak memory at {LARGE_ROWS:,} rows")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--quick", action="store_true", help="shorter turns, smaller files: to see that it works")
    parser.add_argument("--skip-large", action="store_true", help="leave out the commands on whole files")
    parser.add_argument("--large-rows", type=int, help=f"rows of the largest file (default {LARGE_ROWS:,})")
    parser.add_argument("--memory-of", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        name, classes, rows = arguments.memory_of
        print_memory(name, int(classes), int(rows))
        return
    if arguments.out is None:
        parser.error("--out is missing: where should the results go?")
    settings = QUICK if arguments.quick else FULL
    if arguments.large_rows is not None:
        settings = Settings(**{**vars(settings), "large_rows": arguments.large_rows})
    benchmark(settings, arguments.out, commands=not arguments.skip_large)


if __name__ == "__main__":
    main()
