"""Attention of favor next to PyTorch's, on the CPU, f32, in one run.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python bench/peers/attention.py build/release/favor [--threads N] [--rounds N] [--lengths 1024,4096]

Exact attention is compared with scaled_dot_product_attention, linear attention (FAVOR+, positive features, 8 heads of
64, m = 256) with the same formula in PyTorch through torch.compile; causal with chunks of 128 rows and cumulative sums.
favor and PyTorch take turns; the shortest time of each counts. A ratio above 1 means that favor is faster.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F

HEADS, DIM, FEATURES, CHUNK = 8, 64, 256, 128


def draw_omega(dim, count):
    blocks = [torch.linalg.qr(torch.randn(dim, dim))[0].t() for _ in range((count + dim - 1) // dim)]
    return torch.cat(blocks)[:count] * torch.randn(count, dim).norm(dim=1, keepdim=True)


def features(x, omega, of_queries):
    x = x * x.shape[-1] ** -0.25
    exponents = x @ omega.t()
    largest = exponents.amax(-1 if of_queries else (-1, -2), keepdim=True).detach()
    return torch.exp(exponents - (x**2).sum(-1, keepdim=True) / 2 - largest) + 1e-4


def linear(q, k, v, omega):
    q, k = features(q, omega, True), features(k, omega, False)
    return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(-2).unsqueeze(-1))


def linear_causal(q, k, v, omega):
    q, k = features(q, omega, True), features(k, omega, False)
    batch, heads, length, _ = q.shape
    chunk = min(CHUNK, length)
    q, k, v = (x.reshape(batch, heads, length // chunk, chunk, -1) for x in (q, k, v))
    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    states = (k.transpose(-1, -2) @ v).cumsum(2)
    before = torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], 2)
    sums = q @ before + (q @ k.transpose(-1, -2)).tril() @ v
    return (sums[..., :-1] / sums[..., -1:]).reshape(batch, heads, length, -1)


def seconds_of_torch(function, arrays, backward):
    start = time.perf_counter()
    out = function(*arrays)
    if backward:
        torch.autograd.grad(out, arrays, out.detach())
    return time.perf_counter() - start


def rows_of_favor(*words):
    """What `favor bench …` measures: the rows of its JSON file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.json")
        words += ("--rounds", 3, "--quiet", "--json", path)
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["rows"]


def seconds_of_favor(favor, length, causal, backward, threads):
    """Of exact and linear attention; each the shortest of three times of one process."""
    words = [favor, "bench", "attention", "--lengths", length, "--heads", HEADS, "--dim", DIM]
    words += ["--features", FEATURES, "--threads", threads]
    words += ["--causal"] * causal + ["--backward"] * backward
    return {row["attention"]: row["seconds"] for row in rows_of_favor(*words)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("favor")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", default="1024,4096")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    omega = draw_omega(DIM, FEATURES)
    compiled = {False: torch.compile(linear, dynamic=False), True: torch.compile(linear_causal, dynamic=False)}
    print(f"PyTorch {torch.__version__}, {options.threads} threads; seconds, and PyTorch / favor")
    for length in map(int, options.lengths.split(",")):
        arrays = [(torch.randn(1, HEADS, length, DIM) / 2).requires_grad_() for _ in range(3)]
        for causal in (False, True):
            peers = {
                "exact": lambda q, k, v, causal=causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
                "linear": lambda q, k, v, causal=causal: compiled[causal](q, k, v, omega),
            }
            for backward in (False, True):
                best = {kind: [float("inf"), float("inf")] for kind in peers}
                for peer in peers.values():
                    seconds_of_torch(peer, arrays, backward)  # compiles
                for _ in range(options.rounds):
                    mine = seconds_of_favor(options.favor, length, causal, backward, options.threads)
                    for kind, peer in peers.items():
                        theirs = min(seconds_of_torch(peer, arrays, backward) for _ in range(3))
                        best[kind] = [min(best[kind][0], theirs), min(best[kind][1], mine[kind])]
                for kind, (theirs, ours) in best.items():
                    name = f"{kind}{', causal' if causal else ''}, {'forward and backward' if backward else 'forward'}"
                    print(f"L = {length:5d}  {name:38s} {theirs:8.4f} {ours:8.4f}  {theirs / ours:5.2f}", flush=True)


if __name__ == "__main__":
    main()
