#include "train/memory_advice.h"

#include <fmt/format.h>

#include "favor/error.h"

namespace favor::train {
namespace {

std::string Gigabytes(const ModelConfig& model, const MemoryRequest& step) {
  const double gigabytes = static_cast<double>(EstimateMemory(model, step).Total()) * 1e-9;
  return fmt::format("{:.{}f} GB", gigabytes, gigabytes < 10 ? 2 : gigabytes < 100 ? 1 : 0);
}

}  // namespace

std::string MemoryAdvice(const ModelConfig& model, const MemoryRequest& step) try {
  std::string advice = fmt::format("a step of batch {} × length {} takes about {}", step.batch,
                                   step.length, Gigabytes(model, step));
  const char* before = ": ";
  const auto add = [&](const MemoryRequest& less, const std::string& what) {
    advice += fmt::format("{}{} with {}", before, Gigabytes(model, less), what);
    before = ", ";
  };
  MemoryRequest less = step;
  if (!step.recompute) {
    less.recompute = true;
    add(less, "recompute");
    less = step;
  }
  if (step.batch > 1) {
    less.batch = step.batch / 2;
    add(less, fmt::format("batch {}", less.batch));
    less = step;
  } else if (step.length > 1) {
    less.length = step.length / 2;
    add(less, fmt::format("length {}", less.length));
    less = step;
  }
  if (step.placement.device.type == DeviceType::kCuda &&
      step.placement.pass_type == DataType::kF32) {
    less.placement.pass_type = DataType::kBF16;
    add(less, "precision bf16");
  }
  return advice;
} catch (const Error&) {
  return "";  // larger than any memory, for instance
}

}  // namespace favor::train
