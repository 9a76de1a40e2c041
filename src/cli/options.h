// Options with errors that say what was given and what was expected.
#ifndef FAVOR_CLI_OPTIONS_H_
#define FAVOR_CLI_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.h"
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

// Lists of these, separated by commas.
CLI::Option* AddIntegers(CLI::App& app, const std::string& name, int64_t least, int64_t most,
                         std::vector<int64_t>& values, const std::string& help);
CLI::Option* AddChoices(CLI::App& app, const std::string& name,
                        std::vector<std::string_view> choices, std::vector<std::string>& values,
                        const std::string& help);

// A file or folder; an empty text (an unset variable of a script) is refused.
CLI::Option* AddPath(CLI::App& app, const std::string& name, const std::string& placeholder,
                     std::string& path, const std::string& help);

// --threads and --seed.
struct RunOptions {
  int64_t threads = 0;
  int64_t seed = 0;

  ContextOptions ToContext() const {
    return {.threads = static_cast<int>(threads), .seed = static_cast<uint64_t>(seed)};
  }
};
void AddRunOptions(CLI::App& app, RunOptions& options);
void AddThreads(CLI::App& app, int64_t& threads);  // --threads alone

// Options that set fields of a config: kept as text until the config is known, so that presets and
// files come first.
class FieldOptions {
 public:
  // Under the heading `group`; defaults shown are the present values.
  void Add(CLI::App& app, const std::string& group, const std::vector<Field>& fields);
  bool Given() const { return !given_.empty(); }
  // Sets those of `fields` that were given.
  void Apply(const std::vector<Field>& fields) const;

 private:
  const CLI::App* app_ = nullptr;
  std::map<std::string, std::string, std::less<>> given_;  // by key
};

// --map, --projection, --features, --omega-norm, --shared-omega, --kernel-epsilon, --oprf-a, and
// --omega for a given ω.
struct FeatureArguments {
  FeatureOptions options;
  std::string omega;
  std::vector<CLI::Option*> all, drawing;  // every option; those that say how ω is drawn

  // Throws where options say how to draw an ω that is given.
  void Check(std::string_view who) const;
  bool Given() const;  // any of them
};
void AddFeatureOptions(CLI::App& app, FeatureArguments& arguments);

// The plan of --omega W.npy, or one drawn by the options.
FeaturePlan MakePlan(const FeatureArguments& arguments, int64_t heads, int64_t dim, uint64_t seed);

int64_t Heads(const Shape& shape);  // of [L, d], [H, L, d] or [B, H, L, d]

// An array of finite numbers from a file, [L, d], [H, L, d] or [B, H, L, d].
Tensor ReadRows(const std::string& path);

// Fails now, before any work, where an output could not be written later, or is also another output
// or an input. Empty paths are options that were not given.
void CheckFiles(std::string_view who, const std::vector<std::string>& outputs,
                const std::vector<std::string>& inputs);

void PrintJson(const nlohmann::json& value);

}  // namespace favor::cli

#endif  // FAVOR_CLI_OPTIONS_H_
