#include "attention/problem.h"

#include <algorithm>
#include <cmath>

#include "core/element.h"
#include "core/error_text.h"

namespace favor::attention {
namespace {

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
  if (array.device().kind != DeviceKind::kCpu) {
    Throw(ErrorCode::kUnavailable, kWho, "{}: given an array on {}, attention runs on the cpu",
          name, Name(array.device()));
  }
}

}  // namespace

std::vector<float> ExpandMask(const ConstView& mask, int64_t batch, int64_t kv_heads,
                              int64_t length) {
  if (mask.data() == nullptr) return {};
  const int rank = mask.rank();
  const bool fits = rank >= 1 && rank <= 3 && mask.size(rank - 1) == length &&
                    (rank < 2 || mask.size(0) == batch) && (rank < 3 || mask.size(1) == kv_heads);
  if (!fits) {
    Throw(ErrorCode::kInvalidData, "key mask",
          "given shape {}, expected [{}], [{}, {}] or [{}, {}, {}]", mask.shape().ToString(),
          length, batch, length, batch, kv_heads, length);
  }
  std::vector<float> expanded(static_cast<size_t>(batch * kv_heads * length));
  float* out = expanded.data();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < kv_heads; ++h) {
      const int64_t offset =
          (rank >= 2 ? b * mask.stride(0) : 0) + (rank == 3 ? h * mask.stride(1) : 0);
      for (int64_t i = 0; i < length; ++i) {
        const double value =
            LoadElement(mask.data(), mask.type(), offset + i * mask.stride(rank - 1));
        if (value != 0 && value != 1) {
          Throw(ErrorCode::kInvalidData, "key mask",
                "given the value {}, expected 0 (no such key) or 1", value);
        }
        *out++ = static_cast<float>(value);
      }
    }
  }
  return expanded;
}

Problem CheckProblem(ConstView q, ConstView k, ConstView v, const AttentionOptions& options) {
  CheckArray("q", q);
  CheckArray("k", k);
  CheckArray("v", v);
  const auto shapes = [&] {
    return fmt::format("q {}, k {}, v {}", q.shape().ToString(), k.shape().ToString(),
                       v.shape().ToString());
  };
  if (k.rank() != q.rank() || v.rank() != q.rank()) {
    Throw(ErrorCode::kInvalidData, kWho, "given {}, expected the same number of axes", shapes());
  }
  Problem problem{.q = q.AsRank4(), .k = k.AsRank4(), .v = v.AsRank4()};
  problem.batch = problem.q.size(0);
  problem.heads = problem.q.size(1);
  problem.kv_heads = problem.k.size(1);
  problem.query_length = problem.q.size(2);
  problem.key_length = problem.k.size(2);
  problem.dim = problem.q.size(3);
  problem.value_dim = problem.v.size(3);
  problem.causal = options.causal;
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
  if (problem.causal && problem.query_length != problem.key_length) {
    Throw(ErrorCode::kInvalidData, kWho,
          "given {} queries and {} keys, expected the same number in a causal call (continue a "
          "context with a state)",
          problem.query_length, problem.key_length);
  }
  problem.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(problem.dim)));
  if (!std::isfinite(problem.scale))
    Throw(ErrorCode::kInvalidOption, "scale", "given {}, expected a finite number", problem.scale);
  problem.mask = ExpandMask(options.key_mask, problem.batch, problem.kv_heads, problem.key_length);
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < q.rank(); ++axis) sizes.push_back(q.size(axis));
  sizes.back() = problem.value_dim;
  problem.output_shape = Shape(std::span<const int64_t>(sizes));
  return problem;
}

}  // namespace favor::attention
