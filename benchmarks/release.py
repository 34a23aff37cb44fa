"""How fast labels are released, in how much memory, and how that compares with loops over labels and with OpenDP.

    python benchmarks/release.py --out benchmarks/results/release.json [--quick] [--skip-large] [--large-rows N]

Contenders take turns (ours, loop, OpenDP, ours, …), so that a machine's drift hits all of them; a ratio is that of two
neighbouring turns. The loop is `[noise(label) for label in labels]` in numpy and `random`; where torch is installed, also
with a tensor for each label, as the paper's code does it. Floating-point noise from such generators carries no certificate.
Peak memory is that of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from contenders import DELTA, EPSILON, everybody, ours
from measuring import Ran, amount, elapsed, machine, own_peak, rows_that_take, run, summary

from labeldp.mechanisms import Mechanism
from labeldp.mechanisms.plan import NAMES, calibrate

CLASSES = (2, 10, 100)
FAST_ENOUGH = {("response", 2): 20e6, ("subset", 100): 200e3, ("laplace", 100): 200e3}  # rows a second
TIMES_THE_LOOP = 50
LARGE_ROWS, LARGE_BYTES = 100_000_000, 1_000_000_000
FILE_CHUNK = 1 << 20


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


# ── speed ──


def measure(mechanism: Mechanism, settings: Settings) -> dict[str, Any]:
    """Rows a second of ours and of each rival, taking turns."""
    contenders = everybody(mechanism)
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
        for rival in ("loop", "the paper's loop"):
            if rival in result["rivals"]:
                times = result["rivals"][rival]["times_faster"]["mean"]
                targets.append(at_least(f"{where}: times {rival}", TIMES_THE_LOOP, times))
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


HEADER = f"{'mechanism':<10}{'C':>4}{'rows/s':>9}{'± sd':>7}{'best':>8}{'n':>3}{'memory':>9}{'B/row':>6}   times faster"


def result_line(result: dict[str, Any]) -> str:
    speed, memory = result["rows_per_second"], result["memory"]
    rivals = ", ".join(rival_text(name, rival) for name, rival in result["rivals"].items())
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
    report: dict[str, Any] = {
        "machine": machine("numpy", "pyarrow", "opendp", "torch", "labeldp"),
        "epsilon": EPSILON,
        "delta": DELTA,
        "settings": vars(settings),
    }
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
