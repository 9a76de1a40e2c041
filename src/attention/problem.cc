#include "attention/problem.h"

#include <algorithm>
#include <cmath>

#include "attention/kinds.h"
#include "core/element.h"
#include "core/error_text.h"
#include "kernels/linear_attention.h"

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

using kernels::kLargestNorm;
using kernels::kLargestValue;

// The largest |x| of the rows that exist; throws where one holds NaN or infinity.
double LargestFinite(std::string_view name, const ConstView& array,
                     const std::vector<float>& mask) {
  double largest = mask.empty() ? LargestAbsolute(array) : 0;
  if (mask.empty() && std::isfinite(largest)) return largest;
  const ConstView rows = array.AsRank4();
  for (int64_t group = 0; group < rows.size(0) * rows.size(1); ++group) {
    const ConstView head = rows.At(group / rows.size(1)).At(group % rows.size(1));
    for (int64_t row = 0; row < head.size(0); ++row) {
      if (!mask.empty() && mask[static_cast<size_t>(group * head.size(0) + row)] == 0) continue;
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

void CheckNorms(std::string_view name, const ConstView& rows, const std::vector<float>& mask,
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

std::vector<float> ExpandMask(const ConstView& mask, int64_t batch, int64_t kv_heads,
                              int64_t length) {
  if (mask.data() == nullptr) return {};
  if (mask.device().kind != DeviceKind::kCpu)
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

uint64_t HashOf(const std::vector<float>& mask) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a over keys
  for (const float value : mask) hash = (hash ^ (value != 0 ? 1 : 2)) * 0x100000001b3;
  return hash;
}

void CheckQueryRange(const ConstView& q, double scale) { CheckNorms("q", q, {}, scale); }
void CheckKeyRange(const ConstView& k, const std::vector<float>& mask, double scale) {
  CheckNorms("k", k, mask, scale);
}

void CheckValueRange(const ConstView& v, const std::vector<float>& mask, std::string_view name) {
  const double largest = LargestFinite(name, v, mask);
  if (largest > kLargestValue) {
    Throw(ErrorCode::kInvalidData, kWho, "{}: given values up to {:.3g}, expected at most {:.0e}",
          name, largest, kLargestValue);
  }
}

void CheckRanges(const Problem& problem) {
  CheckQueryRange(problem.q, problem.scale);
  CheckKeyRange(problem.k, problem.mask, problem.scale);
  CheckValueRange(problem.v, problem.mask);
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
  Problem problem{
      .kind = FindKind(options.attention), .q = q.AsRank4(), .k = k.AsRank4(), .v = v.AsRank4()};
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
  if (options.chunk < 1 || options.chunk > AttentionOptions::kMaxChunk) {
    Throw(ErrorCode::kInvalidOption, "chunk", "given {}, expected 1 to {}", options.chunk,
          AttentionOptions::kMaxChunk);
  }
  problem.chunk = options.chunk;
  problem.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(problem.dim)));
  if (!std::isfinite(problem.scale))
    Throw(ErrorCode::kInvalidOption, "scale", "given {}, expected a finite number", problem.scale);
  problem.mask = ExpandMask(options.key_mask, problem.batch, problem.kv_heads, problem.key_length);
  problem.output_shape = q.shape().WithLast(problem.value_dim);
  return problem;
}

}  // namespace favor::attention
