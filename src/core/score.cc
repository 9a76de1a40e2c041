#include "favor/score.h"

#include <cmath>

namespace favor {

Score& Score::operator+=(const Score& other) {
  loss += other.loss;
  correct += other.correct;
  count += other.count;
  return *this;
}
double Score::MeanLoss() const { return loss / static_cast<double>(count); }
double Score::Accuracy() const { return static_cast<double>(correct) / static_cast<double>(count); }
double Score::Perplexity() const { return std::exp(MeanLoss()); }
double Score::BitsPerToken() const { return MeanLoss() / std::log(2.0); }

}  // namespace favor
