#include "cli/context_options.h"

#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error_text.h"
#include "favor/names.h"

namespace favor::cli {
namespace {

constexpr int kMostGpus = 1024;

// The N of "cuda:N"; throws unless it is a number of a GPU.
int GpuIndex(std::string_view number, const std::string& who) {
  int index = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (error != std::errc() || end != number.data() + number.size() || index < 0 ||
      index >= kMostGpus)
    Throw(ErrorCode::kInvalidOption, who, "given 'cuda:{}', expected cuda:N with N from 0 to {}",
          Printable(number), kMostGpus - 1);
  return index;
}

}  // namespace

Option& ContextArguments::AddDevice(Options& options, bool* reference) {
  const auto store = [this, reference, who = options.Who("--device")](const std::string& text) {
    constexpr std::string_view kGpu = "cuda:";
    if (text.starts_with(kGpu)) {
      device = {DeviceType::kCuda, GpuIndex(std::string_view(text).substr(kGpu.size()), who)};
      return;
    }
    std::vector<std::string_view> names = {"cpu", "cuda"};
    if (reference != nullptr) names.emplace_back("reference");
    const size_t place = FindName(text, names, who);
    device = {place == 1 ? DeviceType::kCuda : DeviceType::kCpu};
    if (reference != nullptr) *reference = place == 2;
  };
  return options
      .Value("--device", store,
             reference == nullptr ? "cpu, or a GPU: cuda or cuda:N"
                                  : "cpu, a GPU (cuda or cuda:N), or reference: plain loops in "
                                    "double")
      .Placeholder(reference == nullptr ? "cpu|cuda[:N]" : "cpu|cuda[:N]|reference")
      .Default("cpu");
}

void ContextArguments::AddPlacement(Options& options, DataType on_gpu) {
  static constexpr std::string_view kNames[] = {"f32", "bf16"};
  static constexpr DataType kTypes[] = {DataType::kF32, DataType::kBF16};
  gpu_precision = on_gpu;
  AddDevice(options);
  options
      .Choice(
          "--precision", kNames, [this](size_t place) { precision = kTypes[place]; },
          "Type of activations on a GPU; weights and their sums stay f32")
      .Default(on_gpu == DataType::kBF16 ? "bf16 on a GPU, f32 otherwise" : "f32");
}

Placement ContextArguments::ModelPlacement() const {
  const bool on_gpu = device.type == DeviceType::kCuda;
  return {.device = device,
          .pass_type = precision.value_or(on_gpu ? gpu_precision : DataType::kF32)};
}

std::string ContextArguments::PlacementWords() const {
  const auto [where, pass_type] = ModelPlacement();
  if (where.type == DeviceType::kCpu) return "";
  return fmt::format(
      " --device {}{}", Name(where),
      pass_type == gpu_precision ? "" : fmt::format(" --precision {}", Name(pass_type)));
}

Option& AddType(Options& options, std::optional<DataType>& type, const std::string& help) {
  static constexpr std::string_view kNames[] = {"f32", "f16", "bf16"};
  static constexpr DataType kTypes[] = {DataType::kF32, DataType::kF16, DataType::kBF16};
  return options.Choice(
      "--type", kNames, [&type](size_t place) { type = kTypes[place]; }, help);
}

Tensor RowsOn(const Device& device, Tensor rows, std::optional<DataType> type) {
  if (!type && device.type == DeviceType::kCuda && rows.type() == DataType::kF64)
    type = DataType::kF32;
  if (type && *type != rows.type()) rows = rows.To(*type);
  return device == Device{} ? std::move(rows) : rows.To(device);
}

}  // namespace favor::cli
