#!/usr/bin/env python3
"""Trains models of 10.7 M parameters on proteins and on text, and prints the tables of docs/training.md ("On a GPU").

    bench/quality/large_data.py FOLDER          # the data, from Debian packages
    bench/quality/measure_large.py build/release/favor FOLDER --device cuda [--only proteins,text]
                                   [--kinds exact,relu,positive,forgetting,mixed] [--seeds N] [--jobs N] [--minutes N] [--with OPTIONS]

Everything is kept in FOLDER: the same command continues a measurement that was stopped, and `--minutes N` begins no run
after that time. The time of a run counts if it ran alone: with --jobs 1, which is the default. `--with "--steps 4000"` replaces options of
every favor train; use another FOLDER then. Tables show what there is so far.
"""
import argparse
import functools
import json
import pathlib
import statistics

from runs import TRAINED, Group, Runs, do_all, keep, mean_and_error, model_of, shown, words

# 2000 steps of 16,384 tokens. omega in bf16 is what a GPU's fast kernels need, and f32 evaluations read the same numbers.
MODEL = "--width 384 --layers 6 --heads 6 --ff 1536 --convolution 4 --features 256 --omega-type bf16"
TRAINING = f"{TRAINED} --length 1024 --batch 16 --steps 2000 --warmup 200 --learning-rate 1e-3 --eval-every 500 --save-every 0"
KINDS = {
    "exact": ("--attention exact", 3),
    "relu": ("--map relu", 3),
    "positive": ("--map positive", 3),
    "forgetting": ("--map relu --decay token", 3),
    "mixed": ("--heads-of relu:3:decay=token,taylor:3:dim=16", 3),
}
GROUPS = {
    # Proteins follow each other, so that no token is padding.
    "proteins": Group("proteins.fasta", MODEL, "rotary",
                      f"{TRAINING} --layout join --valid-share 0.02 --test-share 0.03 --held-out held_out.txt", KINDS,
                      "perplexity", {
        "test": ("test", "--split test"),
        "families": ("held-out families", "--split held-out"),
    }),
    "text": Group("text.txt", MODEL, "rotary", f"{TRAINING} --split-by blocks", KINDS, "bits_per_token", {
        "test": ("test", "--split test"),
    }),
}
UNITS = {"perplexity": "perplexity", "bits_per_token": "bits per byte"}


def measure(runs, name, kind, seed, others, alone):
    """Trains one model unless that is done, and returns what is said of it."""
    group = GROUPS[name]
    run = f"{name}-{kind}-{seed}"
    result = runs.folder / f"{run}.figures.json"
    if result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    runs.train(run, words(f"--data {group.data} --seed {seed}", model_of(group, kind), group.training, others))
    steps, _ = runs.lines(run)
    tokens = [after["tokens"] - before["tokens"] for before, after in zip([{"tokens": 0}] + steps, steps)]
    found = {"alone": alone, "parameters": runs.inspect(run)["parameters"],
             "seconds": sum(n / step["tokens_per_second"] for n, step in zip(tokens, steps)),
             "tokens_per_second": statistics.median(step["tokens_per_second"] for step in steps)}
    for evaluation, (_, options) in group.evaluations.items():
        figures = runs.evaluate(run, options)
        found[evaluation] = {field: figures[field] for field in ("tokens", "loss", "accuracy", "perplexity", "bits_per_token")}
    return keep(result, found)


def headline(found):
    return f"loss {found['test']['loss']:.4f} on the test split, {found['seconds']:.1f} s, {found['tokens_per_second']:,.0f} tokens/s"


def table(name, figures):
    """One row per kind. Differences from exact attention are taken seed by seed."""
    group = GROUPS[name]
    columns = [column for title, _ in group.evaluations.values()
               for column in (f"{title}: {UNITS[group.field]}", "minus exact", "accuracy")]
    print(f"\n| {name} | {' | '.join(columns)} | parameters | training, s | tokens/s |")
    print("|---" * (len(columns) + 4) + "|")
    for kind, runs in figures.items():
        cells = []
        for evaluation in group.evaluations:
            values = {seed: run[evaluation][group.field] for seed, run in runs.items()}
            exact = {seed: run[evaluation][group.field] for seed, run in figures.get("exact", {}).items()}
            differences = [values[seed] - exact[seed] for seed in values if seed in exact]
            cells.append(shown(list(values.values()), 3))
            cells.append(shown(differences, 3) if differences and kind != "exact" else "")
            cells.append(f"{mean_and_error([100 * run[evaluation]['accuracy'] for run in runs.values()], 2)} %")
        alone = [run for run in runs.values() if run.get("alone", True)]
        for field, digits in (("seconds", ".1f"), ("tokens_per_second", ",.0f")) if alone else ():
            cells.append(format(statistics.mean(run[field] for run in alone), digits))
        parameters = next(iter(runs.values()))["parameters"]
        print(f"| {kind} | {' | '.join(cells[:len(columns)])} | {parameters} | {' | '.join(cells[len(columns):] or ['', ''])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("favor")
    parser.add_argument("folder")
    parser.add_argument("--only", default=",".join(GROUPS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--with", default="", dest="others", metavar="OPTIONS")
    a = parser.parse_args()
    runs = Runs(str(pathlib.Path(a.favor).resolve()), pathlib.Path(a.folder),
                f"--device {a.device}{'' if a.device == 'cpu' else ' --precision bf16'}")
    groups, kinds = a.only.split(","), a.kinds.split(",")
    measured = do_all(a.jobs, {(name, kind, seed): functools.partial(measure, runs, name, kind, seed, a.others, a.jobs == 1)
                               for seed in range(1, a.seeds + 1) for name in groups for kind in kinds}, a.minutes, say=headline)
    for name in groups:
        figures = {}
        for (group, kind, seed), figure in measured.items():
            if group == name:
                figures.setdefault(kind, {})[seed] = figure
        table(name, figures)


if __name__ == "__main__":
    main()
