// How well a model predicts the labels of a split.
#ifndef FAVOR_REPORTS_LABEL_EVALUATION_H_
#define FAVOR_REPORTS_LABEL_EVALUATION_H_

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/json_fwd.h"
#include "favor/data.h"
#include "favor/model.h"
#include "reports/metrics.h"
#include "reports/plot.h"
#include "reports/table.h"

namespace favor::reports {

// One of the two.
struct LabelEvaluation {
  std::optional<ClassMetrics> classes;
  std::optional<NumberMetrics> numbers;  // in the units of the labels
  // The first cases of numbers, as many as a plot can show: what they are, what was predicted.
  std::vector<std::pair<double, double>> points;
};

// Cases whose labels are known, and what a model says of them.
class LabelCases {
 public:
  // `scale`: that of the data.
  LabelCases(const ModelConfig& config, const LabelScale& scale);

  // Adds the cases of a batch; returns their score, as Model::Evaluate does.
  Score Add(const Batch& batch, const Tensor& logits);
  LabelEvaluation Measure() const;

 private:
  Score AddClass(std::span<const float> logits, int32_t target);
  Score AddNumber(double output, double value);

  size_t classes_;
  bool numbers_;
  LabelScale scale_;
  std::vector<double> outputs_;  // probabilities, [cases, classes], or numbers
  std::vector<int32_t> targets_;
  std::vector<double> values_;
};

// Models next to each other: figures of all cases. `deviation`: of the numbers, see LabelScale; a
// model without metrics is a baseline, of which only the score is known.
struct LabelResult {
  std::string name;
  Score score;
  LabelEvaluation labels;
};
Table LabelResultsTable(const std::vector<LabelResult>& results, bool numbers, double deviation);
// Numbers of a model against what it predicts.
Plot PredictionPlot(const LabelEvaluation& evaluation);
// Precision, recall, F1 and AUROC of each class.
Table ClassTable(const ClassMetrics& metrics, const std::vector<std::string>& names);
// Rows are what cases are, columns what they are taken for; of more than 20 classes, the 20 most
// frequent.
Table ConfusionTable(const ClassMetrics& metrics, const std::vector<std::string>& names);
// Figures of all cases, and of each class; those that are not defined are null.
Json ToJson(const LabelEvaluation& evaluation, const std::vector<std::string>& names);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_LABEL_EVALUATION_H_
