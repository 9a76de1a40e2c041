// --threads, --seed, --device and --precision.
#ifndef FAVOR_CLI_CONTEXT_OPTIONS_H_
#define FAVOR_CLI_CONTEXT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "cli/options.h"
#include "favor/context.h"
#include "favor/model.h"
#include "favor/tensor.h"

namespace favor::cli {

struct ContextArguments {
  int64_t threads = 0;  // 0: all cores
  int64_t seed = 0;
  Device device;
  std::optional<DataType> precision;
  DataType gpu_precision = DataType::kF32;  // if none is given

  void AddThreads(Options& options) {
    options
        .Integer("--threads", {1, Context::kMaxThreads}, threads,
                 "Number of threads; results do not depend on it")
        .Default("all cores");
  }
  void Add(Options& options) {
    AddThreads(options);
    options.Integer("--seed", {0, INT64_MAX}, seed, "Seed of every random draw");
  }

  // --device cpu, cuda or cuda:N. If `reference` is not null, also reference: the CPU, and true
  // there.
  Option& AddDevice(Options& options, bool* reference = nullptr);
  // --device and --precision of commands that run models; `on_gpu` is the default there.
  void AddPlacement(Options& options, DataType on_gpu = DataType::kF32);
  Placement ModelPlacement() const;
  // " --device cuda:0 --precision bf16", as far as that is not the default; empty on the CPU.
  std::string PlacementWords() const;
  // ω that the fast kernels of such passes take.
  OmegaType ModelOmega() const {
    return ModelPlacement().pass_type == DataType::kBF16 ? OmegaType::kBF16 : OmegaType::kF32;
  }

  Context Make() const {
    return Context({.threads = static_cast<int>(threads),
                    .seed = static_cast<uint64_t>(seed),
                    .device = device});
  }
};

// --type: f32, f16 or bf16.
Option& AddType(Options& options, std::optional<DataType>& type, const std::string& help);

// Rows of a file as operations on the device take them: converted to `type`, which on a GPU is
// that of the file unless it is given, and f32 in place of f64.
Tensor RowsOn(const Device& device, Tensor rows, std::optional<DataType> type = std::nullopt);

}  // namespace favor::cli

#endif  // FAVOR_CLI_CONTEXT_OPTIONS_H_
