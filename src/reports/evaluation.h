// How well a model predicts a split: the figures of favor eval and of reports.
#ifndef FAVOR_REPORTS_EVALUATION_H_
#define FAVOR_REPORTS_EVALUATION_H_

#include <array>
#include <cstdint>
#include <functional>

#include "favor/context.h"
#include "favor/data.h"
#include "favor/model.h"

namespace favor::reports {

struct EvaluationOptions {
  Split split = Split::kTest;
  int64_t batch = 1, length = 1;
  // Evaluation ends with the first sequence that has reached so many targets, whatever the batch:
  // models and baselines answer the same questions.
  int64_t targets = INT64_MAX;
  int64_t batches = INT64_MAX;
  std::function<void(int64_t done, const Score& score)> each;  // after each batch; may be empty
};

struct Evaluation {
  Score score;
  std::array<Score, kMaskings> by_masking = {};  // of masked models
  int64_t most_frequent = 0;  // targets that are the most frequent one: an answer always the same
  // Of the text that was asked for; 0 if it is no text, or was masked. A word counts where it
  // begins.
  int64_t words = 0, characters = 0;
  bool all = true;  // the whole split was evaluated

  // Of the text itself (Choromanski et al. 2021, A.1.1): these compare across vocabularies.
  double WordPerplexity() const;    // e^(nats / words)
  double BitsPerCharacter() const;  // nats / ln 2 / characters
  double TokensPerWord() const;
};

// Batches that an evaluation of these options takes at most.
int64_t BatchesOf(const Dataset& data, const EvaluationOptions& options);

Evaluation Evaluate(const Model& model, const Dataset& data, const EvaluationOptions& options,
                    const Context& context);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_EVALUATION_H_
