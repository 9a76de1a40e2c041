#include "reports/evaluation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "core/utf8.h"

namespace favor::reports {
namespace {

// Keeps the first sequences of a batch.
void Keep(int64_t sequences, Batch& batch) {
  const auto keep = [&]<class T>(std::vector<T>& values) {
    values.resize(values.size() / static_cast<size_t>(batch.batch) *
                  static_cast<size_t>(sequences));
  };
  keep(batch.tokens);
  keep(batch.targets);
  keep(batch.values);
  keep(batch.mask);
  batch.batch = sequences;
}

// How many sequences at the front of a batch hold `targets` targets, or all of them.
int64_t SequencesFor(int64_t targets, const Batch& batch) {
  const auto sequences = static_cast<size_t>(batch.batch);
  const size_t classes = batch.targets.size() / sequences,
               numbers = batch.values.size() / sequences;  // of each sequence
  int64_t count = 0;
  for (size_t i = 0; i < sequences; ++i) {
    if (count >= targets) return static_cast<int64_t>(i);
    for (const int32_t target : std::span(batch.targets).subspan(i * classes, classes))
      count += target != kNoTarget ? 1 : 0;
    for (const float value : std::span(batch.values).subspan(i * numbers, numbers))
      count += std::isnan(value) ? 0 : 1;
  }
  return batch.batch;
}

struct TextSize {
  int64_t words = 0, characters = 0;
};

// Counts the words that begin in a text, and its code points.
TextSize SizeOf(const std::string& text) {
  TextSize size;
  bool between = true;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    size.words += !space && between ? 1 : 0;
    between = space;
    size.characters += ContinuesCodePoint(c) ? 0 : 1;
  }
  return size;
}

// Counts words and characters of a batch's targets. A target after a letter does not begin a word.
void CountText(const Batch& batch, const Vocabulary& vocabulary, Evaluation& evaluation) {
  const auto length = static_cast<size_t>(batch.length);
  for (size_t begin = 0; begin < batch.targets.size(); begin += length) {
    std::vector<int32_t> tokens = {batch.tokens[begin]};
    for (size_t i = begin; i < begin + length; ++i) {
      if (batch.targets[i] != kNoTarget) tokens.push_back(batch.targets[i]);
    }
    const TextSize all = SizeOf(vocabulary.Decode(tokens)),
                   first = SizeOf(vocabulary.Decode(std::span(tokens).first(1)));
    evaluation.words += all.words - first.words;
    evaluation.characters += all.characters - first.characters;
  }
}

}  // namespace

double Evaluation::WordPerplexity() const {
  return std::exp(score.loss / static_cast<double>(words));
}
double Evaluation::BitsPerCharacter() const {
  return score.loss / std::log(2.0) / static_cast<double>(characters);
}
double Evaluation::TokensPerWord() const {
  return static_cast<double>(score.count) / static_cast<double>(words);
}

int64_t BatchesOf(const Dataset& data, const EvaluationOptions& options) {
  return std::min(options.batches, data.Batches(options.split, options.batch, options.length));
}

Evaluation Evaluate(const Model& model, const Dataset& data, const EvaluationOptions& options,
                    const Context& context) {
  const bool classes = data.classes() > 0, masked = !classes && !model.config().causal;
  const bool text = !classes && !masked && data.Summary(options.split).words > 0;
  const int64_t batches = BatchesOf(data, options);
  Evaluation result;
  LabelCases cases(model.config(), data.Scale());
  std::map<int32_t, int64_t> frequency;
  for (int64_t i = 0; i < batches; ++i) {
    if (result.score.count >= options.targets) {
      result.all = false;
      break;
    }
    Batch batch = data.EvalBatch(options.split,
                                 {.index = i, .batch = options.batch, .length = options.length});
    const int64_t kept = SequencesFor(options.targets - result.score.count, batch);
    if (kept < batch.batch) {
      result.all = false;
      Keep(kept, batch);
    }
    if (classes) {
      result.score += cases.Add(batch, model.Logits(batch, context));
    } else if (masked) {
      const std::vector<Score> scores =
          model.EvaluateGroups(batch, Maskings(batch, *data.vocabulary()), context);
      for (size_t kind = 0; kind < scores.size(); ++kind) {
        result.by_masking[kind] += scores[kind];
        result.score += scores[kind];
      }
    } else {
      result.score += model.Evaluate(batch, context);
    }
    for (const int32_t target : batch.targets) frequency[target] += target != kNoTarget ? 1 : 0;
    if (text) CountText(batch, *data.vocabulary(), result);
    if (options.each) options.each(i + 1, result.score);
  }
  result.all = result.all && batches == data.Batches(options.split, options.batch, options.length);
  for (const auto& [target, count] : frequency)
    result.most_frequent = std::max(result.most_frequent, count);
  if (classes) result.labels = cases.Measure();
  return result;
}

}  // namespace favor::reports
