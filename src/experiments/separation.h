// Two data sets that one token tells apart, and networks of one attention layer and m hidden units
// that try to (Deng, Song and Zhou, Superiority of Softmax, 2023). A network fires if some output c
// of its attention and some column y of random signs have ⟨c, y⟩ > τ; it separates the data sets if
// it fires on D1 and not on D0.
#ifndef FAVOR_EXPERIMENTS_SEPARATION_H_
#define FAVOR_EXPERIMENTS_SEPARATION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/verdict.h"
#include "favor/context.h"
#include "favor/random.h"

namespace favor::experiments {

// A matrix by rows.
struct Rows {
  int64_t columns = 0;
  std::vector<double> values;

  int64_t size() const { return columns > 0 ? static_cast<int64_t>(values.size()) / columns : 0; }
  const double* operator[](int64_t row) const { return values.data() + row * columns; }
  double* operator[](int64_t row) { return values.data() + row * columns; }
};

// Tokens, each kind of them once: equal queries have equal outputs, and equal keys count together.
struct Tokens {
  Rows rows;
  std::vector<int64_t> order;   // the kind of each token, by its place
  std::vector<int64_t> counts;  // tokens of each kind
};
struct TokenData {
  Tokens queries, keys;
  Rows values;  // of the keys
};

// What to do with a number of tokens that the rows of the identity do not divide.
enum class Stack : uint8_t {
  kWhole,  // an error that states the rule
  kCut,    // the last copy of the identity is cut off after n rows
};

// n tokens of dim d: the first column is a√ln n at one token and 0 elsewhere, columns 2 … d − 1
// repeat b√ln n times the identity, the last is c√ln n. n must be a multiple of d − 2.
struct SelfParameters {
  int64_t tokens = 200, dim = 22;
  double a = 0, b = 0.2, c = 0.8;
  int64_t special = 0;  // the place of the one token
  Stack stack = Stack::kWhole;
};
TokenData SelfTokens(const SelfParameters& parameters);

// Queries: the first column is a ln n at one token, all others are ln n. Keys: e_1 at one token,
// and columns 2 … d repeat the identity. n must be a multiple of d − 1.
struct CrossParameters {
  int64_t tokens = 200, dim = 11;
  double a = 0;
  Stack stack = Stack::kWhole;
};
TokenData CrossTokens(const CrossParameters& parameters);

// Queries and centred keys in coordinates of the span of the centred keys: softmax attention does
// not see the rest of a query.
TokenData OnSpanOfKeys(const TokenData& data);

// What is between queries and keys in the logit q X kᵀ.
enum class Between : uint8_t { kIdentity, kOnes };
// Weights of attention: exponentials of the logits, or the logits themselves, divided by their sum.
enum class Weighting : uint8_t { kSoftmax, kLinear };

// Outputs of attention for each kind of query.
Rows OutputsOf(const TokenData& data, Between between, Weighting weighting);

// Each row once: a network fires on them as it does on all.
Rows Distinct(const Rows& rows);

// Whether some output and some column of signs have a product above the threshold.
bool Fires(const Rows& outputs, const Rows& signs, double threshold);
// Signs [hidden][dim] of one trial; all networks of a trial share them.
Rows SignsOf(int64_t hidden, int64_t dim, const RandomStream& trial);

// How often each network fired.
struct Events {
  int64_t trials = 0,
          separated = 0;           // softmax does what it should, and linear attention never fires
  std::array<int64_t, 4> fired{};  // softmax on D1, linear on D1, softmax on D0, linear on D0

  Events& operator+=(const Events& other);
};

// Outputs of the four networks, in the order of Events::fired.
using FourOutputs = std::array<Rows, 4>;
FourOutputs OutputsOfFour(const TokenData& one, const TokenData& zero, Between between);

struct Trials {
  int64_t count = 0, hidden = 0;
  double threshold = 0;
};
// The same numbers for any number of threads.
Events CountEvents(const FourOutputs& outputs, const Trials& trials, const RandomStream& stream,
                   const Context& context);

// Softmax regression: n logits, uniform between 1 and 1.4 times ln n and drawn anew in each trial;
// in D1 one of them is 4 ln n. The output is the vector of weights itself.
Events CountRegressionEvents(int64_t tokens, const Trials& trials, const RandomStream& stream,
                             const Context& context);

// A share of trials with Wilson's 95 % interval.
struct Share {
  double value = 0, low = 0, high = 0;

  std::string ToText() const;  // "0.65 (0.55–0.74)"
};
Share ShareOf(int64_t hits, int64_t trials);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_SEPARATION_H_
