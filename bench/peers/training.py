"""A training step of favor next to the same model in PyTorch, on the CPU, f32, in one run.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python bench/peers/training.py build/release/favor [--presets tiny,regular] [--lengths 256,2048]
        [--attentions exact,linear,identity] [--threads N] [--rounds N] [--no-compile]

Causal models with pre-norm, learned positions, GELU, tied output weights, dropout 0.1 and AdamW on both sides; tokens are
noise. favor and PyTorch (eager, and through torch.compile) take turns; the shortest time of each counts. A ratio above 1
means that favor is faster. With identity attention neither side computes queries and keys.
"""
import argparse
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from attention import draw_omega, linear_causal, rows_of_favor

VOCAB, DROPOUT = 258, 0.1
# Layers, width, heads, feed-forward, features: the presets of favor.
PRESETS = {
    "tiny": (2, 128, 4, 512, 64),
    "small": (6, 64, 1, 64, 256),
    "regular": (6, 512, 8, 2048, 256),
    "protein": (36, 512, 8, 1024, 256),
}


class Block(nn.Module):
    def __init__(self, preset, attention):
        super().__init__()
        _, width, heads, ff, count = preset
        self.heads, self.attention = heads, attention
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        names = ["value"] if attention == "identity" else ["query", "key", "value"]
        self.projections = nn.ModuleDict({name: nn.Linear(width, width) for name in names})
        self.output, self.up, self.down = nn.Linear(width, width), nn.Linear(width, ff), nn.Linear(ff, width)
        self.register_buffer("omega", draw_omega(width // heads, count))

    def attend(self, x):
        batch, length, width = x.shape
        heads = {
            name: layer(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for name, layer in self.projections.items()
        }
        if self.attention == "identity":
            out = heads["value"]
        elif self.attention == "exact":
            out = F.scaled_dot_product_attention(heads["query"], heads["key"], heads["value"], is_causal=True)
        else:
            out = linear_causal(heads["query"], heads["key"], heads["value"], self.omega)
        return self.output(out.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + F.dropout(self.attend(self.norms[0](x)), DROPOUT)
        return x + F.dropout(self.down(F.gelu(self.up(self.norms[1](x)))), DROPOUT)


class Model(nn.Module):
    def __init__(self, preset, attention, length):
        super().__init__()
        layers, width = preset[:2]
        self.tokens, self.positions = nn.Embedding(VOCAB, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(preset, attention) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = F.dropout(self.tokens(tokens) + self.positions.weight, DROPOUT)
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.t()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class TorchStep:
    def __init__(self, preset, attention, batch, length, compiled):
        model = Model(preset, attention, length)
        self.run = torch.compile(model, dynamic=False) if compiled else model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        self.parameters = list(model.parameters())
        self.tokens, self.targets = torch.randint(VOCAB, (2, batch, length))

    def seconds(self):
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        self.run(self.tokens, self.targets).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return time.perf_counter() - start


def seconds_of_favor(options, preset, attention, batch, length):
    words = [options.favor, "bench", "train", "--preset", preset, "--attention", attention, "--length", length]
    words += ["--batch", batch, "--threads", options.threads, "--dropout", DROPOUT]
    row = rows_of_favor(*words)[0]
    return row["seconds"], row["share_of_sgemm"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("favor")
    parser.add_argument("--presets", default="tiny,regular")
    parser.add_argument("--lengths", default="256,2048")
    parser.add_argument("--attentions", default="exact,linear,identity")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, {options.threads} threads; tokens/s, and favor / PyTorch")
    for preset in options.presets.split(","):
        for length in map(int, options.lengths.split(",")):
            batch = max(1, 2048 // length)
            for attention in options.attentions.split(","):
                ways = {"eager": False} if options.no_compile else {"eager": False, "compiled": True}
                steps = {
                    way: TorchStep(PRESETS[preset], attention, batch, length, compiled)
                    for way, compiled in ways.items()
                }
                for step in steps.values():
                    step.seconds()  # compiles
                best, ours, share = {way: float("inf") for way in steps}, float("inf"), None
                for _ in range(options.rounds):
                    seconds, share = seconds_of_favor(options, preset, attention, batch, length)
                    ours = min(ours, seconds)
                    for way, step in steps.items():
                        best[way] = min([best[way]] + [step.seconds() for _ in range(3)])
                tokens = batch * length
                theirs = "  ".join(f"{way} {tokens / time:7.0f} {time / ours:5.2f}" for way, time in best.items())
                of_sgemm = "" if share is None else f"  ({100 * share:.0f} % of sgemm)"
                print(f"{preset:8s} {batch} × {length:5d}  {attention:8s} favor {tokens / ours:7.0f}{of_sgemm}  {theirs}",
                      flush=True)


if __name__ == "__main__":
    main()
