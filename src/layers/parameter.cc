#include "layers/parameter.h"

#include <algorithm>

#include "core/device.h"
#include "core/element.h"
#include "core/error_text.h"
#include "favor/random.h"
#include "kernels/copy.h"

namespace favor::layers {

View PartOf(const View& array, const Parameter& parameter) {
  auto* first = static_cast<std::byte*>(array.data()) + parameter.begin * ItemBytes(array.type());
  return {first, array.type(), parameter.shape, RowMajorStrides(parameter.shape), array.device()};
}

// The next position that is aligned both in the values and in their copy for passes.
int64_t ParameterSet::Aligned(int64_t elements) const {
  const int64_t alignment = 64 / std::min(ItemBytes(type()), ItemBytes(pass_type()));
  return (elements + alignment - 1) / alignment * alignment;
}

Parameter& ParameterSet::Add(const std::string& name, const Shape& shape, const Initial& initial,
                             bool decays, Place place) {
  if (!values_.empty())
    Throw(ErrorCode::kInvalidOption, "parameters", "given '{}' when the others have their memory",
          name);
  const int64_t begin = place == Place::kBehind ? elements_ : Aligned(elements_);
  all_.push_back(std::make_unique<Parameter>(
      Parameter{.name = name, .shape = shape, .decays = decays, .begin = begin}));
  initial_.push_back(initial);
  count_ += shape.Elements();
  elements_ = begin + shape.Elements();
  return *all_.back();
}

Tensor ParameterSet::FirstValues() const {
  Tensor values({elements_}, type());
  if (!options_.draw) return values;
  for (size_t index = 0; index < all_.size(); ++index) {
    const auto& [mean, deviation, given] = initial_[index];
    const int64_t count = all_[index]->shape.Elements();
    std::vector<double> drawn(static_cast<size_t>(deviation > 0 ? count : 0));
    RandomStream(options_.seed, "weights/" + all_[index]->name).FillNormal(0, drawn);
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      const double normal = drawn.empty() ? 0 : drawn[at];
      const auto value = static_cast<float>(given.empty() ? mean + deviation * normal : given[at]);
      StoreElement(values.view().data(), type(), all_[index]->begin + i, value);
    }
  }
  return values;
}

void ParameterSet::Allocate() {
  elements_ = Aligned(elements_);
  if (options_.shapes_only) return;
  values_ = FirstValues();
  if (pass_type() != type()) pass_values_ = values_.To(pass_type()).To(device());
  if (device() != Device{}) values_ = values_.To(device());
  for (const auto& parameter : all_) {
    parameter->value = PartOf(values_, *parameter);
    parameter->read = PartOf(pass_values_.empty() ? values_ : pass_values_, *parameter);
  }
  MakeSegments([](const std::string&) { return false; });
}

void ParameterSet::Freeze(const std::function<bool(const std::string&)>& frozen) {
  if (!options_.shapes_only) MakeSegments(frozen);
}

void ParameterSet::MakeSegments(const std::function<bool(const std::string&)>& frozen) {
  std::vector<kernels::Segment> segments;
  for (const auto& parameter : all_) {
    parameter->frozen = frozen(parameter->name);
    if (parameter->frozen) continue;
    segments.push_back({.begin = parameter->begin,
                        .count = parameter->shape.Elements(),
                        .decays = parameter->decays});
  }
  segment_count_ = std::ssize(segments);
  const auto bytes = static_cast<int64_t>(segments.size() * sizeof(kernels::Segment));
  segments_ = AllocateOn(device(), bytes);
  CopyBytes(segments_.get(), device(), segments.data(), {}, bytes);
}

kernels::Segments ParameterSet::segments() const {
  return {reinterpret_cast<const kernels::Segment*>(segments_.get()), segment_count_};
}

void ParameterSet::Refresh(const Context& context) {
  if (!pass_values_.empty()) kernels::Copy({.from = values_, .to = pass_values_}, context);
}

void ParameterSet::ZeroGradients(const Context& context) {
  for (const auto& parameter : all_) parameter->is_stale = false;
  if (!gradients_.empty()) return kernels::Zero({.y = gradients_}, context);
  gradients_ = Tensor({elements_}, type(), device());
  for (const auto& parameter : all_) parameter->grad = PartOf(gradients_, *parameter);
}

void ParameterSet::BeginGradients(const Context& context) {
  if (gradients_.empty()) return ZeroGradients(context);
  for (const auto& parameter : all_) {
    parameter->is_stale = parameter->is_stored;
    if (!parameter->is_stored) kernels::Zero({.y = parameter->grad}, context);
  }
}

void ParameterSet::SettleGradients(const Context& context) {
  for (const auto& parameter : all_) {
    if (!parameter->Adds()) kernels::Zero({.y = parameter->grad}, context);
  }
}

}  // namespace favor::layers
