// How well a model predicts a split: the figures of favor eval and of reports.
#ifndef FAVOR_REPORTS_EVALUATION_H_
#define FAVOR_REPORTS_EVALUATION_H_

#include <array>
#include <cstdint>
#include <functional>

#include "favor/context.h"
#include "favor/data.h"
#include "favor/model.h"
#include "reports/label_evaluation.h"

namespace favor::reports {

struct EvaluationOptions {
  Split split = Split::kTest;
  int64_t batch = 1, length = 1;
  // Evaluation ends with the first sequence that reaches this many targets, whatever the batch
  // size: models and baselines predict the same targets.
  int64_t targets = INT64_MAX;
  int64_t batches = INT64_MAX;
  std::function<void(int64_t done, const Score& score)> each;  // after each batch; may be empty
};

struct Evaluation {
  Score score;
  LabelEvaluation labels;                        // only for models that predict labels
  std::array<Score, kMaskings> by_masking = {};  // only for masked models
  int64_t most_frequent = 0;  // hits of always answering the most frequent target
  // Size of the text that was predicted; 0 if the data is not text, or was masked. A word counts
  // where it begins.
  int64_t words = 0, characters = 0;
  bool all = true;  // the whole split was evaluated

  // Figures of the text itself (Choromanski et al. 2021, A.1.1), comparable across vocabularies.
  double WordPerplexity() const;    // e^(nats / words)
  double BitsPerCharacter() const;  // nats / ln 2 / characters
  double TokensPerWord() const;
};

// The most batches that an evaluation with these options reads.
int64_t BatchesOf(const Dataset& data, const EvaluationOptions& options);

Evaluation Evaluate(const Model& model, const Dataset& data, const EvaluationOptions& options,
                    const Context& context);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_EVALUATION_H_
