#include "attention/call.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/kind.h"
#include "core/error_text.h"

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
}

// What runs on a GPU; on the CPU everything does.
void CheckDevices(const AttentionInputs& inputs, const AttentionOptions& options, const Kind& kind,
                  const Context& context) {
  const ConstView &q = inputs.q, &k = inputs.k, &v = inputs.v;
  const Device device = q.device();
  const auto same = [&q](std::string_view name, const ConstView& array) {
    if (array.device() != q.device())
      Throw(ErrorCode::kInvalidData, kWho, "given q on {} and {} on {}, expected all on one device",
            Name(q.device()), name, Name(array.device()));
  };
  same("k", k);
  same("v", v);
  if (device.type == DeviceType::kCuda) {
    const auto refuse = [&device](std::string_view what) {
      Throw(ErrorCode::kUnavailable, what, "given arrays on {}, it runs on the cpu only",
            Name(device));
    };
    if (options.reference) refuse("reference");
    if (options.compat != Compat::kNone) refuse("compat");
    if (!kind.RunsOnGpu()) refuse(fmt::format("{} attention", kind.name()));
    CheckArrayOn(device, q, kWho, "q");
    CheckArrayOn(device, k, kWho, "k");
    CheckArrayOn(device, v, kWho, "v");
    if (k.type() != q.type() || v.type() != q.type())
      Throw(ErrorCode::kInvalidData, kWho, "given q {}, k {} and v {} on {}, expected one type",
            Name(q.type()), Name(k.type()), Name(v.type()), Name(device));
  }
  CheckContext(device, context, kWho);
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
  const double largest = LargestFinite(name, HostCopy(rows).view(), HostCopy(mask).view()),
               dim = static_cast<double>(rows.size(rows.rank() - 1));
  const double norm = std::fabs(scale) * largest * largest * dim;
  if (norm > kLargestNorm) {
    Throw(ErrorCode::kInvalidData, kWho,
          "{}: given values up to {:.3g} at scale {:.3g}, expected scale·d·x² of at most {:.0e}",
          name, largest, scale, kLargestNorm);
  }
}

}  // namespace

void CheckArrayOn(const Device& device, const ConstView& array, std::string_view who,
                  std::string_view name) {
  if (array.device() != device)
    Throw(ErrorCode::kInvalidData, who, "{}: given an array on {}, expected one on {}", name,
          Name(array.device()), Name(device));
  if (device.type == DeviceType::kCpu) return;
  if (array.type() == DataType::kF64)
    Throw(ErrorCode::kInvalidData, who, "{}: given f64 on {}, expected f32, f16 or bf16", name,
          Name(device));
  const int last = array.rank() - 1;
  if (last >= 0 && array.size(last) > 1 && array.stride(last) != 1)
    Throw(ErrorCode::kInvalidData, who,
          "{}: given elements of a row {} apart on {}, expected them next to each other", name,
          array.stride(last), Name(device));
}

void CheckContext(const Device& device, const Context& context, std::string_view who) {
  if (context.device() != device)
    Throw(ErrorCode::kInvalidData, who,
          "given arrays on {} and a context on {}, expected both on one device", Name(device),
          Name(context.device()));
}

Tensor FrozenMean(const ConstView& given, int64_t heads, int64_t dim) {
  const HostCopy copy(given);
  const ConstView& mean = copy.view();
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
  const double largest = LargestFinite(name, HostCopy(values).view(), HostCopy(mask).view());
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

std::optional<DataType> OtherType(const Call& call) {
  if (call.device().type == DeviceType::kCpu) return std::nullopt;
  return call.problem.q.type();
}

Call CheckCall(const AttentionInputs& inputs, const AttentionOptions& options,
               const Context& context, MarksFrom marks) {
  Call call{.kind = FindKind(options.attention),
            .problem = CheckShapes(inputs, options.causal),
            .output_shape = inputs.q.shape().WithLast(inputs.v.size(inputs.v.rank() - 1)),
            .reference = options.reference,
            .compat = options.compat,
            .center_keys = options.center_keys};
  AttentionProblem& problem = call.problem;
  CheckDevices(inputs, options, call.kind, context);
  if (options.chunk < 1 || options.chunk > AttentionOptions::kMaxChunk) {
    Throw(ErrorCode::kInvalidOption, "chunk", "given {}, expected 1 to {}", options.chunk,
          AttentionOptions::kMaxChunk);
  }
  problem.chunk = options.chunk;
  problem.normalize = options.renormalize;
  problem.scale = ScaleOf(options, problem.dim);
  if (!std::isfinite(problem.scale))
    Throw(ErrorCode::kInvalidOption, "scale", "given {}, expected a finite number", problem.scale);
  if (options.log_decay.data() != nullptr && (!call.kind.TakesDecay() || !problem.causal))
    Throw(ErrorCode::kInvalidOption, "log_decay",
          "given to {}{} attention, expected causal linear attention",
          problem.causal ? "causal " : "", call.kind.name());
  call.marks = marks == MarksFrom::kModel
                   ? TokenMarks::OfModel(options.key_mask, options.log_decay, context, problem)
                   : TokenMarks(options.key_mask, options.log_decay, context, problem);
  call.kind_options = KindOptionValues(call.kind, options.kind_options);
  call.kind.Complete(options, context, call);
  return call;
}

}  // namespace favor::attention
