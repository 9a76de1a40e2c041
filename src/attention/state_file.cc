// The file of a state: a safetensors file with the metadata
//   format "favor.state", version "1" ("2" if the state forgets), map, epsilon, scale, begin, end
// and the tensors omega F64 [heads or 1, m, d], oprf_a F64 [heads or 1], those of state_numbers.h
// and, if keys are centred, key_mean F64 [H, d]. Maps that take a width have the metadata
// local_width and local_smoothing, and those with a mask 2m rows of ω. An ω that was rounded to
// bf16 has the metadata omega_type. Maps without ω have the metadata dim instead, and maps that
// take a polynomial also coefficients, features and rotate, and what they drew as the tensor table
// F64 [heads or 1, numbers] (features/polynomial_tables.h). Files of earlier versions have no begin
// and end: their tokens begin at 0.
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "attention/state_data.h"
#include "attention/state_numbers.h"
#include "core/error_text.h"
#include "core/host_copy.h"
#include "core/split.h"
#include "features/polynomial_tables.h"
#include "io/input_file.h"
#include "io/safetensors.h"
#include "kernels/project.h"

namespace favor {
namespace {

constexpr const char* kFormat = "favor.state";
// A reader that knows only the first refuses a state that forgets.
constexpr const char *kVersion = "1", *kForgettingVersion = "2";

class Reader {
 public:
  Reader(const io::Safetensors& file, const std::string& name) : file_(file), name_(name) {}

  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidData, Printable(name_), what);
  }

  double Number(const std::string& key) const { return NumberOf(key, file_.Metadata(key, name_)); }
  double NumberOf(const std::string& key, std::string_view text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      Fail(fmt::format("'{}' is '{}', expected a number", key, Printable(text)));
    }
    return value;
  }

  int64_t Count(const std::string& key, int64_t most) const {
    const std::string& text = file_.Metadata(key, name_);
    int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
      Fail(fmt::format("'{}' is '{}', expected a number from 0 to {}", key, Printable(text), most));
    return value;
  }
  bool HasText(const std::string& key) const { return file_.metadata.contains(key); }

  const std::string& Text(const std::string& key) const { return file_.Metadata(key, name_); }
  bool Has(const std::string& tensor) const { return file_.entries.contains(tensor); }

  // The shape of a tensor of doubles.
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
      Fail(fmt::format("tensor '{}' does not have the shape that the other tensors imply", tensor));
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

void StorePolynomial(const FeaturePlan& plan, io::Safetensors& file) {
  const kernels::FeatureConstants& constants = features::ConstantsOf(plan);
  if (!constants.map().row.coefficients.empty()) return;  // the map's name says it
  const kernels::PolynomialShape& shape = constants.polynomial();
  file.metadata["coefficients"] = fmt::format("{}", fmt::join(shape.coefficients, ","));
  file.metadata["features"] = std::to_string(plan.options().features);
  file.metadata["rotate"] = plan.options().rotate ? "1" : "0";
  if (!shape.IsRandom()) return;
  std::vector<double> table;
  for (const std::vector<int32_t>& numbers : constants.tables())
    table.insert(table.end(), numbers.begin(), numbers.end());
  file.Add("table", {static_cast<int64_t>(constants.tables().size()), shape.table_size},
           std::move(table));
}

}  // namespace

void AttentionState::Save(const std::string& path) const {
  const attention::State& state = *impl_;
  const FeaturePlan& plan = state.plan;
  const kernels::FeatureConstants& constants = features::ConstantsOf(plan);
  io::Safetensors file;
  file.metadata = {{"format", kFormat},
                   {"version", state.forgets ? kForgettingVersion : kVersion},
                   {"map", std::string(plan.map().name)},
                   {"epsilon", fmt::format("{}", constants.epsilon())},
                   {"scale", fmt::format("{}", state.scale)},
                   {"begin", std::to_string(state.begin)},
                   {"end", std::to_string(state.end)}};
  if (constants.least_denominator() != 0)
    file.metadata["least_denominator"] = fmt::format("{}", constants.least_denominator());
  if (constants.HasOmega()) {
    std::vector<double> omega, oprf_a;
    for (int64_t entry = 0; entry < constants.entries(); ++entry) {
      const auto rows = kernels::reference::DenseRows(constants.OmegaOf(entry));
      omega.insert(omega.end(), rows.begin(), rows.end());
      oprf_a.push_back(constants.Head(entry).oprf_a);
    }
    file.Add("omega", {constants.entries(), constants.omega_rows(), plan.dim()}, std::move(omega));
    file.Add("oprf_a", {constants.entries()}, std::move(oprf_a));
    if (plan.options().omega_type != OmegaType::kF32)
      file.metadata["omega_type"] = Name(plan.options().omega_type);
    if (plan.map().takes_width) {
      file.metadata["local_width"] = fmt::format("{}", plan.options().local_width);
      file.metadata["local_smoothing"] = fmt::format("{}", plan.options().local_smoothing);
    }
  } else {
    file.metadata["dim"] = std::to_string(plan.dim());
    StorePolynomial(plan, file);
  }
  attention::StoreState(state, "", file);
  if (!state.key_mean.empty()) {
    const HostCopy copy(state.key_mean);
    const auto* mean = copy.view().Data<double>();
    file.Add("key_mean", {plan.heads(), plan.dim()},
             std::vector<double>(mean, mean + state.key_mean.shape().Elements()));
  }
  io::WriteSafetensors(path, file);
}

namespace {

// The plan of a map without ω: its polynomial, with the tables stored there.
FeaturePlan ReadPolynomial(const Reader& read, const kernels::MapEntry& map, FeatureOptions options,
                           int64_t heads) {
  const int64_t dim = read.Count("dim", FeaturePlan::kMaxDim);
  if (!map.row.coefficients.empty()) return FeaturePlan::Draw(options, heads, dim, 0);
  for (const std::string_view number : SplitAt(read.Text("coefficients"), ','))
    options.coefficients.push_back(read.NumberOf("coefficients", number));
  options.features = read.Count("features", FeaturePlan::kMaxFeatures);
  options.rotate = read.Count("rotate", 1) == 1;
  features::CheckPolynomial(options, map, dim);
  const kernels::PolynomialShape shape = features::ShapeOf(options, map, dim);
  std::vector<std::vector<int32_t>> tables;
  if (shape.IsRandom()) {
    const int64_t drawn = read.ShapeOf("table", 2)[0];
    if (drawn != 1 && drawn != heads)
      read.Fail(fmt::format("has {} tables for {} heads", drawn, heads));
    const auto numbers = read.Values("table", {drawn, shape.table_size});
    for (int64_t head = 0; head < drawn; ++head) {
      const auto own = std::span(numbers).subspan(static_cast<size_t>(head * shape.table_size),
                                                  static_cast<size_t>(shape.table_size));
      if (!features::IsTable(shape, map.row.layout, own))
        read.Fail("tensor 'table' holds numbers that its map cannot have drawn");
      tables.emplace_back(own.begin(), own.end());
    }
  }
  return features::PlanWithTables(options, heads, dim, std::move(tables));
}

// The plan of a file: its map with the ω stored there.
FeaturePlan ReadPlan(const Reader& read, int64_t heads) {
  FeatureOptions options{.map = read.Text("map")};
  if (read.HasText("least_denominator"))
    options.least_denominator = read.Number("least_denominator");
  const kernels::MapEntry* map = kernels::FindMap(options.map);
  if (map != nullptr && map->IsRowMap()) return ReadPolynomial(read, *map, options, heads);
  const auto shape = read.ShapeOf("omega", 3);
  const int64_t drawn = shape[0];
  if (drawn != 1 && drawn != heads)
    read.Fail(fmt::format("has {} matrices ω for {} heads", drawn, heads));
  const auto omega = read.Values("omega", shape), oprf_a = read.Values("oprf_a", {drawn});
  if (read.HasText("omega_type"))
    options.omega_type = Named<OmegaType>(read.Text("omega_type"), "omega_type");
  if (map != nullptr && map->traits->info.default_epsilon)
    options.kernel_epsilon = read.Number("epsilon");
  if (map != nullptr && map->traits->info.takes_a) options.oprf_a = oprf_a;
  if (map != nullptr && map->traits->info.takes_width) {
    options.local_width = read.Number("local_width");
    options.local_smoothing = read.Number("local_smoothing");
  }
  const ConstView all(omega.data(), {shape[0], shape[1], shape[2]});
  return FeaturePlan::WithOmega(options, heads, drawn == 1 && heads > 1 ? all.At(0) : all);
}

}  // namespace

AttentionState AttentionState::Parse(std::span<const std::byte> bytes, const std::string& name) {
  const io::Safetensors file = io::ParseSafetensors(bytes, name);
  const Reader read(file, name);
  read.Text("checksum");  // must be there; it has been checked
  if (read.Text("format") != kFormat) read.Fail("is a safetensors file, but not a state of favor");
  const bool forgets = read.Text("version") == kForgettingVersion;
  if (!forgets && read.Text("version") != kVersion)
    read.Fail(fmt::format("is a state of version '{}', expected {} or {}",
                          Printable(read.Text("version")), kVersion, kForgettingVersion));
  const auto s_shape = read.ShapeOf("s", 4);
  const int64_t heads = s_shape[1];
  try {
    const FeaturePlan plan = ReadPlan(read, heads);
    read.Number("epsilon");
    StateOptions options{.batch = s_shape[0],
                         .value_dim = s_shape[3],
                         .scale = read.Number("scale"),
                         .forgets = forgets};
    std::vector<double> mean;
    if (read.Has("key_mean")) mean = read.Values("key_mean", {heads, plan.dim()});
    if (!mean.empty()) options.key_mean = ConstView(mean.data(), {heads, plan.dim()});
    if (read.HasText("begin")) options.begin = read.Count("begin", kernels::kMostTokens);
    // Checked before anything is allocated: the states are then as large as the file's tensor s.
    if (s_shape[2] != plan.width())
      read.Fail(fmt::format("has states of width {}, its map has {}", s_shape[2], plan.width()));
    AttentionState state(plan, options);
    attention::LoadState(file, "", name, *state.impl_);
    state.impl_->end = read.HasText("end") ? read.Count("end", kernels::kMostTokens)
                                           : options.begin + state.tokens();
    if (state.end() - state.begin() < state.tokens())
      read.Fail("its positions and its number of tokens disagree");
    return state;
  } catch (const Error& error) {
    // No writer produces an invalid option: it is the file's fault, not the caller's.
    if (error.code() == ErrorCode::kInvalidOption)
      read.Fail(fmt::format("is not a valid state: {}", error.what()));
    throw;
  }
}

AttentionState AttentionState::Load(const std::string& path) {
  const std::string bytes = io::ReadRegularFile(path);
  return Parse(std::as_bytes(std::span(bytes)), path);
}

}  // namespace favor
