// Features of arrays: checks shapes once, then hands every head's rows to a kernel.
#include <cmath>
#include <vector>

#include "core/error_text.h"
#include "core/parallel.h"
#include "features/plan.h"

namespace favor {
namespace {

constexpr int64_t kReferenceRows = 64;  // rows a task takes through the double reference

// The shape of φ for rows of shape `x`; throws unless x fits the plan.
Shape CheckedShape(const FeaturePlan& plan, const Shape& x) {
  if (x.rank() < 2) {
    Throw(ErrorCode::kInvalidData, "features",
          "given shape {}, expected [L, d], [H, L, d] or [B, H, L, d]", x.ToString());
  }
  if (x.Elements() == 0) {
    Throw(ErrorCode::kInvalidData, "features", "given shape {}, expected at least one row",
          x.ToString());
  }
  if (x[x.rank() - 1] != plan.dim()) {
    Throw(ErrorCode::kInvalidData, "features", "given shape {}, expected rows of dim {}",
          x.ToString(), plan.dim());
  }
  const int64_t heads = x.rank() >= 3 ? x[x.rank() - 3] : 1;
  if (heads != plan.heads()) {
    Throw(ErrorCode::kInvalidData, "features", "given shape {} with {} heads, expected {}",
          x.ToString(), heads, plan.heads());
  }
  return x.WithLast(plan.width());
}

void CheckArray(std::string_view who, const ConstView& array, const Shape& shape, DataType type,
                Device device) {
  if (array.shape() != shape || array.type() != type || array.device() != device ||
      !array.IsContiguous()) {
    Throw(ErrorCode::kInvalidData, "features",
          "{}: given {} {} on {}, expected contiguous {} {} on {}", who, Name(array.type()),
          array.shape().ToString(), Name(array.device()), Name(type), shape.ToString(),
          Name(device));
  }
}

void CheckComputeType(DataType type) {
  if (type != DataType::kF32 && type != DataType::kF64) {
    Throw(ErrorCode::kInvalidData, "features", "given outputs of type {}, expected f32 or f64",
          Name(type));
  }
}

// `array` itself where it is contiguous and of the type, else a converted copy kept in `storage`.
ConstView Converted(ConstView array, DataType type, Tensor& storage) {
  if (array.type() == type && array.IsContiguous()) return array;
  storage = Tensor(array.shape(), type);
  Copy(array, storage.view());
  return std::as_const(storage).view();
}

// Calls body(head features, first row) for each [batch, head] in order; rows are counted through
// the array.
template <class Body>
void ForEachHead(const FeaturePlan& plan, const Shape& x, const Body& body) {
  const int64_t length = x[x.rank() - 2];
  const int64_t groups = x.Elements() / (length * plan.dim());
  for (int64_t group = 0; group < groups; ++group) {
    body(plan.impl().Head(group % plan.heads()), group * length, length);
  }
}

}  // namespace

void FeatureExponents(const FeaturePlan& plan, ConstView x, const Context& context, View exponents,
                      View factors) {
  const Shape shape = CheckedShape(plan, x.shape());
  CheckComputeType(exponents.type());
  CheckArray("exponents", exponents, shape, exponents.type(), x.device());
  CheckArray("factors", factors, shape, exponents.type(), x.device());
  const int64_t d = plan.dim(), width = plan.width();
  if (x.device().kind == DeviceKind::kCuda) {
    CheckArray("x", x, x.shape(), DataType::kF32, x.device());
    if (context.device() != x.device()) {
      Throw(ErrorCode::kInvalidData, "features",
            "given x on {} and a context on {}, expected both on one device", Name(x.device()),
            Name(context.device()));
    }
    ForEachHead(plan, x.shape(), [&](const kernels::HeadFeatures& head, int64_t row, int64_t rows) {
      kernels::cuda::Features(head, x.Data<float>() + row * d, rows, context,
                              exponents.Data<float>() + row * width,
                              factors.Data<float>() + row * width);
    });
    return;
  }
  Tensor storage;
  x = Converted(x, exponents.type(), storage);
  ForEachHead(plan, x.shape(), [&](const kernels::HeadFeatures& head, int64_t row, int64_t rows) {
    if (exponents.type() == DataType::kF32) {
      kernels::cpu::Features(head, x.Data<float>() + row * d, rows, context,
                             exponents.Data<float>() + row * width,
                             factors.Data<float>() + row * width);
      return;
    }
    ParallelForBlocks(context, rows, kReferenceRows, [&](int64_t begin, int64_t end) {
      kernels::reference::Features(head, x.Data<double>() + (row + begin) * d, end - begin,
                                   exponents.Data<double>() + (row + begin) * width,
                                   factors.Data<double>() + (row + begin) * width);
    });
  });
}

void FeatureExponentsBackward(const FeaturePlan& plan, ConstView x, ConstView grad_exponents,
                              ConstView grad_factors, const Context& context, View grad_x) {
  const Shape shape = CheckedShape(plan, x.shape());
  CheckComputeType(grad_x.type());
  CheckArray("grad_exponents", grad_exponents, shape, grad_x.type(), {});
  CheckArray("grad_factors", grad_factors, shape, grad_x.type(), {});
  CheckArray("grad_x", grad_x, x.shape(), grad_x.type(), {});
  if (x.device().kind != DeviceKind::kCpu)
    Throw(ErrorCode::kUnavailable, "features", "gradients of arrays on {} are not there yet",
          Name(x.device()));
  const int64_t d = plan.dim(), width = plan.width();
  Tensor storage;
  x = Converted(x, grad_x.type(), storage);
  ForEachHead(plan, x.shape(), [&](const kernels::HeadFeatures& head, int64_t row, int64_t rows) {
    if (grad_x.type() == DataType::kF32) {
      kernels::cpu::FeaturesBackward(
          head, x.Data<float>() + row * d, grad_exponents.Data<float>() + row * width,
          grad_factors.Data<float>() + row * width, rows, context, grad_x.Data<float>() + row * d);
      return;
    }
    ParallelForBlocks(context, rows, kReferenceRows, [&](int64_t begin, int64_t end) {
      const int64_t first = row + begin;
      kernels::reference::FeaturesBackward(head, x.Data<double>() + first * d,
                                           grad_exponents.Data<double>() + first * width,
                                           grad_factors.Data<double>() + first * width, end - begin,
                                           grad_x.Data<double>() + first * d);
    });
  });
}

Tensor Features(const FeaturePlan& plan, ConstView x, const Context& context) {
  const Shape shape = CheckedShape(plan, x.shape());
  Tensor phi(shape, DataType::kF64), factors(shape, DataType::kF64);
  FeatureExponents(plan, x, context, phi, factors);
  double* values = phi.Data<double>();
  const double* g = factors.Data<double>();
  bool finite = true;
  ForEachHead(plan, x.shape(), [&](const kernels::HeadFeatures& head, int64_t row, int64_t rows) {
    for (int64_t i = row * plan.width(); i < (row + rows) * plan.width(); ++i) {
      values[i] = g[i] == 0 ? 0 : std::exp(values[i] + head.log_normalizer) * g[i];
      finite = finite && std::isfinite(values[i]);
    }
  });
  if (!finite) {
    Throw(ErrorCode::kInvalidData, "features",
          "φ exceeds the range of f64 for these inputs; use exponents (--log), which do not");
  }
  return phi;
}

}  // namespace favor
