// How well a model predicts.
#ifndef FAVOR_SCORE_H_
#define FAVOR_SCORE_H_

#include <cstdint>

namespace favor {

// How well targets were predicted, summed over `count` of them; means over no targets are NaN.
struct Score {
  double loss = 0;  // Σ −log p(target), nats
  int64_t correct = 0, count = 0;

  Score& operator+=(const Score& other);
  double MeanLoss() const;  // nats per target
  double Accuracy() const;
  double Perplexity() const;
  double BitsPerToken() const;
};

}  // namespace favor

#endif  // FAVOR_SCORE_H_
