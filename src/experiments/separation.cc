#include "experiments/separation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error_text.h"
#include "core/parallel.h"
#include "favor/error.h"

namespace favor::experiments {
namespace {

constexpr int64_t kTrialsPerTask = 16;

// The rows of the identity that d columns leave: d less those of other columns.
int64_t GroupsOf(int64_t tokens, int64_t dim, int64_t less, Stack stack) {
  const int64_t groups = dim - less;
  if (groups < 1 || tokens < 2)
    Throw(ErrorCode::kInvalidOption, "separation",
          "given n = {} and d = {}, expected n ≥ 2 and d ≥ {}", tokens, dim, less + 1);
  if (stack == Stack::kWhole && tokens % groups != 0)
    Throw(ErrorCode::kInvalidOption, "separation",
          "given n = {} and d = {}, expected n to be a multiple of d − {}; --allow cuts off the "
          "last copy of the identity",
          tokens, dim, less);
  return groups;
}

Tokens NoTokens(int64_t dim) {
  return {.rows = {.columns = dim, .values = {}}, .order = {}, .counts = {}};
}

// Adds a kind of tokens; it has none yet.
double* AddKind(Tokens& tokens) {
  tokens.counts.push_back(0);
  tokens.rows.values.resize(tokens.rows.values.size() + static_cast<size_t>(tokens.rows.columns));
  return tokens.rows[tokens.rows.size() - 1];
}

void AddToken(int64_t kind, Tokens& tokens) {
  tokens.order.push_back(kind);
  ++tokens.counts[static_cast<size_t>(kind)];
}

// n tokens in groups that take turns, and one special token among them.
struct GroupShape {
  int64_t tokens, dim, groups, special;
};
// The kind of the special token is the first, then come those of the groups. `make` fills the row
// of a kind.
template <class Make>
Tokens GroupedTokens(const GroupShape& shape, const Make& make) {
  const auto& [n, dim, groups, special] = shape;
  Tokens tokens = NoTokens(dim);
  make(AddKind(tokens), special % groups, true);
  std::vector<int64_t> kinds(static_cast<size_t>(groups), -1);  // of the groups
  for (int64_t group = 0; group < std::min(groups, n); ++group) {
    const int64_t size = (n - group + groups - 1) / groups;
    if (size == 1 && group == special % groups) continue;  // there is no other token in its group
    make(AddKind(tokens), group, false);
    kinds[static_cast<size_t>(group)] = tokens.rows.size() - 1;
  }
  for (int64_t j = 0; j < n; ++j)
    AddToken(j == special ? 0 : kinds[static_cast<size_t>(j % groups)], tokens);
  return tokens;
}

double Product(const double* a, const double* b, int64_t dim, Between between) {
  double dot = 0, sum_a = 0, sum_b = 0;
  for (int64_t i = 0; i < dim; ++i) {
    dot += a[i] * b[i];
    sum_a += a[i];
    sum_b += b[i];
  }
  return between == Between::kIdentity ? dot : sum_a * sum_b;
}

Events Judge(const std::array<bool, 4>& fired) {
  Events events{.trials = 1, .separated = fired[0] && !fired[1] && !fired[2] && !fired[3] ? 1 : 0};
  for (size_t i = 0; i < 4; ++i) events.fired[i] = fired[i] ? 1 : 0;
  return events;
}

template <class One>
Events OverTrials(int64_t count, const Context& context, const One& one) {
  return ParallelReduce(
      context, count, kTrialsPerTask, Events{},
      [&](int64_t begin, int64_t end) {
        Events events;
        for (int64_t trial = begin; trial < end; ++trial) events += one(trial);
        return events;
      },
      [](Events& total, const Events& part) { total += part; });
}

}  // namespace

Events& Events::operator+=(const Events& other) {
  trials += other.trials;
  separated += other.separated;
  for (size_t i = 0; i < 4; ++i) fired[i] += other.fired[i];
  return *this;
}

TokenData SelfTokens(const SelfParameters& p) {
  const int64_t groups = GroupsOf(p.tokens, p.dim, 2, p.stack);
  const double root = std::sqrt(std::log(static_cast<double>(p.tokens)));
  const Tokens tokens = GroupedTokens({p.tokens, p.dim, groups, p.special},
                                      [&](double* row, int64_t group, bool special) {
                                        row[0] = special ? p.a * root : 0;
                                        row[1 + group] = p.b * root;
                                        row[p.dim - 1] = p.c * root;
                                      });
  return {.queries = tokens, .keys = tokens, .values = tokens.rows};
}

TokenData CrossTokens(const CrossParameters& p) {
  const int64_t groups = GroupsOf(p.tokens, p.dim, 1, p.stack);
  const double log = std::log(static_cast<double>(p.tokens));
  Tokens queries = NoTokens(p.dim);
  for (const bool special : {true, false}) {
    double* row = AddKind(queries);
    row[0] = special ? p.a * log : 0;
    std::fill(row + 1, row + p.dim, log);
  }
  for (int64_t j = 0; j < p.tokens; ++j) AddToken(j == 0 ? 0 : 1, queries);
  const Tokens keys = GroupedTokens({p.tokens, p.dim, groups, /*special=*/0},
                                    [](double* row, int64_t group, bool special) {
                                      row[0] = special ? 1 : 0;
                                      row[1 + group] = 1;
                                    });
  return {.queries = queries, .keys = keys, .values = keys.rows};
}

TokenData OnSpanOfKeys(const TokenData& data) {
  const Rows& keys = data.keys.rows;
  const int64_t dim = keys.columns;
  std::vector<double> mean(static_cast<size_t>(dim));
  double tokens = 0;
  for (int64_t j = 0; j < keys.size(); ++j) {
    const auto count = static_cast<double>(data.keys.counts[static_cast<size_t>(j)]);
    tokens += count;
    for (int64_t c = 0; c < dim; ++c) mean[static_cast<size_t>(c)] += count * keys[j][c];
  }
  Rows centred = keys, basis{.columns = dim, .values = {}};
  for (int64_t j = 0; j < keys.size(); ++j) {
    for (int64_t c = 0; c < dim; ++c) centred[j][c] -= mean[static_cast<size_t>(c)] / tokens;
    // What earlier directions leave of the key, taken twice for rounding.
    std::vector<double> rest(centred[j], centred[j] + dim);
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t b = 0; b < basis.size(); ++b) {
        const double along = Product(rest.data(), basis[b], dim, Between::kIdentity);
        for (int64_t c = 0; c < dim; ++c) rest[static_cast<size_t>(c)] -= along * basis[b][c];
      }
    }
    const double norm = std::sqrt(Product(rest.data(), rest.data(), dim, Between::kIdentity));
    if (norm < 1e-9) continue;
    for (const double value : rest) basis.values.push_back(value / norm);
  }
  const auto in_basis = [&](const Rows& rows) {
    Rows result{.columns = basis.size(), .values = {}};
    for (int64_t i = 0; i < rows.size(); ++i) {
      for (int64_t b = 0; b < basis.size(); ++b)
        result.values.push_back(Product(rows[i], basis[b], dim, Between::kIdentity));
    }
    return result;
  };
  TokenData on_span = data;
  on_span.queries.rows = in_basis(data.queries.rows);
  on_span.keys.rows = in_basis(centred);
  return on_span;
}

Rows OutputsOf(const TokenData& data, Between between, Weighting weighting) {
  const Rows &queries = data.queries.rows, &keys = data.keys.rows, &values = data.values;
  Rows outputs{.columns = values.columns,
               .values = std::vector<double>(static_cast<size_t>(queries.size() * values.columns))};
  std::vector<double> logits(static_cast<size_t>(keys.size()));
  for (int64_t i = 0; i < queries.size(); ++i) {
    for (int64_t j = 0; j < keys.size(); ++j)
      logits[static_cast<size_t>(j)] = Product(queries[i], keys[j], keys.columns, between);
    const double largest = std::ranges::max(logits);
    double sum = 0;
    for (int64_t j = 0; j < keys.size(); ++j) {
      const double logit = logits[static_cast<size_t>(j)];
      const double weight = (weighting == Weighting::kSoftmax ? std::exp(logit - largest) : logit) *
                            static_cast<double>(data.keys.counts[static_cast<size_t>(j)]);
      sum += weight;
      for (int64_t c = 0; c < values.columns; ++c) outputs[i][c] += weight * values[j][c];
    }
    for (int64_t c = 0; c < values.columns; ++c) outputs[i][c] /= sum;
  }
  return outputs;
}

Rows Distinct(const Rows& rows) {
  std::set<std::vector<double>> seen;
  Rows distinct{.columns = rows.columns, .values = {}};
  for (int64_t i = 0; i < rows.size(); ++i) {
    const std::vector<double> row(rows[i], rows[i] + rows.columns);
    if (seen.insert(row).second)
      distinct.values.insert(distinct.values.end(), row.begin(), row.end());
  }
  return distinct;
}

bool Fires(const Rows& outputs, const Rows& signs, double threshold) {
  for (int64_t i = 0; i < outputs.size(); ++i) {
    for (int64_t l = 0; l < signs.size(); ++l) {
      double dot = 0;
      for (int64_t c = 0; c < outputs.columns; ++c) dot += outputs[i][c] * signs[l][c];
      if (dot > threshold) return true;
    }
  }
  return false;
}

Rows SignsOf(int64_t hidden, int64_t dim, const RandomStream& trial) {
  Rows signs{.columns = dim, .values = std::vector<double>(static_cast<size_t>(hidden * dim))};
  constexpr int64_t kBits = 64;  // one bit for each sign
  uint64_t bits = 0;
  for (int64_t i = 0; i < hidden * dim; ++i) {
    if (i % kBits == 0) bits = trial.Bits(static_cast<uint64_t>(i / kBits));
    signs.values[static_cast<size_t>(i)] = bits >> (i % kBits) & 1 ? -1.0 : 1.0;
  }
  return signs;
}

FourOutputs OutputsOfFour(const TokenData& one, const TokenData& zero, Between between) {
  return {OutputsOf(one, between, Weighting::kSoftmax), OutputsOf(one, between, Weighting::kLinear),
          OutputsOf(zero, between, Weighting::kSoftmax),
          OutputsOf(zero, between, Weighting::kLinear)};
}

Events CountEvents(const FourOutputs& outputs, const Trials& trials, const RandomStream& stream,
                   const Context& context) {
  return OverTrials(trials.count, context, [&](int64_t trial) {
    const Rows signs =
        SignsOf(trials.hidden, outputs[0].columns, stream.Child(static_cast<uint64_t>(trial)));
    std::array<bool, 4> fired{};
    for (size_t i = 0; i < 4; ++i) fired[i] = Fires(outputs[i], signs, trials.threshold);
    return Judge(fired);
  });
}

Events CountRegressionEvents(int64_t tokens, const Trials& trials, const RandomStream& stream,
                             const Context& context) {
  const auto n = static_cast<size_t>(tokens);
  const double log = std::log(static_cast<double>(tokens));
  return OverTrials(trials.count, context, [&](int64_t trial) {
    const RandomStream own = stream.Child(static_cast<uint64_t>(trial));
    const RandomStream ones = own.Child(1), zeros = own.Child(2);
    std::array<Rows, 4> outputs;
    outputs.fill({.columns = tokens, .values = std::vector<double>(n)});
    const auto special = static_cast<size_t>(own.Child(3).Uniform(0) * static_cast<double>(tokens));
    for (const bool one : {true, false}) {
      Rows &softmax = outputs[one ? 0 : 2], &linear = outputs[one ? 1 : 3];
      double largest = 0, sum = 0, exponentials = 0;
      for (size_t i = 0; i < n; ++i) {
        const double drawn = (one ? ones : zeros).Uniform(i);
        linear.values[i] = (one && i == special ? 4 : 1 + 0.4 * drawn) * log;
        largest = std::max(largest, linear.values[i]);
      }
      for (size_t i = 0; i < n; ++i) {
        softmax.values[i] = std::exp(linear.values[i] - largest);
        exponentials += softmax.values[i];
        sum += linear.values[i];
      }
      for (size_t i = 0; i < n; ++i) {
        softmax.values[i] /= exponentials;
        linear.values[i] /= sum;
      }
    }
    const Rows signs = SignsOf(trials.hidden, tokens, own.Child(4));
    std::array<bool, 4> fired{};
    for (size_t i = 0; i < 4; ++i) fired[i] = Fires(outputs[i], signs, trials.threshold);
    return Judge(fired);
  });
}

std::string Share::ToText() const {
  return fmt::format("{:.3f} ({:.3f}–{:.3f})", value, low, high);
}

Share ShareOf(int64_t hits, int64_t trials) {
  constexpr double kZ = 1.959964;
  const auto n = static_cast<double>(trials);
  const double p = static_cast<double>(hits) / n, square = kZ * kZ / n;
  const double middle = (p + square / 2) / (1 + square),
               half = kZ / (1 + square) * std::sqrt(p * (1 - p) / n + square / (4 * n));
  return {.value = p, .low = std::max(0.0, middle - half), .high = std::min(1.0, middle + half)};
}

}  // namespace favor::experiments
