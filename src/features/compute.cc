// Features of arrays: checks shapes once, then hands every head's rows to a kernel.
#include <cmath>
#include <vector>

#include "core/error_text.h"
#include "features/drawn_features.h"

namespace favor {
namespace {

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

// `array` itself if it is contiguous and of the type, else a converted copy kept in `storage`.
ConstView Converted(ConstView array, DataType type, Tensor& storage) {
  if (array.type() == type && array.IsContiguous()) return array;
  storage = Tensor(array.shape(), type);
  Copy(array, storage.view());
  return std::as_const(storage).view();
}

// [.., L, columns] as [groups, L, columns].
template <class AnyView>
AnyView AsGroups(const AnyView& array) {
  const int rank = array.rank();
  const Shape shape{array.shape().Elements() / (array.size(rank - 2) * array.size(rank - 1)),
                    array.size(rank - 2), array.size(rank - 1)};
  return {array.data(), array.type(), shape, RowMajorStrides(shape), array.device()};
}

}  // namespace

void FeatureExponents(const FeaturePlan& plan, ConstView x, const Context& context, View exponents,
                      View factors, FeatureRole role) {
  const Shape shape = CheckedShape(plan, x.shape());
  CheckComputeType(exponents.type());
  CheckArray("exponents", exponents, shape, exponents.type(), x.device());
  CheckArray("factors", factors, shape, exponents.type(), x.device());
  Tensor storage;
  if (x.device().type == DeviceType::kCuda) {
    CheckArray("x", x, x.shape(), DataType::kF32, x.device());
  } else {
    x = Converted(x, exponents.type(), storage);
  }
  kernels::Features({.constants = features::ConstantsOf(plan),
                     .heads = plan.heads(),
                     .x = AsGroups(x),
                     .exponents = AsGroups(exponents),
                     .factors = AsGroups(factors),
                     .role = role},
                    context);
}

void FeatureExponentsBackward(const FeaturePlan& plan, ConstView x, ConstView grad_exponents,
                              ConstView grad_factors, const Context& context, View grad_x,
                              FeatureRole role) {
  const Shape shape = CheckedShape(plan, x.shape());
  CheckComputeType(grad_x.type());
  CheckArray("grad_exponents", grad_exponents, shape, grad_x.type(), {});
  CheckArray("grad_factors", grad_factors, shape, grad_x.type(), {});
  CheckArray("grad_x", grad_x, x.shape(), grad_x.type(), {});
  if (x.device().type != DeviceType::kCpu)
    Throw(ErrorCode::kUnavailable, "features",
          "given arrays on {}, but gradients run on the cpu only", Name(x.device()));
  Tensor storage;
  x = Converted(x, grad_x.type(), storage);
  kernels::FeaturesBackward({.constants = features::ConstantsOf(plan),
                             .heads = plan.heads(),
                             .x = AsGroups(x),
                             .grad_exponents = AsGroups(grad_exponents),
                             .grad_factors = AsGroups(grad_factors),
                             .grad_x = AsGroups(grad_x),
                             .role = role},
                            context);
}

Tensor Features(const FeaturePlan& plan, ConstView x, const Context& context, FeatureRole role) {
  const Shape shape = CheckedShape(plan, x.shape());
  const bool on_gpu = x.device().type == DeviceType::kCuda;
  const DataType type = on_gpu ? DataType::kF32 : DataType::kF64;
  Tensor phi(shape, type, x.device()), factors(shape, type, x.device());
  FeatureExponents(plan, x, context, phi, factors, role);
  if (on_gpu) {
    phi = phi.To(Device{}).To(DataType::kF64);
    factors = factors.To(Device{}).To(DataType::kF64);
  }
  double* values = phi.Data<double>();
  const double* g = factors.Data<double>();
  bool finite = true;
  const int64_t group_elements = x.size(x.rank() - 2) * plan.width();
  std::vector<double> log_normalizer;
  for (int64_t head = 0; head < plan.heads(); ++head)
    log_normalizer.push_back(plan.LogNormalizer(head));
  for (int64_t i = 0; i < shape.Elements(); ++i) {
    const auto head = static_cast<size_t>(i / group_elements % plan.heads());
    values[i] = g[i] == 0 ? 0 : std::exp(values[i] + log_normalizer[head]) * g[i];
    finite = finite && std::isfinite(values[i]);
  }
  if (!finite) {
    Throw(ErrorCode::kInvalidData, "features",
          "φ exceeds the range of f64 for these inputs; use exponents (--log), which do not");
  }
  return phi;
}

}  // namespace favor
