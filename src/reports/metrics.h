// How well labels were predicted: figures of classification and of regression.
#ifndef FAVOR_REPORTS_METRICS_H_
#define FAVOR_REPORTS_METRICS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace favor::reports {

struct ClassMetrics {
  struct OfClass {
    int64_t actual = 0, predicted = 0, right = 0;
    double Precision() const;  // right / predicted; NaN if it was never predicted
    double Recall() const;     // right / actual; NaN if it never occurs
    double F1() const;         // 2·right / (predicted + actual); NaN if neither
    // The probability that a member has a higher score than another, ties counting half; NaN if
    // all or none are members.
    double auroc = 0;
  };
  std::vector<OfClass> classes;
  std::vector<std::vector<int64_t>> confusion;  // [actual][predicted]
  int64_t count = 0, right = 0;

  double Accuracy() const;
  // Means over the classes that occur.
  double BalancedAccuracy() const;  // of their recalls
  double MacroF1() const;
  double MacroAuroc() const;
};

// Scores of n cases, [n, classes], of which the highest (the first of several) is predicted. They
// need not be probabilities, but AUROC compares those of different cases: use probabilities.
ClassMetrics MeasureClasses(std::span<const double> scores, std::span<const int32_t> actual,
                            int64_t classes);

struct NumberMetrics {
  int64_t count = 0;
  double rmse = 0, mae = 0;
  double r2 = 0;        // 1 − Σ (predicted − actual)² / Σ (actual − mean)²
  double pearson = 0;   // correlation; NaN if one side does not vary
  double spearman = 0;  // correlation of ranks, ties having their mean rank
};
NumberMetrics MeasureNumbers(std::span<const double> predicted, std::span<const double> actual);

// Ranks from 1; equal values have the mean of theirs.
std::vector<double> Ranks(std::span<const double> values);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_METRICS_H_
