"""Runs of favor train that continue where they were stopped: what the measurements of this folder share."""
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time
import typing

TRAINED = "--paper --dropout 0 --redraw 0 --learning-rate 2e-3 --eval-batches 0"


class Group(typing.NamedTuple):
    """Models that differ in their attention alone, trained on the same data and evaluated in the same ways."""
    data: str
    model: str  # options of all its models
    positions: str  # of those whose own options do not say
    training: str  # other options of favor train
    kinds: dict  # name: (options, number of seeds)
    field: str  # of the JSON of favor eval
    evaluations: dict  # name: (what it measures, options of favor eval)


def model_of(group, kind):
    """Options of one model."""
    own = group.kinds[kind][0]
    positions = "" if "--positions" in own else f" --positions {group.positions}"
    return f"{group.model} {own}{positions}"


def words(*options):
    """Options of a command; later ones take the place of earlier ones."""
    chosen = {}
    for word in " ".join(options).split():
        if word.startswith("--"):
            values = chosen[word] = []
        else:
            values.append(word)
    return [word for option, values in chosen.items() for word in (option, *values)]


def call(command, folder, log):
    """What the command prints; it must succeed."""
    with open(log, "a", encoding="utf-8") as out:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=out, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}, see {log}")
    return done.stdout


def keep(path, value):
    """Written whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.rename(path)
    return value


class Runs(typing.NamedTuple):
    """A folder of runs, and how favor runs there."""
    favor: str
    folder: pathlib.Path
    place: str  # options of every favor train and favor eval: threads, device

    def train(self, run, options):
        """Trains the run `run`, or what is left of it."""
        call([*self.training(run, options), *self.place.split()], self.folder, self.log(run))

    def training(self, run, options):
        """The command that begins a run or continues it."""
        return [self.favor, "train", "--out", run, "--resume", *options, "--no-report", "--quiet"]

    def evaluate(self, run, options):
        """What favor eval says of it."""
        return json.loads(call([self.favor, "eval", "--model", run, *options.split(), *self.place.split(), "--json", "--quiet"],
                               self.folder, self.log(run)))

    def inspect(self, run):
        """What favor inspect model says of it."""
        return json.loads(call([self.favor, "inspect", "model", "--model", run, "--json"], self.folder, self.log(run)))

    def log(self, run):
        return self.folder / f"{run}.log"

    def lines(self, run):
        """What the run logged: its steps and its evaluations."""
        lines = [json.loads(line) for line in (self.folder / run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if "split" not in line], [line for line in lines if "split" in line]


def do_all(jobs, work, minutes=math.inf, say=str):
    """{key: what work[key]() returns}, `jobs` at a time, begun in the order of `work`; what has not begun after `minutes` is
    left out. Says on stderr what is done."""
    results, end = {}, time.monotonic() + 60 * minutes
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        began = {pool.submit(lambda one=one: one() if time.monotonic() < end else None): key for key, one in work.items()}
        try:
            for job in concurrent.futures.as_completed(began):
                if job.result() is not None:
                    results[began[job]] = job.result()
                    print(f"{', '.join(map(str, began[job]))}: {say(job.result())}", file=sys.stderr)
        except BaseException:  # Ctrl-C, or a run that failed: those that have begun end as the signal tells them
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return {key: results[key] for key in work if key in results}


def mean_and_error(values, digits):
    """With the standard error of the mean, if there is one."""
    text = f"{statistics.mean(values):.{digits}f}"
    return f"{text} ± {statistics.stdev(values) / math.sqrt(len(values)):.{digits}f}" if len(values) > 1 else text


def shown(values, digits):
    """The same with the values themselves."""
    text = mean_and_error(values, digits)
    return text if len(values) == 1 else f"{text} ({', '.join(f'{v:.{digits}f}' for v in values)})"
