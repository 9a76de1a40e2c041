// Options that set fields of a config.
#ifndef FAVOR_CLI_FIELD_OPTIONS_H_
#define FAVOR_CLI_FIELD_OPTIONS_H_

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "core/fields.h"

namespace favor::cli {

// Values are kept as text until the config is known, so that presets and files are applied first.
class FieldOptions {
 public:
  // Declares options under the heading `heading`; defaults shown are the present values. Those of
  // the fields named in `of_preset` are only one preset's.
  void Add(Options& options, const std::string& heading, const std::vector<Field>& fields,
           std::span<const std::string_view> of_preset = {});
  bool Given() const { return !given_.empty(); }
  bool Given(std::string_view key) const { return given_.contains(key); }
  // Sets those of `fields` whose options were given.
  void Apply(const std::vector<Field>& fields) const;

 private:
  const Options* options_ = nullptr;
  std::map<std::string, std::string, std::less<>> given_;  // by key
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_FIELD_OPTIONS_H_
