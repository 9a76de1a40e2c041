// Telling D1 from D0 as a task to learn. The data sets of self-attention (SelfTokens) with noise in
// the column that tells them apart: token j has a√ln n·[j is the special one] + σ z_j there, with
// a = a1 in D1 and a = a0 in D0, z_j normal and the special token anywhere. No two examples are
// alike, so that nothing can be memorised; and with σ = 0 nothing is left to learn, because weights
// that are the first column itself find the special token whatever the attention.
//
// The noise grows slower than the signal: the largest of n noises is about σ√(2 ln n), and the
// special token is beyond it if a1 > √2 σ. But Σ_j x_j, Σ_j x_j², … grow their own noise, like √n:
// who sees only such sums loses the token as n grows. The best test of all is the likelihood ratio,
// in which each token counts exp(x_j·a1√ln n/σ²): a sum of exponentials, as softmax has it.
#ifndef FAVOR_EXPERIMENTS_SEPARATION_TASK_H_
#define FAVOR_EXPERIMENTS_SEPARATION_TASK_H_

#include <cstdint>
#include <vector>

#include "favor/random.h"
#include "favor/tensor.h"

namespace favor::experiments {

struct SeparationTask {
  int64_t tokens = 64, dim = 10;
  double a0 = 0.01, a1 = 1.2, b = 0.2, c = 0.8;
  double noise = 0.48;  // σ

  double Shift(bool one) const;  // a√ln n of D1 or D0
};

struct SeparationExamples {
  Tensor rows;                  // [count·tokens, dim], f32
  std::vector<int32_t> labels;  // [count]; 1: D1

  int64_t count() const { return std::ssize(labels); }
};

// Each label is drawn with probability 1/2. The same numbers for any number of threads.
SeparationExamples DrawExamples(const SeparationTask& task, int64_t count,
                                const RandomStream& stream);

// Two tests that are computed, not learned: how many examples each gets right.
// The likelihood ratio of D1 and D0: no network is better on average.
int64_t RightByLikelihood(const SeparationTask& task, const SeparationExamples& examples);
// Σ_j x_j² of the first column, against the middle of its means in D0 and D1.
int64_t RightBySquares(const SeparationTask& task, const SeparationExamples& examples);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_SEPARATION_TASK_H_
