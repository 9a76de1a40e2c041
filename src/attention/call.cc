#include "attention/call.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "attention/kind.h"
#include "core/element.h"
#include "core/error_text.h"
#include "core/hash.h"

namespace favor::attention {
namespace {

using kernels::AttentionProblem;
using kernels::kLargestNorm;
using kernels::kLargestValue;

constexpr std::string_view kWho = "attend";

void CheckArray(std::string_view name, const ConstView& array) {
  if (array.data() == nullptr || array.rank() < 2) {
    Throw(ErrorCode::kInvalidData, kWho,
          "{}: given shape {}, expected [L, d], [H, L, d] or [B, H, L, d]", name,
          array.shape().ToString());
  }
  if (array.shape().Elements() == 0) {
    Throw(ErrorCode::kInvalidData, kWho, "{}: given shape {}, expected at least one row", name,
          array.shape().ToString());
  }
  if (array.device().type != DeviceType::kCpu) {
    Throw(ErrorCode::kUnavailable, kWho, "{}: given an array on {}, attention runs on the cpu",
          name, Name(array.device()));
  }
}

AttentionProblem CheckShapes(const AttentionInputs& inputs, bool causal) {
  const auto& [q, k, v] = inputs;
  CheckArray("q", q);
  CheckArray("k", k);
  CheckArray("v", v);
  const auto shapes = [&inputs] {
    return fmt::format("q {}, k {}, v {}", inputs.q.shape().ToString(), inputs.k.shape().ToString(),
                       inputs.v.shape().ToString());
  };
  if (k.rank() != q.rank() || v.rank() != q.rank()) {
    Throw(ErrorCode::kInvalidData, kWho, "given {}, expected the same number of axes", shapes());
  }
  AttentionProblem problem{.q = q.AsRank4(), .k = k.AsRank4(), .v = v.AsRank4()};
  problem.batch = problem.q.size(0);
  problem.heads = problem.q.size(1);
  problem.kv_heads = problem.k.size(1);
  problem.query_length = problem.q.size(2);
  problem.key_length = problem.k.size(2);
  problem.dim = problem.q.size(3);
  problem.value_dim = problem.v.size(3);
  problem.causal = causal;
  if (problem.k.size(0) != problem.batch || problem.v.size(0) != problem.batch) {
    Throw(ErrorCode::kInvalidData, kWho, "given {}, expected the same batch", shapes());
  }
  if (problem.v.size(1) != problem.kv_heads) {
    Throw(ErrorCode::kInvalidData, kWho, "given {}, expected as many heads of v as of k", shapes());
  }
  if (problem.heads % problem.kv_heads != 0) {
    Throw(ErrorCode::kInvalidData, kWho, "given {} heads of q and {} of k, expected a multiple",
          problem.heads, problem.kv_heads);
  }
  if (problem.k.size(3) != problem.dim) {
    Throw(ErrorCode::kInvalidData, kWho, "given {}, expected k of dim {}", shapes(), problem.dim);
  }
  if (problem.v.size(2) != problem.key_length) {
    Throw(ErrorCode::kInvalidData, kWho, "given {}, expected as many values as keys", shapes());
  }
  if (causal && problem.query_length != problem.key_length) {
    Throw(ErrorCode::kInvalidData, kWho,
          "given {} queries and {} keys, expected the same number in a causal call (continue a "
          "prefix with a state)",
          problem.query_length, problem.key_length);
  }
  return problem;
}

// The largest |x| of the rows that exist; throws if one holds NaN or infinity.
double LargestFinite(std::string_view name, const ConstView& array, const ConstView& mask) {
  double largest = mask.empty() ? LargestAbsolute(array) : 0;
  if (mask.empty() && std::isfinite(largest)) return largest;
  const ConstView rows = array.AsRank4();
  for (int64_t group = 0; group < rows.size(0) * rows.size(1); ++group) {
    const int64_t batch = group / rows.size(1), head_index = group % rows.size(1);
    const ConstView head = rows.At(batch).At(head_index);
    const float* exists = mask.empty() ? nullptr : mask.At(batch).At(head_index).Data<float>();
    for (int64_t row = 0; row < head.size(0); ++row) {
      if (exists != nullptr && exists[row] == 0) continue;
      const double most = LargestAbsolute(head.At(row));
      if (!std::isfinite(most)) {
        Throw(ErrorCode::kInvalidData, kWho,
              "{}: given NaN or infinity in row {}, expected finite values", name, row);
      }
      largest = std::max(largest, most);
    }
  }
  return largest;
}

void ExplainNorms(std::string_view name, const ConstView& rows, const ConstView& mask,
                  double scale) {
  const double largest = LargestFinite(name, rows, mask),
               dim = static_cast<double>(rows.size(rows.rank() - 1));
  const double norm = std::fabs(scale) * largest * largest * dim;
  if (norm > kLargestNorm) {
    Throw(ErrorCode::kInvalidData, kWho,
          "{}: given values up to {:.3g} at scale {:.3g}, expected scale·d·x² of at most {:.0e}",
          name, largest, scale, kLargestNorm);
  }
}

}  // namespace

Tensor ExpandLogDecay(const ConstView& given, const AttentionProblem& problem) {
  constexpr std::string_view kName = "log_decay";
  const int rank = given.rank();
  const int64_t length = problem.key_length;
  if (given.device().type != DeviceType::kCpu)
    Throw(ErrorCode::kUnavailable, kName, "given an array on {}, expected one on the cpu",
          Name(given.device()));
  const int64_t rows = rank >= 2 ? given.size(rank - 2) : 1;
  const bool fits = rank >= 1 && rank <= 3 && given.size(rank - 1) == length &&
                    (rank < 2 || rows == problem.heads || rows == problem.kv_heads) &&
                    (rank < 3 || given.size(0) == problem.batch);
  if (!fits) {
    Throw(ErrorCode::kInvalidData, kName, "given shape {}, expected [{}], [{}, {}] or [{}, {}, {}]",
          given.shape().ToString(), length, problem.heads, length, problem.batch, problem.heads,
          length);
  }
  Tensor expanded({problem.batch, problem.heads, length}, DataType::kF64);
  for (int64_t group = 0; group < problem.Groups(); ++group) {
    ConstView row = rank == 3 ? given.At(problem.Batch(group)) : given;
    if (rank >= 2) row = row.At(problem.Head(group) / (problem.heads / rows));
    double* to = expanded.Data<double>() + group * length;
    Copy(row, View(to, {length}));
    const float* mask = problem.Mask(group);
    for (int64_t i = 0; i < length; ++i) {
      if (mask != nullptr && mask[i] == 0) to[i] = 0;  // what a mask hides may hold anything
      if (!(to[i] <= 0 && to[i] >= kernels::kLeastLogDecay))
        Throw(ErrorCode::kInvalidData, kName, "given {} at {}, expected {:.0e} to 0", to[i], i,
              kernels::kLeastLogDecay);
    }
  }
  return expanded;
}

ConstView ExpandMask(const ConstView& mask, int64_t batch, int64_t kv_heads, int64_t length,
                     Tensor& own) {
  if (mask.data() == nullptr) return {};
  if (mask.device().type != DeviceType::kCpu)
    Throw(ErrorCode::kUnavailable, "key mask", "given an array on {}, expected one on the cpu",
          Name(mask.device()));
  const int rank = mask.rank();
  const bool fits = rank >= 1 && rank <= 3 && mask.size(rank - 1) == length &&
                    (rank < 2 || mask.size(0) == batch) && (rank < 3 || mask.size(1) == kv_heads);
  if (!fits) {
    Throw(ErrorCode::kInvalidData, "key mask",
          "given shape {}, expected [{}], [{}, {}] or [{}, {}, {}]", mask.shape().ToString(),
          length, batch, length, batch, kv_heads, length);
  }
  ConstView floats = mask;
  if (mask.type() != DataType::kF32 || mask.stride(rank - 1) != 1) {
    own = Tensor(mask.shape());
    Copy(mask, own);
    floats = std::as_const(own).view();
  }
  const ConstView expanded(floats.data(), DataType::kF32, {batch, kv_heads, length},
                           {rank >= 2 ? floats.stride(0) : 0, rank == 3 ? floats.stride(1) : 0, 1},
                           Device{});
  for (int64_t b = 0; b < (rank >= 2 ? batch : 1); ++b) {
    for (int64_t h = 0; h < (rank == 3 ? kv_heads : 1); ++h) {
      const float* values = expanded.At(b).At(h).Data<float>();
      const auto bad =
          std::find_if(values, values + length, [](float x) { return x != 0 && x != 1; });
      if (bad != values + length)
        Throw(ErrorCode::kInvalidData, "key mask",
              "given the value {}, expected 0 (no such key) or 1", *bad);
    }
  }
  return expanded;
}

uint64_t HashOf(const ConstView& mask) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a over keys
  if (mask.empty()) return hash;
  for (int64_t b = 0; b < mask.size(0); ++b) {
    for (int64_t h = 0; h < mask.size(1); ++h) {
      const float* values = mask.At(b).At(h).Data<float>();
      for (int64_t i = 0; i < mask.size(2); ++i)
        hash = (hash ^ (values[i] != 0 ? 1 : 2)) * 0x100000001b3;
    }
  }
  return hash;
}

uint64_t HashOfNumbers(const Tensor& numbers) {
  Hasher hash;
  if (!numbers.empty())
    hash.Add(std::as_bytes(
        std::span(numbers.Data<double>(), static_cast<size_t>(numbers.shape().Elements()))));
  return hash.Value();
}

Tensor FrozenMean(const ConstView& mean, int64_t heads, int64_t dim) {
  const bool fits =
      (mean.rank() == 1 && mean.size(0) == dim) ||
      (mean.rank() == 2 && mean.size(0) > 0 && heads % mean.size(0) == 0 && mean.size(1) == dim);
  if (!fits) {
    Throw(ErrorCode::kInvalidData, "key mean",
          "given shape {}, expected [{}] or a row of {} for each head", mean.shape().ToString(),
          dim, dim);
  }
  if (!AllFinite(mean))
    Throw(ErrorCode::kInvalidData, "key mean", "given NaN or infinity, expected finite values");
  Tensor values({1, heads, dim}, DataType::kF64);
  for (int64_t head = 0; head < heads; ++head) {
    const ConstView row = mean.rank() == 1 ? mean : mean.At(head / (heads / mean.size(0)));
    Copy(row, values.view().At(0).At(head));
  }
  return values;
}

ConstView ForEveryBatch(const ConstView& one, int64_t batch) {
  if (one.empty()) return {};
  return {one.data(),
          one.type(),
          {batch, one.size(1), one.size(2)},
          {0, one.stride(1), one.stride(2)},
          one.device()};
}

void CheckCentring(const FeaturePlan& plan) {
  if (plan.map().kernel != KernelFamily::kSoftmax) {
    Throw(ErrorCode::kInvalidOption, "key centring",
          "given the map '{}', but only the softmax kernel is unchanged by it", plan.map().name);
  }
}

void ExplainValues(const ConstView& values, const ConstView& mask, std::string_view name) {
  const double largest = LargestFinite(name, values, mask);
  if (largest > kLargestValue) {
    Throw(ErrorCode::kInvalidData, kWho, "{}: given values up to {:.3g}, expected at most {:.0e}",
          name, largest, kLargestValue);
  }
}

void ExplainUnusable(const AttentionProblem& problem) {
  if (!problem.q.empty()) ExplainNorms("q", problem.q, {}, problem.scale);
  if (problem.k.empty()) return;
  ExplainNorms("k", problem.k, problem.mask, problem.scale);
  ExplainValues(problem.v, problem.mask, "v");
}

Call CheckCall(const AttentionInputs& inputs, const AttentionOptions& options,
               const Context& context) {
  Call call{.kind = FindKind(options.attention),
            .problem = CheckShapes(inputs, options.causal),
            .output_shape = inputs.q.shape().WithLast(inputs.v.size(inputs.v.rank() - 1)),
            .reference = options.reference,
            .compat = options.compat,
            .center_keys = options.center_keys};
  AttentionProblem& problem = call.problem;
  if (options.chunk < 1 || options.chunk > AttentionOptions::kMaxChunk) {
    Throw(ErrorCode::kInvalidOption, "chunk", "given {}, expected 1 to {}", options.chunk,
          AttentionOptions::kMaxChunk);
  }
  problem.chunk = options.chunk;
  problem.normalize = options.renormalize;
  problem.scale = ScaleOf(options, problem.dim);
  if (!std::isfinite(problem.scale))
    Throw(ErrorCode::kInvalidOption, "scale", "given {}, expected a finite number", problem.scale);
  problem.mask = ExpandMask(options.key_mask, problem.batch, problem.kv_heads, problem.key_length,
                            call.own_mask);
  if (options.log_decay.data() != nullptr) {
    if (!call.kind.TakesDecay() || !problem.causal)
      Throw(ErrorCode::kInvalidOption, "log_decay",
            "given to {}{} attention, expected causal linear attention",
            problem.causal ? "causal " : "", call.kind.name());
    if (!options.reference && context.device().type != DeviceType::kCpu)
      Throw(ErrorCode::kUnavailable, "log_decay",
            "given to kernels on a GPU, which do not forget in this version: expected the CPU");
    call.log_decay = ExpandLogDecay(options.log_decay, problem);
    problem.log_decay = std::as_const(call.log_decay).view();
  }
  call.kind_options = KindOptionValues(call.kind, options.kind_options);
  call.kind.Complete(options, context, call);
  return call;
}

}  // namespace favor::attention
