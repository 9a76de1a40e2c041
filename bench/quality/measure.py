"""Trains the models of docs/training.md ("When is linear attention as good as softmax?") and prints its tables.

    bench/quality/measure.py build/release/favor FOLDER [--only text,books,proteins,recall,listops] [--jobs N] [--threads N]

Everything is kept in FOLDER: a measurement that was stopped, by Ctrl-C or by a machine that went down, goes on where it
was when the same command runs again; runs that are done are not repeated. Data comes from Debian's bible-kjv and
mmseqs2-examples. All runs with two jobs of one thread each take about four hours on two cores.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess
import sys

PROTEINS = "/usr/share/doc/mmseqs2/example-data/DB.fasta.gz"
BOTH = "--positions rotary --dropout 0 --redraw 0 --learning-rate 2e-3"
TEXT = f"--width 192 --layers 3 --heads 6 --ff 768 --convolution 4 --length 256 --batch 16 --steps 1800 --eval-batches 0 {BOTH}"
PROTEIN = f"--preset tiny --convolution 4 --length 256 --batch 8 --steps 600 --eval-batches 0 {BOTH}"
RECALL = f"--width 128 --layers 2 --heads 2 --ff 256 --convolution 3 --batch 16 --steps 2500 --eval-batches 16 {BOTH}"
LISTOPS = f"--task classify --preset tiny --width 64 --ff 256 --convolution 3 --batch 32 --steps 600 --eval-batches 0 {BOTH}"

EXACT, IDENTITY = "--attention exact", "--attention identity"
POSITIVE, RELU = "--map positive --features 64", "--map relu --features 64"
FORGETTING = f"{RELU} --decay token"
TAYLOR = "--map taylor --feature-dim 16"


def mixed(heads):
    """Half of the heads, those of short memory, forget; the others see everything through the Taylor map."""
    return f"--features 64 --heads-of relu:{heads // 2}:decay=token,taylor:{heads // 2}:dim=16"


# Group: data, options, split of the evaluation, field of its JSON, {kind: (options, number of seeds)}.
TEXT_KINDS = {
    "exact": (EXACT, 3),
    "FAVOR+ (positive)": (POSITIVE, 3),
    "relu": (RELU, 3),
    "relu, token decay": (FORGETTING, 3),
    "taylor, token decay": (f"{TAYLOR} --decay token", 1),
    "half relu with token decay, half taylor": (mixed(6), 1),
}
GROUPS = {
    "proteins": (PROTEINS, PROTEIN, "test", "loss", {
        "exact": (EXACT, 3),
        "identity": (IDENTITY, 3),
        "FAVOR+ (positive)": (POSITIVE, 3),
        "relu": (RELU, 3),
        "relu, token decay": (FORGETTING, 3),
        "taylor, token decay": (f"{TAYLOR} --decay token", 1),
        "half relu with token decay, half taylor": (mixed(4), 1),
    }),
    "recall": ("task:recall,pairs=128,distance=0,mixed_pairs=1", RECALL, "valid", "accuracy", {
        "taylor": (TAYLOR, 1),
        "half relu with token decay, half taylor": (mixed(2), 1),
        "exact": (EXACT, 1),
        "FAVOR+ (positive, 256 features)": ("--map positive --features 256", 1),
        "relu, 128 features": ("--map relu --features 128", 1),
        "relu, token decay": (FORGETTING, 1),
    }),
    "text": ("kjv.txt", f"{TEXT} --split-by blocks", "valid", "bits_per_token", TEXT_KINDS),
    "books": ("kjv.txt", f"{TEXT} --split-by place", "test", "bits_per_token", TEXT_KINDS),
    "listops": ("task:listops", LISTOPS, "valid", "accuracy", {
        "exact": (EXACT, 1), "relu": (RELU, 1), "FAVOR+ (positive)": (POSITIVE, 1)}),
}
UNITS = {"text": "bits per byte, held-out blocks", "books": "bits per byte, the last books", "proteins": "nats per residue",
         "recall": "share of 128 pairs recalled", "listops": "share of classes right"}


def call(command, folder, log):
    with open(log, "a", encoding="utf-8") as out:
        return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=out, text=True, check=False)


def measure(favor, folder, group, kind, seed, threads):
    """Trains one model unless that is done, and returns what favor eval says of it."""
    data, options, split, _, kinds = GROUPS[group]
    name = f"{group}-{list(kinds).index(kind)}-{seed}"
    result, log = folder / f"{name}.json", folder / f"{name}.log"
    if result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    words = options.split() + kinds[kind][0].split()
    if (folder / name).exists():
        train = [favor, "train", "--out", name, "--resume"]
    else:
        train = [favor, "train", "--data", data, "--out", name, "--seed", str(seed), *words]
    train += ["--threads", str(threads), "--quiet"]
    done = call(train, folder, log)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: favor train ended with {done.returncode}, see {log}")
    def ask(*words):
        answer = call([favor, *words, "--model", name, "--json"], folder, log)
        if answer.returncode != 0:
            raise RuntimeError(f"{name}: favor {words[0]} ended with {answer.returncode}, see {log}")
        return json.loads(answer.stdout)

    score = ask("eval", "--split", split, "--threads", str(threads))
    score["parameters"] = ask("inspect", "model")["parameters"]
    written = result.with_suffix(".part")
    written.write_text(json.dumps(score), encoding="utf-8")
    written.rename(result)
    return score


def error_of(values):
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def shown(values, digits):
    text = f"{statistics.mean(values):.{digits}f}"
    error = error_of(values)
    return text if error is None else f"{text} ± {error:.{digits}f} ({', '.join(f'{v:.{digits}f}' for v in values)})"


def table(group, scores):
    field, digits = GROUPS[group][3], 4 if group == "proteins" else 3
    of = {kind: [score[field] for _, score in sorted(runs.items())] for kind, runs in scores.items() if runs}
    print(f"\n| {group} | {UNITS[group]} | {'share of the gain' if group == 'proteins' else 'minus exact'} | parameters |")
    print("|---|---|---|---|")
    for kind, values in of.items():
        exact = of.get("exact", [])
        pairs = list(zip(values, exact))
        note = ""
        if group == "proteins" and "identity" in of:
            shares = [100 * (i - v) / (i - e) for v, e, i in zip(values, exact, of["identity"])]
            note = f"{shown(shares, 0)} %"
        elif pairs and kind != "exact":
            note = shown([v - e for v, e in pairs], digits)
        parameters = next(iter(scores[kind].values()))["parameters"]
        print(f"| {kind} | {shown(values, digits)} | {note} | {parameters} |")


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
    text = folder / "kjv.txt"
    if not text.exists():
        book = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              check=True).stdout
        text.write_bytes(book)
    groups = a.only.split(",")
    scores = {group: {kind: {} for kind in GROUPS[group][4]} for group in groups}
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        jobs = {}
        for group in groups:
            for seed in range(1, a.seeds + 1):
                for kind, (_, seeds) in GROUPS[group][4].items():
                    if seed <= seeds:
                        jobs[pool.submit(measure, favor, folder, group, kind, seed, a.threads)] = (group, kind, seed)
        try:
            for job in concurrent.futures.as_completed(jobs):
                group, kind, seed = jobs[job]
                scores[group][kind][seed] = job.result()
                print(f"{group}, {kind}, seed {seed}: {scores[group][kind][seed][GROUPS[group][3]]:.4f}", file=sys.stderr)
        except BaseException:  # Ctrl-C, or a run that failed: those that have begun end as the signal tells them
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    for group in groups:
        table(group, scores[group])


if __name__ == "__main__":
    main()
