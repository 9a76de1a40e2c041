#include "kernels/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/context_impl.h"
#include "kernels/cpu/feature_panel.h"
#include "kernels/cpu/tile.h"
#include "kernels/output_row.h"

namespace favor::kernels::cpu {
namespace {

constexpr float kLeastDenominator = 0x1p-90f;
constexpr float kLeastExponent = -62.4f;  // log of the above

int64_t CountKeys(const float* mask, int64_t begin, int64_t end) {
  if (mask == nullptr) return end - begin;
  return std::count_if(mask + begin, mask + end, [](float value) { return value != 0; });
}

// Keys of a chunk against a state: their new maxima, then their features relative to these.
class KeyChunk {
 public:
  KeyChunk(const HeadFeatures& head, int64_t max_rows, int64_t value_dim, const Context& context)
      : head_(head),
        panel_(head, max_rows, context),
        values_(context, max_rows * value_dim),
        sum_(context, value_dim),
        maximum_(static_cast<size_t>(head.Width())),
        decay_(maximum_.size()),
        signed_logs_(context,
                     head.map->traits->has_factor ? (max_rows + kLanes) * head.Width() : 0) {}

  void Compute(const KeyRows& rows, int64_t begin, int64_t end, const PrefixState& state) {
    count_ = end - begin;
    tokens_ = CountKeys(rows.mask, begin, end);
    panel_.ComputeKeys(rows.keys, begin, count_, rows.mean, rows.sqrt_scale, rows.mask);
    LoadRows(rows.values, begin, count_, rows.mask, values_.data());
    const int64_t width = head_.Width();
    for (int64_t r = 0; r < width; ++r) {
      const auto i = static_cast<size_t>(r);
      float largest = -INFINITY;
      for (int64_t tile = 0; tile < Tiles(); ++tile)
        largest = std::max(largest, MaxOverLanes(panel_.Exponents(tile) + r * kLanes));
      maximum_[i] = std::max(state.c[i], static_cast<double>(largest) + panel_.base());
      decay_[i] = state.IsEmpty() ? 0.0f : static_cast<float>(std::exp(state.c[i] - maximum_[i]));
    }
    if (tokens_ == 0) return;
    for (int64_t tile = 0; tile < Tiles(); ++tile) {
      float* exponents = panel_.Exponents(tile);
      const float* factors = panel_.Factors(tile);
      for (int64_t r = 0; r < width; ++r) {
        const auto shift = static_cast<float>(panel_.base() - maximum_[static_cast<size_t>(r)]);
        // At most 0 but for rounding, which may be large where exponents are astronomic.
        const Lanes log_weight = Min(LoadLanes(exponents + r * kLanes) + shift, Lanes{});
        Lanes weight = Exp(log_weight);
        if (head_.map->traits->has_factor) {
          StoreLanes(log_weight, LogWeights(tile) + r * kLanes);
          weight *= LoadLanes(factors + r * kLanes);
        }
        StoreLanes(weight, exponents + r * kLanes);
      }
    }
  }

  // S ← decay·S + Σ_j K'_j v_jᵀ, z likewise: the chunk's own sums in float, the state's in double.
  void AddTo(PrefixState& state) const {
    const int64_t width = head_.Width(), dv = state.value_dim;
    if (tokens_ == 0) return;
    for (int64_t r = 0; r < width; ++r) {
      const auto i = static_cast<size_t>(r);
      float* sum = sum_.data();
      std::fill_n(sum, dv, 0.0f);
      float weights = 0;
      for (int64_t row = 0; row < count_; ++row) {
        const float weight = Weights(row / kLanes)[r * kLanes + row % kLanes];
        const float* value = values_.data() + row * dv;
        weights += weight;
        for (int64_t v = 0; v < dv; ++v) sum[v] += weight * value[v];
      }
      const double decay = state.IsEmpty() ? 0 : std::exp(state.c[i] - maximum_[i]);
      double* s = state.s.data() + r * dv;
      for (int64_t v = 0; v < dv; ++v) s[v] = decay * s[v] + sum[v];
      state.z[i] = decay * state.z[i] + weights;
      state.c[i] = maximum_[i];
    }
    state.tokens += tokens_;
  }

  int64_t Tiles() const { return (count_ + kLanes - 1) / kLanes; }
  int64_t tokens() const { return tokens_; }
  const float* Weights(int64_t tile) const {
    return panel_.Exponents(tile);
  }  // K', [width, kLanes]
  float* LogWeights(int64_t tile) const {
    return signed_logs_.data() + tile * head_.Width() * kLanes;
  }
  const float* values() const { return values_.data(); }
  const std::vector<double>& maximum() const { return maximum_; }
  const std::vector<float>& decay() const { return decay_; }

 private:
  const HeadFeatures& head_;
  FeaturePanel panel_;
  Scratch<float> values_;  // [rows, value_dim]
  Scratch<float> sum_;     // [value_dim]
  std::vector<double> maximum_;
  std::vector<float> decay_;
  Scratch<float> signed_logs_;
  int64_t count_ = 0, tokens_ = 0;
};

// Queries of a tile against maxima c: weights w = exp(F − ρ) g in place of exponents.
struct QueryWeights {
  QueryWeights(const HeadFeatures& head, const std::vector<double>& c, float* exponents,
               const float* factors) {
    double largest = -INFINITY;
    for (const double value : c) largest = std::max(largest, value);
    base = largest;
    const int64_t width = head.Width();
    for (int64_t r = 0; r < width; ++r) {
      const auto shift = static_cast<float>(c[static_cast<size_t>(r)] - largest);
      StoreLanes(LoadLanes(exponents + r * kLanes) + shift, exponents + r * kLanes);
    }
    const Lanes rho_lanes = MaxOverRows(exponents, width, Fill(-INFINITY));
    StoreLanes(rho_lanes, rho);
    for (int64_t r = 0; r < width; ++r) {
      Lanes weight = Exp(Min(LoadLanes(exponents + r * kLanes) - rho_lanes, Lanes{}));
      if (head.map->traits->has_factor) weight *= LoadLanes(factors + r * kLanes);
      StoreLanes(weight, exponents + r * kLanes);
    }
  }

  float rho[kLanes];
  double base;  // the true ρ is rho + base + the row's own norm term + normalisers
};

// A state's sums in float, for products with float weights.
class FloatState {
 public:
  FloatState(const PrefixState& state, const Context& context)
      : value_dim_(state.value_dim),
        width_(state.width),
        memory_(context, width_ * (value_dim_ + 1)) {
    Refresh(state);
  }

  void Refresh(const PrefixState& state) const {
    std::copy(state.s.begin(), state.s.end(), memory_.data());
    std::copy(state.z.begin(), state.z.end(), memory_.data() + width_ * value_dim_);
  }

  // Numerators [value_dim, kLanes], then the denominator [kLanes].
  void Read(const float* weights, float* sums) const {
    Multiply({memory_.data(), 1, value_dim_}, value_dim_, width_, weights, /*add=*/false, sums);
    Multiply({memory_.data() + width_ * value_dim_, 1, 1}, 1, width_, weights, /*add=*/false,
             sums + value_dim_ * kLanes);
  }

 private:
  int64_t value_dim_, width_;
  Scratch<float> memory_;
};

// One pass over the causal rows of a range, which keeps its buffers from chunk to chunk.
class CausalPass {
 public:
  CausalPass(const HeadFeatures& head, const QueryRows& queries, const KeyRows& keys,
             int64_t max_rows, const Context& context, PrefixState& state, const OutputRows& out)
      : head_(head),
        query_rows_(queries),
        key_rows_(keys),
        state_(state),
        float_state_(state, context),
        out_(out),
        queries_(head, max_rows, context),
        keys_(head, max_rows, state.value_dim, context),
        sums_(context, (state.value_dim + 1 + kLanes) * kLanes),
        decayed_(context, head.Width() * kLanes),
        reach_(static_cast<size_t>(head.Width())) {}

  RowCounts Run(int64_t begin, int64_t end) {
    RowCounts counts;
    queries_.ComputeQueries(query_rows_.queries, begin, end - begin, query_rows_.sqrt_scale);
    keys_.Compute(key_rows_, begin, end, state_);
    int64_t seen = state_.tokens;
    for (size_t r = 0; r < reach_.size(); ++r)
      reach_[r] = keys_.decay()[r] == 0 ? -INFINITY : std::log(keys_.decay()[r]);
    for (int64_t tile = 0; tile < keys_.Tiles(); ++tile) {
      if (!Tile(begin, end, tile, seen, counts)) {  // some row lost its denominator to later keys
        const int64_t middle = begin + (end - begin) / 2;
        RowCounts first = Run(begin, middle);
        return first += Run(middle, end);
      }
    }
    keys_.AddTo(state_);
    float_state_.Refresh(state_);
    return counts;
  }

 private:
  // Rows begin + tile·kLanes …; false where a smaller chunk must do it.
  bool Tile(int64_t begin, int64_t end, int64_t tile, int64_t& seen, RowCounts& counts) {
    const int64_t width = head_.Width(), dv = state_.value_dim;
    const int64_t first = begin + tile * kLanes, lanes = std::min(kLanes, end - first);
    float* weights = queries_.Exponents(tile);
    const QueryWeights query(head_, keys_.maximum(), weights, queries_.Factors(tile));
    float *numerator = sums_.data(), *denominator = numerator + dv * kLanes,
          *products = denominator + kLanes;
    if (state_.IsEmpty()) {
      std::fill_n(numerator, (dv + 1) * kLanes, 0.0f);
    } else {
      for (int64_t r = 0; r < width; ++r) {
        StoreLanes(LoadLanes(weights + r * kLanes) * keys_.decay()[static_cast<size_t>(r)],
                   decayed_.data() + r * kLanes);
      }
      float_state_.Read(decayed_.data(), sums_.data());
    }
    for (int64_t other = 0; keys_.tokens() > 0 && other <= tile; ++other) {
      const int64_t keys = std::min(kLanes, end - begin - other * kLanes);
      Multiply({keys_.Weights(other), 1, kLanes}, keys, width, weights, /*add=*/false, products);
      if (other == tile) {  // a query sees keys up to itself
        for (int64_t key = 0; key < keys; ++key) std::fill_n(products + key * kLanes, key, 0.0f);
      }
      Multiply({keys_.values() + other * kLanes * dv, 1, dv}, dv, keys, products, /*add=*/true,
               numerator);
      const float one = 1;
      Multiply({&one, 0, 0}, 1, keys, products, /*add=*/true, denominator);
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const bool exists = key_rows_.mask == nullptr || key_rows_.mask[first + lane] != 0;
      seen += exists ? 1 : 0;
      if (seen > 0 && end - begin > 1 && Lost(tile, lane, exists, denominator[lane])) return false;
      const double log_scale = query.rho[lane] + query.base +
                               queries_.RowBase(first + lane - begin) + 2 * head_.log_normalizer +
                               query_rows_.MeanShift(first + lane);
      counts += StoreRow(
          out_, first + lane, dv, seen > 0, log_scale,
          [&](int64_t v) { return numerator[v * kLanes + lane]; }, denominator[lane]);
    }
    return true;
  }

  // Whether all that the row may see lies so far below the chunk's maxima that it drowned. Positive
  // maps show it in the denominator. Signed ones can have a small one by nature, but one exponent
  // for all features: the largest in reach decides.
  bool Lost(int64_t tile, int64_t lane, bool exists, float denominator) {
    if (head_.map->traits->info.nonnegative) return denominator < kLeastDenominator;
    float largest = -INFINITY;
    for (int64_t r = 0; r < head_.Width(); ++r) {
      float& reach = reach_[static_cast<size_t>(r)];
      if (exists) reach = std::max(reach, keys_.LogWeights(tile)[r * kLanes + lane]);
      largest = std::max(largest, reach);
    }
    return largest < kLeastExponent;
  }

  const HeadFeatures& head_;
  const QueryRows& query_rows_;
  const KeyRows& key_rows_;
  PrefixState& state_;
  FloatState float_state_;
  const OutputRows& out_;
  FeaturePanel queries_;
  KeyChunk keys_;
  Scratch<float> sums_;       // numerators, denominators and one tile of q·k products
  Scratch<float> decayed_;    // query weights for the state before the chunk
  std::vector<float> reach_;  // log of the largest key weight seen so far, per feature
};

}  // namespace

void AppendKeys(const HeadFeatures& head, const KeyRows& rows, int64_t begin, int64_t end,
                const Context& context, PrefixState& state) {
  KeyChunk chunk(head, std::min(kDefaultChunk, end - begin), state.value_dim, context);
  for (int64_t first = begin; first < end; first += kDefaultChunk) {
    chunk.Compute(rows, first, std::min(end, first + kDefaultChunk), state);
    chunk.AddTo(state);
  }
}

RowCounts ReadQueries(const HeadFeatures& head, const QueryRows& rows, int64_t begin, int64_t end,
                      const PrefixState& state, const Context& context, const OutputRows& out) {
  const int64_t dv = state.value_dim;
  FeaturePanel panel(head, kLanes, context);
  const FloatState float_state(state, context);
  const Scratch<float> sums(context, (dv + 1) * kLanes);
  RowCounts counts;
  for (int64_t first = begin; first < end; first += kLanes) {
    const int64_t lanes = std::min(kLanes, end - first);
    if (state.IsEmpty()) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        counts += StoreRow(
            out, first + lane, dv, false, -INFINITY, [](int64_t) { return 0.0f; }, 0);
      }
      continue;
    }
    panel.ComputeQueries(rows.queries, first, lanes, rows.sqrt_scale);
    const QueryWeights query(head, state.c, panel.Exponents(0), panel.Factors(0));
    float_state.Read(panel.Exponents(0), sums.data());
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const double log_scale = query.rho[lane] + query.base + panel.RowBase(lane) +
                               2 * head.log_normalizer + rows.MeanShift(first + lane);
      counts += StoreRow(
          out, first + lane, dv, true, log_scale,
          [&](int64_t v) { return sums[v * kLanes + lane]; }, sums[dv * kLanes + lane]);
    }
  }
  return counts;
}

RowCounts Causal(const HeadFeatures& head, const QueryRows& queries, const KeyRows& keys,
                 int64_t begin, int64_t end, int64_t chunk, const Context& context,
                 PrefixState& state, const OutputRows& out) {
  CausalPass pass(head, queries, keys, std::min(chunk, end - begin), context, state, out);
  RowCounts counts;
  for (int64_t first = begin; first < end; first += chunk)
    counts += pass.Run(first, std::min(end, first + chunk));
  return counts;
}

}  // namespace favor::kernels::cpu
