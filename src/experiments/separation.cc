#include "experiments/separation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error_text.h"
#include "core/parallel.h"
#include "favor/attention.h"
#include "favor/error.h"

namespace favor::experiments {
namespace {

constexpr int64_t kTrialsPerTask = 16;

void CheckMultiple(int64_t tokens, int64_t dim, int64_t less) {
  const int64_t group = dim - less;
  if (group < 1 || tokens < group || tokens % group != 0)
    Throw(ErrorCode::kInvalidOption, "separation",
          "given n = {} and d = {}, expected n to be a multiple of d − {}", tokens, dim, less);
}

// Adds a token that occurs `count` times.
double* Add(int64_t count, Tokens& tokens) {
  tokens.counts.push_back(count);
  tokens.rows.values.resize(tokens.rows.values.size() + static_cast<size_t>(tokens.rows.columns));
  return tokens.rows[tokens.rows.size() - 1];
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

// Every token as f32, for Attend; rows of one number, their sum, if X is of ones: then the logit is
// the product of two numbers.
Tensor AsTensor(const Rows& rows, const std::vector<int64_t>& counts, Between between,
                double factor) {
  const int64_t columns = rows.columns, width = between == Between::kIdentity ? columns : 1;
  const int64_t length = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  Tensor tensor({length, width});
  float* out = tensor.Data<float>();
  for (int64_t row = 0; row < rows.size(); ++row) {
    const double* values = rows[row];
    for (int64_t time = 0; time < counts[static_cast<size_t>(row)]; ++time) {
      if (width == columns) {
        for (int64_t i = 0; i < columns; ++i) *out++ = static_cast<float>(factor * values[i]);
      } else {
        double sum = 0;
        for (int64_t i = 0; i < columns; ++i) sum += values[i];
        *out++ = static_cast<float>(factor * sum);
      }
    }
  }
  return tensor;
}

Rows Call(const TokenData& data, Between between, double gain, const AttentionOptions& options,
          const Context& context) {
  const Tensor q = AsTensor(data.queries.rows, data.queries.counts, between, gain),
               k = AsTensor(data.keys.rows, data.keys.counts, between, 1 / gain),
               v = AsTensor(data.values, data.keys.counts, Between::kIdentity, 1);
  const Tensor out = Attend(q, k, v, options, context);
  Rows outputs{.columns = data.values.columns, .values = {}};
  for (int64_t i = 0; i < out.shape().Elements(); ++i)
    outputs.values.push_back(static_cast<double>(out.Data<float>()[i]));
  return outputs;
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

TokenData SelfTokens(const SelfParameters& parameters) {
  const auto& [n, d, a, b, c] = parameters;
  CheckMultiple(n, d, 2);
  const double root = std::sqrt(std::log(static_cast<double>(n)));
  const int64_t groups = d - 2, times = n / groups;
  Tokens tokens{.rows = {.columns = d, .values = {}}, .counts = {}};
  const auto add = [&, first_column = a, b = b, c = c, d = d](int64_t count, int64_t group,
                                                              bool special) {
    double* row = Add(count, tokens);
    row[0] = special ? first_column * root : 0;
    row[1 + group] = b * root;
    row[d - 1] = c * root;
  };
  add(1, 0, true);
  if (times > 1) add(times - 1, 0, false);
  for (int64_t group = 1; group < groups; ++group) add(times, group, false);
  return {.queries = tokens, .keys = tokens, .values = tokens.rows};
}

TokenData CrossTokens(const CrossParameters& parameters) {
  const auto& [n, d, a] = parameters;
  CheckMultiple(n, d, 1);
  const double log = std::log(static_cast<double>(n));
  TokenData data{.queries = {.rows = {.columns = d, .values = {}}, .counts = {}},
                 .keys = {.rows = {.columns = d, .values = {}}, .counts = {}},
                 .values = {}};
  for (const bool special : {true, false}) {
    double* row = Add(special ? 1 : n - 1, data.queries);
    row[0] = special ? a * log : 0;
    std::fill(row + 1, row + d, log);
  }
  const int64_t groups = d - 1, times = n / groups;
  double* row = Add(1, data.keys);
  row[0] = row[1] = 1;
  if (times > 1) Add(times - 1, data.keys)[1] = 1;
  for (int64_t group = 1; group < groups; ++group) Add(times, data.keys)[1 + group] = 1;
  data.values = data.keys.rows;
  return data;
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
  return {.queries = {.rows = in_basis(data.queries.rows), .counts = data.queries.counts},
          .keys = {.rows = in_basis(centred), .counts = data.keys.counts},
          .values = data.values};
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

Rows FeatureOutputsOf(const TokenData& data, Between between, const FeatureAttention& attention,
                      uint64_t redraw, const Context& context) {
  const int64_t dim = between == Between::kIdentity ? data.keys.rows.columns : 1;
  const auto plan = FeaturePlan::Draw(attention.features, 1, dim, context.seed(), redraw);
  return Call(data, between, attention.gain,
              {.scale = 1, .plan = plan, .center_keys = attention.center_keys}, context);
}

Rows ExactOutputsOf(const TokenData& data, Between between, const Context& context) {
  return Call(data, between, 1, {.attention = "exact", .scale = 1}, context);
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
