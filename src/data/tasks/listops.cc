// ListOps (Nangia and Bowman 2018): nested operations on digits; the result is the class.
//   [MAX 4 [MIN 2 3] 9]  →  9
#include <algorithm>
#include <numeric>

#include "data/generated.h"

namespace favor::data {
namespace {

// Tokens: 0 … 9 digits, operations with their opening bracket, the closing bracket.
enum Token : int32_t { kMin = 10, kMax, kMedian, kSumModulo, kClose, kTokens };
constexpr int64_t kMostArguments = 5;
constexpr double kNested = 0.3;  // share of arguments that are operations themselves

int32_t Apply(int32_t operation, std::vector<int32_t> arguments) {
  std::ranges::sort(arguments);
  switch (operation) {
    case kMin:
      return arguments.front();
    case kMax:
      return arguments.back();
    case kMedian:  // the lower of the two in the middle
      return arguments[(arguments.size() - 1) / 2];
    default:
      return std::accumulate(arguments.begin(), arguments.end(), 0) % 10;
  }
}

int32_t DrawOperation(Drawer& drawer, int64_t depth, std::vector<int32_t>& tokens) {
  const auto operation = static_cast<int32_t>(kMin + drawer.Below(kClose - kMin));
  const int64_t count = 2 + drawer.Below(kMostArguments - 1);
  tokens.push_back(operation);
  std::vector<int32_t> arguments;
  for (int64_t i = 0; i < count; ++i) {
    if (depth > 1 && drawer.Chance(kNested)) {
      arguments.push_back(DrawOperation(drawer, depth - 1, tokens));
    } else {
      arguments.push_back(static_cast<int32_t>(drawer.Below(10)));
      tokens.push_back(arguments.back());
    }
  }
  tokens.push_back(kClose);
  return Apply(operation, arguments);
}

TaskShape ShapeOf(const TaskValues& values) {
  return {.vocab = kTokens, .length = values.at("length"), .classes = 10};
}

Example Draw(const TaskValues& values, Split, const RandomStream& stream) {
  Drawer drawer(stream);
  for (;;) {  // draws until an example is short enough; [MIN a b] always is
    Example example;
    example.label = DrawOperation(drawer, values.at("depth"), example.tokens);
    if (static_cast<int64_t>(example.tokens.size()) <= values.at("length")) return example;
  }
}

}  // namespace

GeneratedTask ListopsTask() {
  return {.name = "listops",
          .summary = "results of nested operations on digits",
          .task = Task::kClassify,
          .parameters = {{"length", "most tokens", 128, 8, 1 << 16},
                         {"depth", "most operations inside each other", 4, 1, 64}},
          .shape = ShapeOf,
          .draw = Draw};
}

}  // namespace favor::data
