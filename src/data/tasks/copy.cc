// Copy: symbols, a separator, and the same symbols again, which are the targets.
//   s₁ … s_n | s₁ … s_{n−1}   →   s₁ … s_n from the separator on
#include "data/generated.h"

namespace favor::data {
namespace {

TaskShape ShapeOf(const TaskValues& values) {
  return {.vocab = values.at("symbols") + 1, .length = 2 * values.at("length")};
}

Example Draw(const TaskValues& values, Split, const RandomStream& stream) {
  const auto length = static_cast<size_t>(values.at("length"));
  Drawer drawer(stream);
  Example example;
  for (size_t i = 0; i < length; ++i)
    example.tokens.push_back(static_cast<int32_t>(drawer.Below(values.at("symbols"))));
  example.targets.assign(length, kNoTarget);
  example.targets.insert(example.targets.end(), example.tokens.begin(), example.tokens.end());
  example.tokens.push_back(static_cast<int32_t>(values.at("symbols")));  // the separator
  for (size_t i = 0; i + 1 < length; ++i) example.tokens.push_back(example.tokens[i]);
  return example;
}

}  // namespace

GeneratedTask CopyTask() {
  return {.name = "copy",
          .summary = "repeat a sequence of symbols",
          .task = Task::kCausal,
          .parameters = {{"length", "symbols to repeat", 32, 1, 1 << 20},
                         {"symbols", "different symbols", 16, 2, 1 << 16}},
          .shape = ShapeOf,
          .draw = Draw};
}

}  // namespace favor::data
