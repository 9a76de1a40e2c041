#!/usr/bin/env python3
"""Trains the models of docs/training.md ("When is linear attention as good as softmax?") and prints its tables.

    bench/quality/measure.py build/release/favor FOLDER [--only text,proteins,recall,listops] [--jobs N] [--threads N]

Everything is kept in FOLDER: a measurement that was stopped, by Ctrl-C or by a machine that went down, goes on where it
was when the same command runs again; runs that are done are not repeated. Data comes from Debian's bible-kjv and
mmseqs2-examples. All runs with two jobs of one thread each take about four hours on two cores. Time and memory are
measured at the end, one model at a time: leave the machine alone then.
"""
import argparse
import functools
import json
import pathlib
import subprocess

from runs import TRAINED, Group, Runs, call, do_all, keep, model_of, shown

PROTEINS = "/usr/share/doc/mmseqs2/example-data/DB.fasta.gz"

EXACT, IDENTITY = "--attention exact", "--attention identity"
POSITIVE, RELU = "--map positive --features 64", "--map relu --features 64"
FORGETTING = f"{RELU} --decay token"
TAYLOR = "--map taylor --feature-dim 16"
WINDOW = "--window 32"


def mixed(heads):
    """Half of the heads, those of short memory, forget; the others see everything through the Taylor map."""
    return f"--features 64 --heads-of relu:{heads // 2}:decay=token,taylor:{heads // 2}:dim=16"


def recall(pairs):
    """As many tokens and questions for each number of pairs: noise takes the place of those that are not there."""
    return f"task:recall,pairs={pairs},symbols=128,questions=128,distance={2 * (128 - pairs)}"


GROUPS = {
    "text": Group("kjv-begin.txt", "--width 192 --layers 3 --heads 6 --ff 768 --convolution 4", "rotary",
                  f"--split-by blocks --length 256 --batch 16 --steps 1800 --eval-every 600 {TRAINED}", {
        "exact": (EXACT, 3),
        "FAVOR+ (positive)": (POSITIVE, 3),
        "relu": (RELU, 3),
        "relu, token decay": (FORGETTING, 3),
        "taylor, token decay": (f"{TAYLOR} --decay token", 1),
        "half relu with token decay, half taylor": (mixed(6), 1),
        "the same, no positions": (f"{mixed(6)} --positions none", 3),
        "exact-window, 32": (f"--attention exact-window {WINDOW}", 3),
        "window of relu, 32": (f"--attention window {RELU} {WINDOW}", 3),
        "hybrid with relu, 32": (f"--attention hybrid {RELU} {WINDOW}", 3),
        "local-gaussian": ("--map local-gaussian --features 64", 3),
        "local-laplace": ("--map local-laplace --features 64", 1),
        "local-ball": ("--map local-ball --features 64", 1),
        "local-laplace, width 32": ("--map local-laplace --features 64 --local-width 32", 1),
    }, "bits_per_token", {
        "blocks": ("bits per byte, held-out blocks of Genesis to Acts", "--split valid"),
        "books": ("bits per byte, Romans to Revelation", "--data kjv-end.txt"),
    }),
    "proteins": Group(PROTEINS, "--preset tiny --convolution 4", "rotary",
                      f"--length 256 --batch 8 --steps 600 {TRAINED}", {
        "exact": (EXACT, 3),
        "identity": (IDENTITY, 3),
        "FAVOR+ (positive)": (POSITIVE, 3),
        "relu": (RELU, 3),
        "relu, token decay": (FORGETTING, 3),
        "taylor, token decay": (f"{TAYLOR} --decay token", 1),
        "half relu with token decay, half taylor": (mixed(4), 1),
    }, "loss", {"test": ("nats per residue", "--split test")}),
    "recall": Group("task:recall,pairs=128,distance=0,mixed_pairs=1",
                    "--width 128 --layers 2 --heads 2 --ff 256 --convolution 3", "none",
                    f"--batch 16 --steps 2500 {TRAINED}", {
        "taylor": (TAYLOR, 1),
        "half relu with token decay, half taylor": (mixed(2), 1),
        "exact": (EXACT, 1),
        "FAVOR+ (positive, 256 features)": ("--map positive --features 256", 1),
        "relu, 128 features": ("--map relu --features 128", 1),
        "relu, token decay": (FORGETTING, 1),
    }, "accuracy", {str(pairs): (f"share of {pairs} pairs recalled", f"--data {recall(pairs)}") for pairs in (16, 32, 64, 128)}),
    "listops": Group("task:listops", "--preset tiny --width 64 --ff 256 --convolution 3", "rotary",
                     f"--task classify --batch 32 --steps 600 {TRAINED}", {
        "exact": (EXACT, 1), "relu": (RELU, 1), "FAVOR+ (positive)": (POSITIVE, 1),
    }, "accuracy", {"valid": ("share of classes right", "--split valid")}),
}


def measure(runs, name, kind, seed):
    """Trains one model unless that is done, and returns what favor eval says of it: {evaluation: figure}."""
    group = GROUPS[name]
    run = f"{name}-{list(group.kinds).index(kind)}-{seed}"
    result = runs.folder / f"{run}.figures.json"
    if result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    options = f"{model_of(group, kind)} {group.training}"
    runs.train(run, ["--data", group.data, "--seed", str(seed), *options.split()])
    return keep(result, {evaluation: runs.evaluate(run, options)[group.field]
                         for evaluation, (_, options) in group.evaluations.items()})


def cost(runs, name, kind):
    """Parameters; of language models also the time of training at the run's shape and, of decoders, the time of generation
    and bytes of a state after 256 tokens."""
    group, folder = GROUPS[name], runs.folder
    run = f"{name}-{list(group.kinds).index(kind)}"
    result = folder / f"{run}.cost.json"
    if result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    config = json.loads((folder / f"{run}-1" / "config.json").read_text(encoding="utf-8"))
    model, training = config["model"], config["training"]

    def bench(what, *options):
        written = folder / f"{run}.bench.json"
        call([runs.favor, "bench", what, *model_of(group, kind).split(), *options,
              "--causal" if model["causal"] else "--no-causal", "--vocab", str(model["vocab"]),
              *runs.place.split(), "--quiet", "--json", written.name], folder, runs.log(run))
        row = json.loads(written.read_text(encoding="utf-8"))["rows"][0]
        written.unlink()
        return row

    found = {"parameters": runs.inspect(f"{run}-1")["parameters"]}
    if model["classes"] == 0:
        step = bench("train", "--lengths", str(training["length"]), "--batch", str(training["batch"]), "--dropout", "0")
        found["training"] = 1e6 / step["tokens_per_second"]
    if model["classes"] == 0 and model["causal"]:
        generation = bench("generate", "--prefixes", "256")
        found |= {"state": generation["state_bytes"], "generation": 1e6 / generation["tokens_per_second"]}
    return keep(result, found)


def table(name, figures, costs):
    """One row per kind. Differences from exact attention, and shares of its gain, are taken seed by seed."""
    group, digits = GROUPS[name], 4 if name == "proteins" else 3
    columns = []
    for evaluation, (unit, _) in group.evaluations.items():
        columns += [unit] + ([] if name == "recall" else ["share of the gain" if name == "proteins" else "minus exact"])
    print(f"\n| {name} | {' | '.join(columns)} | parameters | training, µs/token | state, bytes | generation, µs/token |")
    print("|---" * (len(columns) + 5) + "|")
    for kind, runs in figures.items():
        cells = []
        for evaluation in group.evaluations:
            of = {k: [figure[evaluation] for _, figure in sorted(f.items())] for k, f in figures.items()}
            cells.append(shown(of[kind], digits))
            pairs = list(zip(of[kind], of["exact"]))
            if name == "proteins":
                cells.append(f"{shown([100 * (i - v) / (i - e) for (v, e), i in zip(pairs, of['identity'])], 0)} %")
            elif name != "recall":
                cells.append("" if kind == "exact" else shown([v - e for v, e in pairs], digits))
        c = costs[kind]
        training = f"{c['training']:.0f}" if "training" in c else ""
        generation = f"{c['state']} | {c['generation']:.0f}" if "state" in c else " | "
        print(f"| {kind} | {' | '.join(cells)} | {c['parameters']} | {training} | {generation} |")


def write_text(folder):
    """The King James Bible: what models learn from, and its last books, which they do not see."""
    for name, verses in (("kjv-begin.txt", "gen1:1-acts28:31"), ("kjv-end.txt", "rom1:1-rev22:21")):
        if not (folder / name).exists():
            text = subprocess.run(["bible", "-f", verses], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
            (folder / name).write_bytes(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("favor")
    parser.add_argument("folder")
    parser.add_argument("--only", default=",".join(GROUPS))
    parser.add_argument("--seeds", type=int, default=3, help="at most so many seeds of each kind")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args()
    favor, folder = str(pathlib.Path(a.favor).resolve()), pathlib.Path(a.folder)
    folder.mkdir(parents=True, exist_ok=True)
    groups = a.only.split(",")
    if "text" in groups:
        write_text(folder)
    runs = Runs(favor, folder, f"--threads {a.threads}")
    measured = do_all(a.jobs, {(name, kind, seed): functools.partial(measure, runs, name, kind, seed)
                               for name in groups for seed in range(1, a.seeds + 1)
                               for kind, (_, seeds) in GROUPS[name].kinds.items() if seed <= seeds})
    for name in groups:
        figures = {kind: {} for kind in GROUPS[name].kinds}
        for (group, kind, seed), figure in measured.items():
            if group == name:
                figures[kind][seed] = figure
        table(name, figures, {kind: cost(runs, name, kind) for kind in GROUPS[name].kinds})


if __name__ == "__main__":
    main()
