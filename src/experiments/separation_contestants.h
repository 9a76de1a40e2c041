// The contestants of the experiment separation-features.
#ifndef FAVOR_EXPERIMENTS_SEPARATION_CONTESTANTS_H_
#define FAVOR_EXPERIMENTS_SEPARATION_CONTESTANTS_H_

#include <vector>

#include "experiments/contestant.h"

namespace favor::experiments {

// With random features, as many as are asked for: every softmax map as it is and with centred keys,
// for cross-attention also with queries and keys of the same length, and polynomials of degree 8.
std::vector<Contestant> DrawnForSelf();
std::vector<Contestant> DrawnForOnes();
std::vector<Contestant> DrawnForCross();

// Nothing about them is random: exact attention, the paper's linear attention, polynomials of the
// logit, uniform attention, and softmax over near tokens. Degrees are the highest whose features
// fit.
std::vector<Contestant> FixedForSelf();
std::vector<Contestant> FixedForOnes();
std::vector<Contestant> FixedForCross();

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_SEPARATION_CONTESTANTS_H_
