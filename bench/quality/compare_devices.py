#!/usr/bin/env python3
"""Whether training on a GPU is that of the CPU, and whether it repeats: the checks of docs/training.md ("On a GPU").

    bench/quality/large_data.py FOLDER          # the data, from Debian packages
    bench/quality/compare_devices.py build/release/favor FOLDER --device cuda [--only curves,types,kills] [--kills N] [--jobs N]
                                     [--threads N] [--with OPTIONS]

curves: losses of 200 steps in f32 from one seed, on the CPU and on the device; every one within 0.1 %. types: the loss of the
whole valid split after training in bf16, within 0.5 % of f32, three seeds; the first command is run twice, to the same losses
and the same weights. kills: runs that are killed at random moments, up to five times each, N (50) in all, and then end in the
losses and weights of one that was not. Everything is kept in FOLDER, and the same command continues. Exit status 1 if a check
fails.
"""
import argparse
import functools
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import time

from runs import Runs, do_all, keep, words

DATA = {
    "proteins": "--data proteins.fasta --layout join --held-out held_out.txt",
    "text": "--data text.txt --split-by blocks",
}
# 3.2 M parameters, with the recommended attention: relu features of heads that forget.
MODEL = "--width 256 --layers 4 --heads 4 --ff 1024 --omega-type bf16"
CURVES = f"{MODEL} --length 256 --batch 8 --steps 200 --eval-batches 8"
TYPES = f"{MODEL} --length 512 --batch 16 --steps 600 --eval-every 0 --eval-batches 0 --save-every 0"
KILLS = "--preset tiny --omega-type bf16 --length 256 --batch 8 --steps 1000 --eval-every 100 --eval-batches 8 --save-every 50"
SEEDS = (1, 2, 3)
MOST_CURVE, MOST_TYPES = 1e-3, 5e-3  # relative differences of losses
KILLS_OF_A_RUN = 5


def summary(runs, run):
    """Losses of steps and evaluations, and hashes of the weights."""
    steps, evaluations = runs.lines(run)
    weights = [hashlib.sha256((runs.folder / run / f"{name}.safetensors").read_bytes()).hexdigest() for name in ("last", "best")]
    return {"steps": [step["loss"] for step in steps], "evaluations": [e["loss"] for e in evaluations], "weights": weights}


def same(a, b):
    return all(a[field] == b[field] for field in ("steps", "evaluations", "weights"))


def end_of(found):
    return f"{len(found['steps'])} steps, loss {found['evaluations'][-1]:.4f}"


def done(runs, run, options):
    """Trains a run unless that is done, and returns its summary and the seconds that it took."""
    result = runs.folder / f"{run}.summary.json"
    if result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    begin = time.monotonic()
    runs.train(run, options)
    return keep(result, {"seconds": time.monotonic() - begin, **summary(runs, run)})


def killed(runs, run, options, kills, most_seconds):
    """The summary of a run that was killed `kills` times, or as often as it could be before its end, and the number of steps
    that it had logged at each kill."""
    result = runs.folder / f"{run}.summary.json"
    if result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    moments, killed_at, steps = random.Random(run), [], runs.folder / run / "log.jsonl"
    with open(runs.log(run), "a", encoding="utf-8") as log:
        for _ in range(kills):
            process = subprocess.Popen([*runs.training(run, options), *runs.place.split()], cwd=runs.folder,
                                       stdout=subprocess.DEVNULL, stderr=log)
            try:
                process.wait(moments.uniform(0, most_seconds))
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                killed_at.append(steps.read_bytes().count(b'"learning_rate"') if steps.exists() else 0)
    runs.train(run, options)
    return keep(result, {"killed_at": killed_at, **summary(runs, run)})


def largest_difference(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b, strict=True))


def curves(places, jobs, others):
    work = {(f"curve-{name}-{device}",): functools.partial(done, runs, f"curve-{name}-{device}",
                                                           words(data, CURVES, "--seed 1", others))
            for name, data in DATA.items() for device, runs in (("cpu", places["cpu"]), ("device", places["f32"]))}
    found = do_all(jobs, work, say=end_of)
    print("\n| data | steps | largest relative difference of a step's loss from the CPU's | of the last step |\n|---|---|---|---|")
    holds = True
    for name in DATA:
        cpu, device = (found[f"curve-{name}-{where}",]["steps"] for where in ("cpu", "device"))
        most = largest_difference(device, cpu)
        print(f"| {name} | {len(cpu)} | {most:.1e} | {largest_difference(device[-1:], cpu[-1:]):.1e} |")
        holds = holds and most <= MOST_CURVE
    return holds


def types(places, jobs, others):
    work = {(name, seed, pass_type, again): functools.partial(done, places[pass_type], f"type-{name}-{pass_type}-{seed}{again}",
                                                              words(data, TYPES, f"--seed {seed}", others))
            for name, data in DATA.items() for seed in SEEDS
            for pass_type, again in (("f32", ""), ("bf16", ""), *([("bf16", "-again")] if seed == SEEDS[0] else []))}
    found = do_all(jobs, work, say=end_of)
    print("\n| data | seed | f32 | bf16 | difference | the same command twice |\n|---|---|---|---|---|---|")
    holds = True
    for name in DATA:
        for seed in SEEDS:
            f32, bf16 = (found[name, seed, pass_type, ""] for pass_type in ("f32", "bf16"))
            end, expected = bf16["evaluations"][-1], f32["evaluations"][-1]
            twice = ""
            if again := found.get((name, seed, "bf16", "-again")):
                twice = "the same losses and weights" if same(again, bf16) else "DIFFERENT"
            print(f"| {name} | {seed} | {expected:.4f} | {end:.4f} | {100 * (end - expected) / expected:+.2f} % | {twice} |")
            holds = holds and abs(end - expected) <= MOST_TYPES * expected and twice != "DIFFERENT"
    return holds


def kills(places, jobs, others, count):
    runs, options = places["bf16"], words(DATA["text"], KILLS, "--seed 1", others)
    # As many whole runs at a time as killed ones, so that they are as slow.
    wholes = do_all(jobs, {(f"whole-{i}",): functools.partial(done, runs, f"whole-{i}", options) for i in range(jobs)}, say=end_of)
    whole, most_seconds = wholes["whole-0",], max(run["seconds"] for run in wholes.values())
    found, killed_at = {}, []
    while (left := count - len(killed_at)) > 0:
        sizes = [min(KILLS_OF_A_RUN, left - first) for first in range(0, left, KILLS_OF_A_RUN)]
        names = [f"kill-{len(found) + i}" for i in range(len(sizes))]
        found |= do_all(jobs, {(run,): functools.partial(killed, runs, run, options, size, most_seconds)
                               for run, size in zip(names, sizes)}, say=end_of)
        killed_at = [steps for run in found.values() for steps in run["killed_at"]]
    different = [name for (name,), run in (wholes | found).items() if not same(run, whole)]
    print(f"\n{len(killed_at)} kills of {len(found)} runs of {len(whole['steps'])} steps, {sum(at > 0 for at in killed_at)} of them "
          f"after the first step; they end in the losses and weights of a run that was not killed{', except: ' if different else ''}"
          f"{', '.join(different)}")
    return not different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("favor")
    parser.add_argument("folder")
    parser.add_argument("--only", default="curves,types,kills")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=4, help="runs at a time")
    parser.add_argument("--threads", type=int, default=4, help="of each run")
    parser.add_argument("--with", default="", dest="others", metavar="OPTIONS")
    a = parser.parse_args()
    favor, folder = str(pathlib.Path(a.favor).resolve()), pathlib.Path(a.folder)
    places = {"cpu": f"--device cpu --threads {a.threads}"}
    for pass_type in ("f32", "bf16"):
        precision = "" if a.device == "cpu" else f" --precision {pass_type}"
        places[pass_type] = f"--device {a.device} --threads {a.threads}{precision}"
    places = {name: Runs(favor, folder, place) for name, place in places.items()}
    checks = {"curves": curves, "types": types, "kills": functools.partial(kills, count=a.kills)}
    failed = [name for name in a.only.split(",") if not checks[name](places, a.jobs, a.others)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
