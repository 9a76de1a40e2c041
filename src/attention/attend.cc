#include <algorithm>
#include <array>
#include <vector>

#include "attention/kinds.h"
#include "attention/problem.h"
#include "core/error_text.h"
#include "favor/attention.h"

namespace favor {
namespace {

constexpr int64_t kMatrixColumns = 64;  // of the attention matrix at a time

// Options of linear attention say nothing to the others: given all the same, they are a mistake.
void RefuseLinearOptions(const AttentionOptions& options) {
  const bool given =
      options.compat != Compat::kNone || options.center_keys || options.plan.has_value();
  if (given) {
    Throw(ErrorCode::kInvalidOption, "attend",
          "given a plan, key centring or compat, which attention '{}' does not have",
          options.attention);
  }
}

AttentionReport Dispatch(const attention::Problem& problem, const AttentionOptions& options,
                         const Context& context, View out) {
  if (options.attention == "linear") {
    return options.compat == Compat::kNone ? attention::Linear(problem, options, context, out)
                                           : attention::Compatible(problem, options, context, out);
  }
  RefuseLinearOptions(options);
  if (options.attention == "exact") return attention::Exact(problem, options, context, out);
  if (options.attention == "identity") return attention::Identity(problem, options, context, out);
  if (options.attention == "uniform") return attention::Uniform(problem, options, context, out);
  Throw(ErrorCode::kInvalidOption, "attention", "unknown name '{}'{}", Printable(options.attention),
        Suggest(options.attention, AttentionNames()));
}

}  // namespace

std::span<const std::string_view> AttentionNames() {
  static constexpr std::array<std::string_view, 4> kNames = {"exact", "linear", "identity",
                                                             "uniform"};
  return kNames;
}

Tensor Attend(ConstView q, ConstView k, ConstView v, const AttentionOptions& options,
              const Context& context, AttentionReport* report) {
  const attention::Problem problem = attention::CheckProblem(q, k, v, options);
  Tensor out(problem.output_shape, options.reference ? DataType::kF64 : DataType::kF32);
  const AttentionReport result = Dispatch(problem, options, context, out.view().AsRank4());
  if (report != nullptr) *report = result;
  return out;
}

Tensor AttentionMatrix(ConstView q, ConstView k, const AttentionOptions& options,
                       const Context& context) {
  const ConstView keys = k.AsRank4();
  const int64_t length = keys.size(2), rows = q.AsRank4().size(2);
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < q.rank(); ++axis) sizes.push_back(q.size(axis));
  if (!sizes.empty()) sizes.back() = length;
  Tensor matrix(Shape{std::span<const int64_t>(sizes)},
                options.reference ? DataType::kF64 : DataType::kF32);
  for (int64_t first = 0; first < length; first += kMatrixColumns) {
    const int64_t columns = std::min(kMatrixColumns, length - first);
    Tensor one_hot({length, columns});
    for (int64_t i = 0; i < columns; ++i) one_hot.Data<float>()[(first + i) * columns + i] = 1;
    // The same values for every batch and head: strides of 0.
    std::vector<int64_t> value_sizes;
    for (int axis = 0; axis + 2 < k.rank(); ++axis) value_sizes.push_back(k.size(axis));
    value_sizes.insert(value_sizes.end(), {length, columns});
    Strides strides{};
    strides[static_cast<size_t>(k.rank() - 2)] = columns;
    strides[static_cast<size_t>(k.rank() - 1)] = 1;
    const ConstView values(one_hot.view().data(), DataType::kF32,
                           Shape(std::span<const int64_t>(value_sizes)), strides, Device{});
    const Tensor block = Attend(q, k, values, options, context);
    const ConstView from = block.view().AsRank4();
    const View to = matrix.view().AsRank4().Range(3, first, columns);
    for (int64_t b = 0; b < from.size(0); ++b) {
      for (int64_t h = 0; h < from.size(1); ++h)
        Copy(from.At(b).At(h).Range(0, 0, rows), to.At(b).At(h));
    }
  }
  return matrix;
}

}  // namespace favor
