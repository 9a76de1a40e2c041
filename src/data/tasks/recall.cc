// Associative recall: pairs of a key and a value, noise, then every key again in another order; the
// target of each is its value. Answers are not read: a model that sees them can do well by telling
// which values are left, without looking at keys.
//   k₁ v₁ … k_P v_P  noise × distance  k_π(1) … k_π(P)   →   v_π(1) … v_π(P)
#include <algorithm>
#include <cmath>

#include "core/error_text.h"
#include "data/generated.h"

namespace favor::data {
namespace {

constexpr int32_t kNoise = 8;  // number of different noise tokens

// Keys are 0 … symbols − 1, values the next `symbols` tokens, then noise.
int64_t Symbols(const TaskValues& values) {
  const int64_t symbols = values.at("symbols"), pairs = values.at("pairs");
  return symbols == 0 ? std::max<int64_t>(16, pairs) : symbols;
}

int64_t Questions(const TaskValues& values) {
  return values.at("questions") == 0 ? values.at("pairs") : values.at("questions");
}

TaskShape ShapeOf(const TaskValues& values) {
  if (Symbols(values) < values.at("pairs")) {
    Throw(ErrorCode::kInvalidOption, "task:recall",
          "given {} symbols, expected at least {}, one per pair", values.at("symbols"),
          values.at("pairs"));
  }
  return {.vocab = 2 * Symbols(values) + kNoise,
          .length = 2 * values.at("pairs") + values.at("distance") + Questions(values)};
}

// Tokens of noise before the questions; the rest of it follows them.
int64_t Distance(const TaskValues& values, Split split, Drawer& drawer) {
  const int64_t most = values.at("distance");
  if (values.at("mixed") == 0 || split != Split::kTrain) return most;
  // Logarithms are uniform: short distances, which are learned first, are as frequent as long ones.
  const double power = drawer.Uniform();
  return std::min(most, static_cast<int64_t>(std::pow(static_cast<double>(most + 1), power)) - 1);
}

// With fewer pairs, noise takes the place of the others.
int64_t Pairs(const TaskValues& values, Split split, Drawer& drawer) {
  constexpr int64_t kFewest = 8;
  const int64_t most = values.at("pairs");
  if (values.at("mixed_pairs") == 0 || split != Split::kTrain) return most;
  std::vector<int64_t> numbers = {most};
  for (int64_t number = kFewest; number < most; number *= 2) numbers.push_back(number);
  return numbers[static_cast<size_t>(drawer.Below(static_cast<int64_t>(numbers.size())))];
}

Example Draw(const TaskValues& values, Split split, const RandomStream& stream) {
  Drawer drawer(stream);
  const int64_t pairs = Pairs(values, split, drawer), symbols = Symbols(values);
  const std::vector<int32_t> keys = drawer.Different(pairs, symbols);
  std::vector<int32_t> answers;
  Example example;
  for (const int32_t key : keys) {
    answers.push_back(static_cast<int32_t>(symbols + drawer.Below(symbols)));
    example.tokens.insert(example.tokens.end(), {key, answers.back()});
  }
  const auto add_noise = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      example.tokens.push_back(static_cast<int32_t>(2 * symbols + drawer.Below(kNoise)));
    example.targets.resize(example.tokens.size(), kNoTarget);
  };
  const int64_t distance = Distance(values, split, drawer);
  add_noise(2 * (values.at("pairs") - pairs) + distance);
  std::vector<int32_t> round;
  for (int64_t i = 0; i < Questions(values); ++i) {
    if (i % pairs == 0) round = drawer.Different(pairs, pairs);
    const auto pair = static_cast<size_t>(round[static_cast<size_t>(i % pairs)]);
    example.tokens.push_back(keys[pair]);
    example.targets.push_back(answers[pair]);
  }
  add_noise(values.at("distance") - distance);
  return example;
}

}  // namespace

GeneratedTask RecallTask() {
  return {
      .name = "recall",
      .summary = "values of keys seen long before",
      .task = Task::kCausal,
      .parameters = {{"pairs", "pairs of a key and a value", 8, 1, 1 << 12},
                     {"distance", "tokens of noise between pairs and questions", 512, 0, 1 << 22},
                     {"mixed_pairs", "1: training has 8, 16, ... up to all pairs", 0, 0, 1},
                     {"mixed", "1: training has all distances up to this one, evaluation this one",
                      0, 0, 1},
                     {"questions", "questions in all; 0: one per pair", 0, 0, 1 << 20},
                     {"symbols", "different keys, and values; 0: as many as pairs, at least 16", 0,
                      0, 1 << 16}},
      .shape = ShapeOf,
      .draw = Draw};
}

}  // namespace favor::data
