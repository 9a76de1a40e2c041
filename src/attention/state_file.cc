// The file of a state: a safetensors file with the metadata
//   format "favor.state", version "1", map, epsilon, scale
// and the tensors omega F64 [heads or 1, m, d], oprf_a F64 [heads or 1], those of state_numbers.h
// and, where keys are centred, key_mean F64 [H, d].
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "attention/state_impl.h"
#include "attention/state_numbers.h"
#include "core/error_text.h"
#include "io/input_file.h"
#include "io/safetensors.h"
#include "kernels/project.h"

namespace favor {
namespace {

constexpr const char* kFormat = "favor.state";
constexpr const char* kVersion = "1";

class Reader {
 public:
  Reader(const io::Safetensors& file, const std::string& name) : file_(file), name_(name) {}

  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidData, Printable(name_), what);
  }

  double Number(const std::string& key) const {
    const std::string& text = file_.Metadata(key, name_);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      Fail(fmt::format("'{}' is '{}', expected a number", key, Printable(text)));
    }
    return value;
  }

  const std::string& Text(const std::string& key) const { return file_.Metadata(key, name_); }
  bool Has(const std::string& tensor) const { return file_.entries.contains(tensor); }

  // Of a tensor of doubles.
  const std::vector<int64_t>& ShapeOf(const std::string& tensor, size_t rank) const {
    const io::SafetensorsEntry& entry = file_.Entry(tensor, name_);
    const auto& shape = entry.shape;
    if (entry.type() != DataType::kF64)
      Fail(fmt::format("tensor '{}' is of type {}, expected F64", tensor, Printable(entry.dtype)));
    if (shape.size() != rank)
      Fail(fmt::format("tensor '{}' has {} axes, expected {}", tensor, shape.size(), rank));
    return shape;
  }

  std::vector<double> Values(const std::string& tensor, const std::vector<int64_t>& shape) const {
    const io::SafetensorsEntry& entry = file_.Entry(tensor, name_);
    if (entry.shape != shape)
      Fail(fmt::format("tensor '{}' does not have the shape that the others ask for", tensor));
    std::vector<double> values = entry.Values<double>(name_);
    for (const double value : values) {
      if (!std::isfinite(value)) Fail(fmt::format("tensor '{}' holds NaN or infinity", tensor));
    }
    return values;
  }

 private:
  const io::Safetensors& file_;
  const std::string& name_;
};

}  // namespace

void AttentionState::Save(const std::string& path) const {
  const Impl& impl = *impl_;
  const FeaturePlan& plan = impl.plan;
  const auto& heads = plan.impl().head_features;
  std::vector<double> omega, oprf_a;
  for (const auto& head : heads) {
    const auto rows = kernels::reference::DenseRows(head.omega);
    omega.insert(omega.end(), rows.begin(), rows.end());
    oprf_a.push_back(head.oprf_a);
  }
  const auto drawn = static_cast<int64_t>(heads.size());

  io::Safetensors file;
  file.metadata = {{"format", kFormat},
                   {"version", kVersion},
                   {"map", std::string(plan.map().name)},
                   {"epsilon", fmt::format("{}", heads[0].epsilon)},
                   {"scale", fmt::format("{}", impl.scale)}};
  file.Add("omega", {drawn, plan.features(), plan.dim()}, std::move(omega));
  file.Add("oprf_a", {drawn}, std::move(oprf_a));
  attention::StoreNumbers(impl, "", file);
  if (!impl.mean.empty()) file.Add("key_mean", {plan.heads(), plan.dim()}, impl.mean);
  io::WriteSafetensors(path, file);
}

AttentionState AttentionState::Parse(std::span<const std::byte> bytes, const std::string& name) {
  const io::Safetensors file = io::ParseSafetensors(bytes, name);
  const Reader read(file, name);
  read.Text("checksum");  // must be there; it has been checked
  if (read.Text("format") != kFormat) read.Fail("is a safetensors file, but no state of favor");
  if (read.Text("version") != kVersion)
    read.Fail(fmt::format("is a state of version '{}', expected {}",
                          Printable(read.Text("version")), kVersion));
  const auto omega_shape = read.ShapeOf("omega", 3), s_shape = read.ShapeOf("s", 4);
  const int64_t drawn = omega_shape[0], heads = s_shape[1];
  if (drawn != 1 && drawn != heads)
    read.Fail(fmt::format("has {} matrices ω for {} heads", drawn, heads));
  const auto omega = read.Values("omega", omega_shape);
  const auto oprf_a = read.Values("oprf_a", {drawn});
  FeatureOptions options{.map = read.Text("map")};
  const double epsilon = read.Number("epsilon");
  std::vector<double> mean;
  if (read.Has("key_mean")) mean = read.Values("key_mean", {heads, omega_shape[2]});
  try {
    for (const FeatureMapInfo& map : Maps()) {
      if (map.name != options.map) continue;
      if (map.default_epsilon) options.kernel_epsilon = epsilon;
    }
    if (options.map == "oprf") options.oprf_a = oprf_a;
    const ConstView all(omega.data(), {omega_shape[0], omega_shape[1], omega_shape[2]});
    const auto plan =
        FeaturePlan::WithOmega(options, heads, drawn == 1 && heads > 1 ? all.At(0) : all);
    StateOptions state_options{
        .batch = s_shape[0], .value_dim = s_shape[3], .scale = read.Number("scale")};
    if (!mean.empty()) state_options.key_mean = ConstView(mean.data(), {heads, omega_shape[2]});
    // Then the states are as large as the file's tensor s.
    if (s_shape[2] != plan.width())
      read.Fail(fmt::format("has states of width {}, its map has {}", s_shape[2], plan.width()));
    AttentionState state(plan, state_options);
    attention::LoadNumbers(file, "", name, *state.impl_);
    return state;
  } catch (const Error& error) {  // an option that no writer can have produced: the file's fault,
                                  // not the caller's
    if (error.code() == ErrorCode::kInvalidOption)
      read.Fail(fmt::format("is no valid state: {}", error.what()));
    throw;
  }
}

AttentionState AttentionState::Load(const std::string& path) {
  const std::string bytes = io::ReadRegularFile(path);
  return Parse(std::as_bytes(std::span(bytes)), path);
}

}  // namespace favor
