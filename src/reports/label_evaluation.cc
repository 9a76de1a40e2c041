#include "reports/label_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error_text.h"
#include "core/json.h"
#include "inference/label_outputs.h"

namespace favor::reports {
namespace {

using inference::ClassName;

constexpr size_t kMostPoints = 2000;  // of a plot
constexpr size_t kMostClasses = 20;   // of a confusion table

const std::string kNone = "—";

std::string Figure(double value) {
  return std::isnan(value) ? kNone : fmt::format("{:.4f}", value);
}
std::string Number(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

LabelCases::LabelCases(const ModelConfig& config, const LabelScale& scale)
    : classes_(static_cast<size_t>(config.classes)), numbers_(config.numbers), scale_(scale) {}

Score LabelCases::AddClass(std::span<const float> logits, int32_t target) {
  const std::vector<double> probabilities = inference::Softmax(logits);
  outputs_.insert(outputs_.end(), probabilities.begin(), probabilities.end());
  targets_.push_back(target);
  const auto best = std::ranges::max_element(logits) - logits.begin();
  // From the logits: a probability may be too small for a double.
  const auto wanted = static_cast<size_t>(target), first = static_cast<size_t>(best);
  const double difference =
      static_cast<double>(logits[first]) - static_cast<double>(logits[wanted]);
  return {.loss = difference - std::log(probabilities[first]),
          .correct = best == target ? 1 : 0,
          .count = 1};
}

Score LabelCases::AddNumber(double output, double value) {
  if (!std::isfinite(output))
    Throw(ErrorCode::kInvalidData, "labels", "the model's outputs are not finite");
  outputs_.push_back(scale_.Unscaled(output));
  values_.push_back(scale_.Unscaled(value));
  return {.loss = (output - value) * (output - value), .correct = 0, .count = 1};
}

Score LabelCases::Add(const Batch& batch, const Tensor& logits) {
  Score score;
  const size_t cases = numbers_ ? batch.values.size() : batch.targets.size();
  for (size_t i = 0; i < cases; ++i) {
    const std::span<const float> row(logits.Data<float>() + i * classes_, classes_);
    if (numbers_ && !std::isnan(batch.values[i])) {
      score += AddNumber(static_cast<double>(row[0]), static_cast<double>(batch.values[i]));
    } else if (!numbers_ && batch.targets[i] != kNoTarget) {
      score += AddClass(row, batch.targets[i]);
    }
  }
  return score;
}

LabelEvaluation LabelCases::Measure() const {
  LabelEvaluation evaluation;
  if (!numbers_) {
    evaluation.classes = MeasureClasses(outputs_, targets_, static_cast<int64_t>(classes_));
    return evaluation;
  }
  evaluation.numbers = MeasureNumbers(outputs_, values_);
  for (size_t i = 0; i < std::min(values_.size(), kMostPoints); ++i)
    evaluation.points.emplace_back(values_[i], outputs_[i]);
  return evaluation;
}

Table LabelResultsTable(const std::vector<LabelResult>& results, bool numbers, double deviation) {
  Table table;
  if (numbers) {
    table.columns = {"model", "RMSE", "MAE", "R²", "Pearson", "Spearman"};
    table.caption =
        "Root mean squared and mean absolute error in the units of the labels; R²: the share of "
        "their variance that is explained; correlations of values and of ranks.";
  } else {
    table.columns = {"model", "nats", "accuracy", "balanced accuracy", "F1", "AUROC"};
    table.caption =
        "Balanced accuracy, F1 and AUROC are means over the classes that occur, each counting the "
        "same.";
  }
  for (const LabelResult& result : results) {
    const auto& [classes, of, points] = result.labels;
    if (numbers) {
      const double rmse = deviation * std::sqrt(result.score.MeanLoss());
      table.rows.push_back({result.name, Number(rmse), of ? Number(of->mae) : kNone,
                            of ? Figure(of->r2) : kNone, of ? Figure(of->pearson) : kNone,
                            of ? Figure(of->spearman) : kNone});
      continue;
    }
    table.rows.push_back({result.name, Figure(result.score.MeanLoss()),
                          Figure(result.score.Accuracy()),
                          classes ? Figure(classes->BalancedAccuracy()) : kNone,
                          classes ? Figure(classes->MacroF1()) : kNone,
                          classes ? Figure(classes->MacroAuroc()) : kNone});
  }
  return table;
}

Plot PredictionPlot(const LabelEvaluation& evaluation) {
  return {.title = "Predicted numbers",
          .caption = fmt::format("One dot for each case, {} of {}.", evaluation.points.size(),
                                 evaluation.numbers->count),
          .x_label = "label",
          .y_label = "predicted",
          .series = {{.name = "", .points = evaluation.points, .color = 0, .markers = true}}};
}

Table ClassTable(const ClassMetrics& metrics, const std::vector<std::string>& names) {
  Table table{.title = "Classes",
              .caption =
                  "Precision: the share of cases taken for a class that are of it; recall: "
                  "the share of its cases that are found; F1: their harmonic mean; AUROC: "
                  "how often a case of the class has a higher probability of it than "
                  "another.",
              .columns = {"class", "cases", "predicted", "precision", "recall", "F1", "AUROC"}};
  for (size_t i = 0; i < metrics.classes.size(); ++i) {
    const ClassMetrics::OfClass& of = metrics.classes[i];
    table.rows.push_back({ClassName(i, names), std::to_string(of.actual),
                          std::to_string(of.predicted), Figure(of.Precision()), Figure(of.Recall()),
                          Figure(of.F1()), Figure(of.auroc)});
  }
  return table;
}

Table ConfusionTable(const ClassMetrics& metrics, const std::vector<std::string>& names) {
  std::vector<size_t> shown(metrics.classes.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  if (shown.size() > kMostClasses) {
    std::ranges::stable_sort(shown, std::greater<>(),
                             [&](size_t i) { return metrics.classes[i].actual; });
    shown.resize(kMostClasses);
    std::ranges::sort(shown);
  }
  Table table{.title = "Confusion",
              .caption = "Rows: what cases are; columns: what they are taken for."};
  if (shown.size() < metrics.classes.size()) table.caption += " The most frequent classes only.";
  table.columns.emplace_back("");
  for (const size_t column : shown) table.columns.push_back(ClassName(column, names));
  for (const size_t row : shown) {
    table.rows.push_back({ClassName(row, names)});
    for (const size_t column : shown)
      table.rows.back().push_back(std::to_string(metrics.confusion[row][column]));
  }
  return table;
}

Json ToJson(const LabelEvaluation& evaluation, const std::vector<std::string>& names) {
  const auto figure = [](double value) { return std::isnan(value) ? Json() : Json(value); };
  if (evaluation.numbers) {
    const NumberMetrics& of = *evaluation.numbers;
    return {{"rmse", figure(of.rmse)},
            {"mae", figure(of.mae)},
            {"r2", figure(of.r2)},
            {"pearson", figure(of.pearson)},
            {"spearman", figure(of.spearman)}};
  }
  const ClassMetrics& all = *evaluation.classes;
  Json json = {{"accuracy", figure(all.Accuracy())},
               {"balanced_accuracy", figure(all.BalancedAccuracy())},
               {"macro_f1", figure(all.MacroF1())},
               {"macro_auroc", figure(all.MacroAuroc())},
               {"confusion", all.confusion}};
  for (size_t i = 0; i < all.classes.size(); ++i) {
    const ClassMetrics::OfClass& of = all.classes[i];
    json["classes"].push_back({{"class", ClassName(i, names)},
                               {"cases", of.actual},
                               {"predicted", of.predicted},
                               {"precision", figure(of.Precision())},
                               {"recall", figure(of.Recall())},
                               {"f1", figure(of.F1())},
                               {"auroc", figure(of.auroc)}});
  }
  return json;
}

}  // namespace favor::reports
