"""Attention of favor next to PyTorch's exact attention, on one GPU, bf16, in one run.

    python3 bench/peers/gpu_attention.py build/cuda/pack-test/favor [--lengths 1024,4096,16384] [--rounds 3]

PyTorch computes scaled_dot_product_attention, held to flash attention and to cuDNN; favor linear attention with 256
positive features and exact attention; 8 heads of 64, batch 1. Both sides replay CUDA graphs; medians in milliseconds.
A ratio is the faster PyTorch over favor's linear attention: above 1, favor is faster.
"""
import argparse
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention import DIM, FEATURES, HEADS, rows_of_favor

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
SECONDS_OF_SAMPLE = 2e-3


def graph_of(work):
    """`work` as a graph, once it has run in a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def median_milliseconds(graph, samples):
    def sample(calls):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / calls

    sample(1)
    calls = min(100, max(1, round(1e3 * SECONDS_OF_SAMPLE / sample(3))))
    return statistics.median(sample(calls) for _ in range(samples))


def milliseconds_of_torch(backend, length, causal, backward, samples):
    q, k, v = (
        torch.randn(1, HEADS, length, DIM, device="cuda", dtype=torch.bfloat16, requires_grad=backward)
        for _ in range(3)
    )
    grad_out = torch.randn_like(v)

    def work():
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        if backward:
            torch.autograd.grad(out, (q, k, v), grad_out)

    with sdpa_kernel(BACKENDS[backend]):
        return median_milliseconds(graph_of(work), samples)


def milliseconds_of_favor(favor, lengths, causal, backward):
    """By length: of linear and of exact attention."""
    words = [favor, "bench", "attention", "--device", "cuda", "--lengths", ",".join(map(str, lengths))]
    words += ["--heads", HEADS, "--dim", DIM, "--features", FEATURES, "--exact-up-to", max(lengths)]
    words += ["--causal"] * causal + ["--backward"] * backward
    times = {length: {} for length in lengths}
    for row in rows_of_favor(*words):
        times[row["length"]][row["attention"]] = 1e3 * row["seconds"]
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("favor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", default="1024,2048,4096,16384")
    options = parser.parse_args()
    lengths = [int(length) for length in options.lengths.split(",")]
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}; milliseconds")
    print(f"{'':31s} {'flash':>8s} {'cudnn':>8s} {'exact':>8s} {'linear':>8s}  ratio")
    for causal in (False, True):
        for backward in (False, True):
            ours = milliseconds_of_favor(options.favor, lengths, causal, backward)
            for length in lengths:
                theirs = [
                    milliseconds_of_torch(backend, length, causal, backward, 5 * options.rounds)
                    for backend in BACKENDS
                ]
                name = f"{'forward and backward' if backward else 'forward'}{', causal' if causal else ''}"
                linear, exact = ours[length]["linear"], ours[length]["exact"]
                print(
                    f"{length:6d}, {name:28s} {theirs[0]:8.3f} {theirs[1]:8.3f} {exact:8.3f} {linear:8.3f}"
                    f"  {min(theirs) / linear:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
