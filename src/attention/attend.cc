#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "attention/kinds.h"
#include "attention/linear_heads.h"
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
          "given a plan, key centring or compat: they belong to linear attention, not to '{}'",
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
  if (!AllFinite(out)) {
    Throw(ErrorCode::kInvalidData, "attend", "the result exceeds the range of {}{}",
          Name(out.type()),
          options.renormalize ? ""
                              : " (unnormalised sums of exponentials grow fast: use smaller inputs "
                                "or the normalised output)");
  }
  if (report != nullptr) *report = result;
  return out;
}

Tensor AttentionMatrix(ConstView q, ConstView k, const AttentionOptions& options,
                       const Context& context) {
  attention::Problem problem =
      attention::CheckProblem(q, k, k, options);  // the keys stand in for values of their length
  AttentionOptions one_plan = options;
  if (options.attention == "linear")
    one_plan.plan = attention::ChoosePlan(problem, options, context);
  const int64_t length = problem.key_length;
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < q.rank(); ++axis) sizes.push_back(q.size(axis));
  sizes.back() = length;
  Tensor matrix(Shape{std::span<const int64_t>(sizes)},
                options.reference ? DataType::kF64 : DataType::kF32);
  for (int64_t first = 0; first < length; first += kMatrixColumns) {
    const int64_t columns = std::min(kMatrixColumns, length - first);
    Tensor one_hot({length, columns});
    for (int64_t i = 0; i < columns; ++i) one_hot.Data<float>()[(first + i) * columns + i] = 1;
    // The same values for every batch and head: strides of 0.
    problem.v =
        ConstView(std::as_const(one_hot).view().data(), DataType::kF32,
                  {problem.batch, problem.kv_heads, length, columns}, {0, 0, columns, 1}, Device{});
    problem.value_dim = columns;
    Dispatch(problem, one_plan, context, matrix.view().AsRank4().Range(3, first, columns));
  }
  return matrix;
}

}  // namespace favor
