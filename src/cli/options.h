// Options with errors that say what was given and what was expected.
#ifndef FAVOR_CLI_OPTIONS_H_
#define FAVOR_CLI_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "favor/context.h"
#include "favor/features.h"
#include "favor/tensor.h"

namespace favor::cli {

// A whole number in [least, most].
CLI::Option* AddInteger(CLI::App& app, const std::string& name, int64_t least, int64_t most,
                        int64_t& value, const std::string& help);
// A finite number.
CLI::Option* AddNumber(CLI::App& app, const std::string& name, const std::string& help,
                       std::function<void(double)> store);
// One of `choices`; an unknown one is answered with the nearest.
CLI::Option* AddChoice(CLI::App& app, const std::string& name,
                       std::vector<std::string_view> choices, std::string& value,
                       const std::string& help);

// --threads and --seed.
struct RunOptions {
  int64_t threads = 0;
  int64_t seed = 0;

  ContextOptions ToContext() const {
    return {.threads = static_cast<int>(threads), .seed = static_cast<uint64_t>(seed)};
  }
};
void AddRunOptions(CLI::App& app, RunOptions& options);

// --map, --projection, --features, --omega-norm, --shared-omega, --kernel-epsilon, --oprf-a.
void AddFeatureOptions(CLI::App& app, FeatureOptions& options);

// The plan of --omega W.npy, or one drawn by the options.
FeaturePlan MakePlan(const FeatureOptions& options, const std::string& omega_path, int64_t heads,
                     int64_t dim, uint64_t seed);

int64_t Heads(const Shape& shape);  // of [L, d], [H, L, d] or [B, H, L, d]

// An array of finite numbers from a file, [L, d], [H, L, d] or [B, H, L, d].
Tensor ReadRows(const std::string& path);

// Fails now, before any work, where `path` could not be written later.
void RequireWritable(const std::string& path);

}  // namespace favor::cli

#endif  // FAVOR_CLI_OPTIONS_H_
