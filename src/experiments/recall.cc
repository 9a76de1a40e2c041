#include "experiments/recall.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/parallel.h"
#include "favor/attention.h"
#include "favor/random.h"
#include "favor/state.h"

namespace favor::experiments {
namespace {

// Normal numbers scaled to rows of norm 1.
Tensor UnitRows(int64_t count, int64_t dim, const RandomStream& stream) {
  Tensor rows({count, dim});
  std::vector<double> row(static_cast<size_t>(dim));
  for (int64_t i = 0; i < count; ++i) {
    stream.FillNormal(static_cast<uint64_t>(i * dim), row);
    double square = 0;
    for (const double value : row) square += value * value;
    float* out = rows.Data<float>() + i * dim;
    for (const double value : row) *out++ = static_cast<float>(value / std::sqrt(square));
  }
  return rows;
}

Tensor Times(const Tensor& rows, double factor) {
  Tensor scaled = rows.Clone();
  float* values = scaled.Data<float>();
  for (int64_t i = 0; i < scaled.shape().Elements(); ++i)
    values[i] = static_cast<float>(factor * values[i]);
  return scaled;
}

ConstView Rows(const Tensor& rows, int64_t begin, int64_t end) {
  return rows.view().Range(0, begin, end - begin);
}

// Right answers after each number of pairs. The memory grows from one to the next.
std::vector<int64_t> Recall(const Memory& memory, const RecallOptions& options, double sharpness,
                            uint64_t seed, uint64_t draw) {
  const Context serial({.threads = 1});
  const Pairs pairs = DrawPairs(options.pairs.back(), options.dim, seed, draw);
  const Tensor keys =
      Times(memory.feature_dim > 0 ? Project(pairs.keys, memory.feature_dim, seed, draw)
                                   : pairs.keys.Clone(),
            sharpness);
  std::optional<AttentionState> state;
  if (!memory.IsExact())
    state.emplace(memory.Plan(options.dim, seed, draw),
                  StateOptions{.value_dim = options.dim, .scale = 1});
  std::vector<int64_t> right;
  int64_t appended = 0;
  for (const int64_t count : options.pairs) {
    const ConstView asked = Rows(keys, 0, count);
    Tensor out;
    if (state) {
      state->Append(Rows(keys, appended, count), Rows(pairs.values, appended, count), serial);
      out = state->Attend(asked, serial);
    } else {
      out = Attend(asked, asked, Rows(pairs.values, 0, count), {.attention = "exact", .scale = 1},
                   serial);
    }
    appended = count;
    right.push_back(CountRight(out, pairs));
  }
  return right;
}

}  // namespace

FeaturePlan Memory::Plan(int64_t dim, uint64_t seed, uint64_t draw) const {
  FeatureOptions options{.map = map};
  if (features > 0) options.features = features;
  return FeaturePlan::Draw(options, 1, feature_dim > 0 ? feature_dim : dim, seed, draw);
}

MemoryBytes BytesOf(const Memory& memory, int64_t dim, int64_t pairs) {
  constexpr int64_t kSingle = sizeof(float);
  if (memory.IsExact()) {
    const int64_t bytes = pairs * 2 * dim * kSingle;
    return {.state = bytes, .single = bytes};
  }
  const FeaturePlan plan = memory.Plan(dim, 0, 0);
  return {.state = AttentionState(plan, {.value_dim = dim}).Bytes(),
          .single = plan.width() * (dim + 1) * kSingle};
}

Pairs DrawPairs(int64_t pairs, int64_t dim, uint64_t seed, uint64_t draw) {
  const auto stream = [&](const char* name) { return RandomStream(seed, name).Child(draw); };
  Pairs drawn{.keys = UnitRows(pairs, dim, stream("recall keys")),
              .values = Tensor({pairs, dim}),
              .codebook = UnitRows(kCodebookRows, dim, stream("recall codebook")),
              .rows = {}};
  const RandomStream choice = stream("recall values");
  for (int64_t i = 0; i < pairs; ++i) {
    drawn.rows.push_back(
        static_cast<int64_t>(choice.Bits(static_cast<uint64_t>(i)) % kCodebookRows));
    std::copy_n(drawn.codebook.Data<float>() + drawn.rows.back() * dim, dim,
                drawn.values.Data<float>() + i * dim);
  }
  return drawn;
}

Tensor Project(const Tensor& rows, int64_t feature_dim, uint64_t seed, uint64_t draw) {
  const int64_t count = rows.shape()[0], dim = rows.shape()[1];
  std::vector<double> matrix(static_cast<size_t>(feature_dim * dim));
  RandomStream(seed, "recall projection").Child(draw).FillNormal(0, matrix);
  const double deviation = 1 / std::sqrt(static_cast<double>(feature_dim));
  Tensor projected({count, feature_dim});
  for (int64_t i = 0; i < count; ++i) {
    const float* row = rows.Data<float>() + i * dim;
    for (int64_t r = 0; r < feature_dim; ++r) {
      const double* direction = matrix.data() + r * dim;
      double sum = 0;
      for (int64_t j = 0; j < dim; ++j) sum += direction[j] * row[j];
      projected.Data<float>()[i * feature_dim + r] = static_cast<float>(deviation * sum);
    }
  }
  return projected;
}

int64_t CountRight(const Tensor& out, const Pairs& pairs) {
  const int64_t count = out.shape()[0], dim = out.shape()[1];
  // By columns, so that the inner loop over rows of the codebook becomes vectors.
  std::vector<float> columns(static_cast<size_t>(dim * kCodebookRows));
  for (int64_t row = 0; row < kCodebookRows; ++row) {
    for (int64_t j = 0; j < dim; ++j)
      columns[static_cast<size_t>(j * kCodebookRows + row)] =
          pairs.codebook.Data<float>()[row * dim + j];
  }
  int64_t right = 0;
  std::vector<float> scores(static_cast<size_t>(kCodebookRows));
  for (int64_t i = 0; i < count; ++i) {
    std::ranges::fill(scores, 0.0F);
    for (int64_t j = 0; j < dim; ++j) {
      const float value = out.Data<float>()[i * dim + j];
      const float* column = columns.data() + j * kCodebookRows;
      for (size_t row = 0; row < scores.size(); ++row) scores[row] += value * column[row];
    }
    const auto answer = std::ranges::max_element(scores) - scores.begin();
    right += answer == pairs.rows[static_cast<size_t>(i)] ? 1 : 0;
  }
  return right;
}

std::vector<RecallPoint> MeasureRecall(const Memory& memory, const RecallOptions& options,
                                       const Context& context) {
  const auto draws = static_cast<size_t>(options.draws);
  const size_t sharpnesses = options.sharpnesses.size();
  // [sharpness][draw][number of pairs]. Draws from `draws` on choose β, those before count: a β
  // chosen on the draws that it is judged by would look better than it is.
  std::vector<std::vector<int64_t>> right(sharpnesses * 2 * draws);
  ParallelFor(context, static_cast<int64_t>(right.size()), [&](int64_t piece) {
    const auto place = static_cast<size_t>(piece);
    right[place] = Recall(memory, options, options.sharpnesses[place / (2 * draws)], context.seed(),
                          place % (2 * draws));
  });
  std::vector<RecallPoint> points;
  for (size_t place = 0; place < options.pairs.size(); ++place) {
    const auto total = [&](size_t sharpness, size_t first) {
      int64_t sum = 0;
      for (size_t draw = first; draw < first + draws; ++draw)
        sum += right[sharpness * 2 * draws + draw][place];
      return sum;
    };
    std::vector<size_t> best;  // equally good ones
    for (size_t sharpness = 0; sharpness < sharpnesses; ++sharpness) {
      const int64_t most = best.empty() ? 0 : total(best[0], draws);
      if (total(sharpness, draws) > most) best.clear();
      if (total(sharpness, draws) >= most) best.push_back(sharpness);
    }
    const size_t chosen = best[best.size() / 2];
    const auto n = static_cast<double>(draws), pairs = static_cast<double>(options.pairs[place]);
    const double accuracy = static_cast<double>(total(chosen, 0)) / (n * pairs);
    double squares = 0;
    for (size_t draw = 0; draw < draws; ++draw) {
      const auto share = static_cast<double>(right[chosen * 2 * draws + draw][place]) / pairs;
      squares += std::pow(share - accuracy, 2);
    }
    points.push_back({.pairs = options.pairs[place],
                      .sharpness = options.sharpnesses[chosen],
                      .accuracy = accuracy,
                      .standard_error = std::sqrt(squares / (n - 1) / n)});
  }
  return points;
}

}  // namespace favor::experiments
