#include <algorithm>
#include <array>

#include "core/error_text.h"
#include "data/sources.h"
#include "favor/data.h"

namespace favor {
namespace {

constexpr std::array<std::string_view, 3> kSplits = {"train", "valid", "test"};
constexpr std::array<std::string_view, 3> kTasks = {"causal", "masked", "classify"};
constexpr std::string_view kGenerated = "task:";

}  // namespace

std::string_view Name(Split split) { return kSplits[static_cast<size_t>(split)]; }
std::span<const std::string_view> SplitNames() { return kSplits; }
std::span<const std::string_view> TaskNames() { return kTasks; }

Split SplitNamed(std::string_view name) {
  const auto found = std::ranges::find(kSplits, name);
  if (found == kSplits.end())
    Throw(ErrorCode::kInvalidOption, "split", "unknown name '{}'{}", Printable(name),
          Suggest(name, kSplits));
  return static_cast<Split>(found - kSplits.begin());
}

const BatchRequest& data::CheckedRequest(const BatchRequest& request) {
  if (request.index < 0 || request.batch < 1 || request.length < 1) {
    Throw(ErrorCode::kInvalidOption, "batch", "asked for number {} of {} × {} tokens",
          request.index, request.batch, request.length);
  }
  return request;
}

std::unique_ptr<Dataset> OpenData(const std::string& source, const DataOptions& options) {
  if (std::ranges::find(kTasks, options.task) == kTasks.end()) {
    Throw(ErrorCode::kInvalidOption, "task", "unknown name '{}'{}", Printable(options.task),
          Suggest(options.task, kTasks));
  }
  if (source.starts_with(kGenerated))
    return data::OpenGenerated(source.substr(kGenerated.size()), options);
  return data::OpenText(source, options);
}

}  // namespace favor
