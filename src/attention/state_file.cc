// The file of a state: a safetensors file with the metadata
//   format "favor.state", version "1", map, epsilon, scale
// and the tensors omega F64 [heads or 1, m, d], oprf_a F64 [heads], c F64 [B, H, width], s F32 [B,
// H, width, value_dim], z F32 [B, H, width], tokens I64 [B, H] and, where keys are centred,
// key_mean F64 [H, d].
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "attention/state_impl.h"
#include "core/error_text.h"
#include "io/atomic_file.h"
#include "io/input_file.h"
#include "io/safetensors.h"
#include "kernels/project.h"

namespace favor {
namespace {

constexpr const char* kFormat = "favor.state";
constexpr const char* kVersion = "1";
constexpr int64_t kMaxTokens = int64_t{1} << 53;

template <class T>
std::span<const std::byte> Raw(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// All states of one field, one after the other.
template <class T, class Field>
std::vector<T> Gather(const AttentionState::Impl& impl, const Field& field) {
  std::vector<T> all;
  for (const auto& state : impl.states) {
    const auto& values = field(state);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

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

  const std::vector<int64_t>& ShapeOf(const std::string& tensor, size_t rank) const {
    const auto& shape = file_.Entry(tensor, name_).shape;
    if (shape.size() != rank)
      Fail(fmt::format("tensor '{}' has {} axes, expected {}", tensor, shape.size(), rank));
    return shape;
  }

  template <class T>
  std::vector<T> Values(const std::string& tensor, const std::vector<int64_t>& shape,
                        bool minus_infinity = false) const {
    const io::SafetensorsEntry& entry = file_.Entry(tensor, name_);
    if (entry.shape != shape)
      Fail(fmt::format("tensor '{}' does not have the shape that the others ask for", tensor));
    std::vector<T> values = entry.Values<T>(name_);
    if constexpr (std::is_floating_point_v<T>) {
      for (const T value : values) {
        if (!std::isfinite(value) && !(minus_infinity && value == -INFINITY))
          Fail(fmt::format("tensor '{}' holds NaN or infinity", tensor));
      }
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
  const auto c = Gather<double>(
      impl, [](const auto& state) -> const auto& { return state.c; });
  const auto s = Gather<double>(
      impl, [](const auto& state) -> const auto& { return state.s; });
  const auto z = Gather<double>(
      impl, [](const auto& state) -> const auto& { return state.z; });
  std::vector<int64_t> tokens;
  for (const auto& state : impl.states) tokens.push_back(state.tokens);
  const int64_t b = impl.batch, h = plan.heads(), width = plan.width();
  const auto drawn = static_cast<int64_t>(heads.size());

  io::Safetensors file;
  file.metadata = {{"format", kFormat},
                   {"version", kVersion},
                   {"map", std::string(plan.map().name)},
                   {"epsilon", fmt::format("{}", heads[0].epsilon)},
                   {"scale", fmt::format("{}", impl.scale)},
                   {"heads", std::to_string(h)}};
  file.entries["omega"] = {"F64", {drawn, plan.features(), plan.dim()}, Raw(omega)};
  file.entries["oprf_a"] = {"F64", {drawn}, Raw(oprf_a)};
  file.entries["c"] = {"F64", {b, h, width}, Raw(c)};
  file.entries["s"] = {"F64", {b, h, width, impl.value_dim}, Raw(s)};
  file.entries["z"] = {"F64", {b, h, width}, Raw(z)};
  file.entries["tokens"] = {"I64", {b, h}, Raw(tokens)};
  if (!impl.mean.empty()) file.entries["key_mean"] = {"F64", {h, plan.dim()}, Raw(impl.mean)};
  io::WriteFileAtomically(path, io::SerializeSafetensors(file));
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
  const auto omega = read.Values<double>("omega", omega_shape);
  const auto oprf_a = read.Values<double>("oprf_a", {drawn});
  FeatureOptions options{.map = read.Text("map")};
  const double epsilon = read.Number("epsilon");
  std::vector<double> mean;
  if (read.Has("key_mean")) mean = read.Values<double>("key_mean", {heads, omega_shape[2]});
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
    // Sizes agree with what the file holds before anything of that size is allocated.
    const int64_t b = s_shape[0], width = s_shape[2], dv = s_shape[3];
    if (width != plan.width())
      read.Fail(fmt::format("has states of width {}, its map has {}", width, plan.width()));
    const auto c = read.Values<double>("c", {b, heads, width}, /*minus_infinity=*/true);
    const auto s = read.Values<double>("s", s_shape),
               z = read.Values<double>("z", {b, heads, width});
    const auto tokens = read.Values<int64_t>("tokens", {b, heads});
    AttentionState state(plan, state_options);
    for (size_t group = 0; group < state.impl_->states.size(); ++group) {
      auto& to = state.impl_->states[group];
      const auto w = static_cast<size_t>(width), first = group * w,
                 first_s = first * static_cast<size_t>(dv);
      to.c.assign(c.begin() + static_cast<int64_t>(first),
                  c.begin() + static_cast<int64_t>(first + w));
      to.z.assign(z.begin() + static_cast<int64_t>(first),
                  z.begin() + static_cast<int64_t>(first + w));
      to.s.assign(s.begin() + static_cast<int64_t>(first_s),
                  s.begin() + static_cast<int64_t>(first_s + w * static_cast<size_t>(dv)));
      to.tokens = tokens[group];
      if (to.tokens < 0 || to.tokens > kMaxTokens) read.Fail("has an absurd number of tokens");
      for (const double value : to.c) {
        if ((value == -INFINITY) != to.IsEmpty())
          read.Fail("its maxima and its number of tokens disagree");
      }
    }
    return state;
  } catch (const Error& error) {  // an option that no writer can have produced: the file's fault,
                                  // not the caller's
    if (error.code() == ErrorCode::kInvalidOption)
      read.Fail(fmt::format("is no valid state: {}", error.what()));
    throw;
  }
}

AttentionState AttentionState::Load(const std::string& path) {
  io::InputFile file(path);
  if (!file.Size())
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given a device or pipe, expected a state file");
  const std::string bytes = file.ReadRest();
  return Parse(std::as_bytes(std::span(bytes)), path);
}

}  // namespace favor
