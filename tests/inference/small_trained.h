// Small models that have learned a little, with what they were trained on.
#ifndef FAVOR_TESTS_INFERENCE_SMALL_TRAINED_H_
#define FAVOR_TESTS_INFERENCE_SMALL_TRAINED_H_

#include <cmath>
#include <string>
#include <vector>

#include "favor/train.h"
#include "tests/data/fasta_fixture.h"
#include "tests/temp_dir.h"

namespace favor {

constexpr int64_t kTrainedLength = 10;

inline RunConfig SmallTrainedConfig(const std::string& data) {
  RunConfig run{.data = data};
  run.model.width = 16;
  run.model.heads = 2;
  run.model.ff = 24;
  run.model.features.features = 16;
  run.model.positions = Positions::kRotary;
  run.training.steps = 20;
  run.training.batch = 4;
  run.training.length = kTrainedLength;
  run.training.warmup = 1;
  run.training.learning_rate = 0.02;
  return run;
}

inline TrainedModel TrainSmall(const RunConfig& run, const TempDir& dir) {
  const Context context{ContextOptions{.threads = 1}};
  Trainer trainer(run, context);
  while (trainer.step() < run.training.steps) trainer.Step();
  trainer.SaveModel(dir / "model.safetensors");
  return LoadTrained(dir / "model.safetensors");
}

// Forty proteins of 3 to 42 residues.
inline std::string SomeProteins() {
  std::string text;
  for (uint64_t i = 0; i < 40; ++i)
    text += ">p" + std::to_string(i) + " words\n" + RandomSequence(i, 3 + i) + "\n";
  return text;
}

// log softmax(logits)[target], in double.
inline double LogProbability(const float* logits, int64_t vocab, int32_t target) {
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(logits[i]));
  return static_cast<double>(logits[target]) - std::log(sum);
}

// log p of `target` at row `row` of one sequence of tokens.
inline double LogProbabilityAt(const Model& model, const Tokens& tokens, int64_t row,
                               int32_t target, const Context& context) {
  const Batch batch{.batch = 1, .length = std::ssize(tokens), .tokens = tokens};
  const Tensor logits = model.Logits(batch, context);
  const int64_t vocab = model.config().vocab;
  return LogProbability(logits.Data<float>() + row * vocab, vocab, target);
}

}  // namespace favor

#endif  // FAVOR_TESTS_INFERENCE_SMALL_TRAINED_H_
