#include "layers/linearised_units.h"

#include <algorithm>

#include "core/element.h"
#include "features/drawn_features.h"
#include "kernels/append_column.h"
#include "kernels/column_sums.h"
#include "kernels/copy.h"
#include "kernels/dropout.h"
#include "kernels/scale_rows.h"

namespace favor::layers {
namespace {

// The memory of an array, seen with another shape of no more elements.
template <class AnyView>
AnyView As(const AnyView& array, const Shape& shape) {
  return {array.data(), array.type(), shape, RowMajorStrides(shape), array.device()};
}

template <class AnyView>
AnyView RowOf(const AnyView& matrix, int row) {
  return matrix.Range(0, row, 1);
}

void AddTo(const Context& context, ConstView x, View sum) {
  kernels::Dropout({.x = x, .residual = sum, .y = sum}, context);
}

Tensor Copied(ConstView array, const Context& context) {
  Tensor copy(array.shape(), array.type(), array.device());
  kernels::Copy({.from = array, .to = copy}, context);
  return copy;
}

}  // namespace

LinearisedUnits::LinearisedUnits(ParameterSet& parameters, const std::string& name,
                                 const Linear& up, const Linear& down, const LinearisedShape& shape)
    : linearisation_(shape.linearisation),
      up_(&up.weight()),
      up_bias_(&up.bias()),
      down_(&down.weight()),
      down_bias_(&down.bias()),
      units_(up_->shape[0]),
      dim_(linearisation_.dim),
      sizes_{{.degree = 1, .columns = dim_}},
      weight_scale_(linearisation_.input_norm / linearisation_.polynomial.interval().Half()),
      input_scale_(1 / linearisation_.input_norm) {
  for (const Linearisation::Part& part : linearisation_.Parts()) sizes_.push_back(part);
  for (const Linearisation::Part& part : sizes_)
    most_columns_ = std::max(most_columns_, part.columns);
  const std::vector<double>& c = linearisation_.polynomial.coefficients();
  const Shape curves{std::ssize(c), units_};
  std::vector<double> values;
  for (const double one : c) values.insert(values.end(), static_cast<size_t>(units_), one);
  if (shape.own_curves) {
    own_curve_ = &parameters.Add(name + ".curve", curves, {.values = values}, /*decays=*/false);
  } else {
    curve_ = Tensor(curves, parameters.pass_type());
    for (int64_t i = 0; i < curves.Elements(); ++i)
      StoreElement(curve_.view().data(), curve_.type(), i, values[static_cast<size_t>(i)]);
    if (parameters.device() != Device{}) curve_ = curve_.To(parameters.device());
  }
}

void LinearisedUnits::Draw(uint64_t seed) {
  drawn_ = LinearisedFeatures(linearisation_, seed).parts();
}

LinearisedUnits::Activations LinearisedUnits::Reserve(Arena& arena, int64_t tokens) const {
  Activations a{.bias = arena.Take({1, dim_ - 1}), .parts = {}};
  for (const Linearisation::Part& part : sizes_)
    a.parts.push_back({.phi = arena.Take({units_, part.columns}),
                       .scaled = arena.Take({units_, part.columns}),
                       .folded = arena.Take({dim_ - 1, part.columns}),
                       .psi = arena.Take({tokens, part.columns})});
  return a;
}

LinearisedUnits::Workspace LinearisedUnits::ReserveWorkspace(Arena& arena, int64_t tokens) const {
  return {.grad_bias = arena.Take({1, dim_ - 1}),
          .grad_folded = arena.Take({dim_ - 1, most_columns_}),
          .grad_phi = arena.Take({units_, most_columns_}),
          .grad_psi = arena.Take({tokens, most_columns_}),
          .grad_weights = arena.Take({units_, dim_}),
          .grad_inputs = arena.Take({tokens, dim_}),
          .part_weights = arena.Take({units_, dim_}),
          .part_inputs = arena.Take({tokens, dim_})};
}

ConstView LinearisedUnits::Curve(int degree) const {
  return RowOf(own_curve_ != nullptr ? own_curve_->read : curve_.view(), degree);
}

void LinearisedUnits::Features(const Context& context, size_t part, ConstView x, View y) const {
  kernels::Features({.constants = features::ConstantsOf(drawn_[part - 1].plan),
                     .heads = 1,
                     .x = As(x, {1, x.size(0), x.size(1)}),
                     .exponents = {},
                     .factors = As(y, {1, y.size(0), y.size(1)})},
                    context);
}

void LinearisedUnits::FeaturesBackward(const Context& context, size_t part, ConstView x,
                                       ConstView grad_y, View grad_x) const {
  kernels::FeaturesBackward({.constants = features::ConstantsOf(drawn_[part - 1].plan),
                             .heads = 1,
                             .x = As(x, {1, x.size(0), x.size(1)}),
                             .grad_exponents = {},
                             .grad_factors = As(grad_y, {1, grad_y.size(0), grad_y.size(1)}),
                             .grad_x = As(grad_x, {1, grad_x.size(0), grad_x.size(1)})},
                            context);
}

void LinearisedUnits::Fold(const Context& context, const Activations& a) const {
  const ConstView weights = a.parts[0].phi;
  kernels::AppendColumn(
      {.x = up_->read, .last = up_bias_->read, .scale = weight_scale_, .y = a.parts[0].phi},
      context);
  kernels::Matmul(
      {.a = Curve(0), .b = kernels::Transposed(down_->read), .c = a.bias, .bias = down_bias_->read},
      context);
  for (size_t i = 0; i < a.parts.size(); ++i) {
    const Part& part = a.parts[i];
    if (i > 0) Features(context, i, weights, part.phi);
    kernels::ScaleRows({.x = part.phi, .factors = Curve(sizes_[i].degree), .y = part.scaled},
                       context);
    kernels::Matmul({.a = down_->read, .b = part.scaled, .c = part.folded}, context);
  }
}

void LinearisedUnits::Forward(const Context& context, ConstView x, const Activations& a,
                              const kernels::MatmulEpilogue& then,
                              std::shared_ptr<const Folded>* kept, View y) const {
  const bool has_kept = kept != nullptr && *kept != nullptr;
  if (!has_kept) Fold(context, a);
  if (kept != nullptr && !has_kept) {
    auto folded = std::make_shared<Folded>(Folded{.bias = Copied(a.bias, context), .parts = {}});
    for (const Part& part : a.parts) folded->parts.push_back(Copied(part.folded, context));
    *kept = std::move(folded);
  }
  const ConstView inputs = a.parts[0].psi;
  kernels::AppendColumn({.x = x, .offset = 1, .scale = input_scale_, .y = a.parts[0].psi}, context);
  for (size_t i = 0; i < a.parts.size(); ++i) {
    const Part& part = a.parts[i];
    if (i > 0) Features(context, i, inputs, part.psi);
    const ConstView folded = has_kept ? (*kept)->parts[i].view() : ConstView(part.folded),
                    bias = has_kept ? (*kept)->bias.view() : ConstView(a.bias);
    kernels::Matmul({.a = part.psi,
                     .b = kernels::Transposed(folded),
                     .c = y,
                     .add = i > 0,
                     .bias = i > 0 ? ConstView() : As(bias, {dim_ - 1}),
                     .then = i + 1 < a.parts.size() ? kernels::MatmulEpilogue() : then},
                    context);
  }
}

void LinearisedUnits::Backward(const Context& context, const Activations& a, const Workspace& w,
                               ConstView grad_y, View grad_x) {
  const ConstView weights = a.parts[0].phi, inputs = a.parts[0].psi, second = down_->read;
  kernels::Zero({.y = w.grad_bias}, context);
  kernels::AddColumnSums({.rows = grad_y, .sums = As(w.grad_bias, {dim_ - 1})}, context);
  kernels::AddColumnSums({.rows = w.grad_bias, .sums = down_bias_->grad}, context);
  kernels::Matmul({.a = kernels::Transposed(w.grad_bias),
                   .b = Curve(0),
                   .c = down_->grad,
                   .add = down_->Adds()},
                  context);
  if (own_curve_ != nullptr)
    kernels::Matmul({.a = w.grad_bias, .b = second, .c = RowOf(own_curve_->grad, 0), .add = true},
                    context);
  for (size_t i = 0; i < a.parts.size(); ++i) {
    const Part& part = a.parts[i];
    const auto [degree, columns] = sizes_[i];
    const View grad_folded = As(w.grad_folded, {dim_ - 1, columns}),
               grad_phi = i == 0 ? w.grad_weights : As(w.grad_phi, {units_, columns}),
               grad_psi = i == 0 ? w.grad_inputs : As(w.grad_psi, {grad_y.size(0), columns});
    kernels::Matmul({.a = kernels::Transposed(grad_y), .b = part.psi, .c = grad_folded}, context);
    kernels::Matmul(
        {.a = grad_folded, .b = kernels::Transposed(part.scaled), .c = down_->grad, .add = true},
        context);
    kernels::Matmul({.a = kernels::Transposed(second), .b = grad_folded, .c = grad_phi}, context);
    kernels::ScaleRowsBackward(
        {.x = part.phi,
         .factors = Curve(degree),
         .grad_y = grad_phi,
         .grad_x = grad_phi,
         .grad_factors = own_curve_ == nullptr ? View() : RowOf(own_curve_->grad, degree)},
        context);
    kernels::Matmul({.a = grad_y, .b = part.folded, .c = grad_psi}, context);
    if (i == 0) continue;
    FeaturesBackward(context, i, weights, grad_phi, w.part_weights);
    AddTo(context, w.part_weights, w.grad_weights);
    FeaturesBackward(context, i, inputs, grad_psi, w.part_inputs);
    AddTo(context, w.part_inputs, w.grad_inputs);
  }
  kernels::AppendColumnBackward({.grad_y = w.grad_weights,
                                 .scale = weight_scale_,
                                 .add = up_->Adds(),
                                 .grad_x = up_->grad,
                                 .grad_last = up_bias_->grad},
                                context);
  kernels::AppendColumnBackward({.grad_y = w.grad_inputs, .scale = input_scale_, .grad_x = grad_x},
                                context);
}

}  // namespace favor::layers
