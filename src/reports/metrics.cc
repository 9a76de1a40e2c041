#include "reports/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace favor::reports {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double Ratio(double part, double whole) { return whole == 0 ? kNone : part / whole; }
double Ratio(int64_t part, int64_t whole) {
  return Ratio(static_cast<double>(part), static_cast<double>(whole));
}

double MeanOf(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Correlation(std::span<const double> a, std::span<const double> b) {
  const auto constant = [](std::span<const double> values) {
    return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
  };
  if (constant(a) || constant(b)) return kNone;
  const double mean_a = MeanOf(a), mean_b = MeanOf(b);
  double product = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += (a[i] - mean_a) * (b[i] - mean_b);
    of_a += (a[i] - mean_a) * (a[i] - mean_a);
    of_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return Ratio(product, std::sqrt(of_a) * std::sqrt(of_b));
}

// From the sum of the members' ranks (Mann and Whitney).
double Auroc(std::span<const double> scores, const std::vector<bool>& member) {
  const std::vector<double> ranks = Ranks(scores);
  double sum = 0, members = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!member[i]) continue;
    sum += ranks[i];
    ++members;
  }
  const double others = static_cast<double>(scores.size()) - members;
  return Ratio(sum - members * (members + 1) / 2, members * others);
}

// The mean of a figure over the classes that occur.
template <class Figure>
double MeanOver(const std::vector<ClassMetrics::OfClass>& classes, const Figure& figure) {
  double sum = 0;
  int64_t count = 0;
  for (const ClassMetrics::OfClass& of : classes) {
    if (of.actual == 0) continue;
    sum += figure(of);
    ++count;
  }
  return Ratio(sum, static_cast<double>(count));
}

}  // namespace

std::vector<double> Ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end + 1) / 2;
    begin = end;
  }
  return ranks;
}

double ClassMetrics::OfClass::Precision() const { return Ratio(right, predicted); }
double ClassMetrics::OfClass::Recall() const { return Ratio(right, actual); }
double ClassMetrics::OfClass::F1() const { return Ratio(2 * right, predicted + actual); }

double ClassMetrics::Accuracy() const { return Ratio(right, count); }
double ClassMetrics::BalancedAccuracy() const {
  return MeanOver(classes, [](const OfClass& of) { return of.Recall(); });
}
double ClassMetrics::MacroF1() const {
  return MeanOver(classes, [](const OfClass& of) { return of.F1(); });
}
double ClassMetrics::MacroAuroc() const {
  return MeanOver(classes, [](const OfClass& of) { return of.auroc; });
}

ClassMetrics MeasureClasses(std::span<const double> scores, std::span<const int32_t> actual,
                            int64_t classes) {
  const auto width = static_cast<size_t>(classes);
  ClassMetrics metrics;
  metrics.classes.resize(width);
  metrics.confusion.assign(width, std::vector<int64_t>(width));
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto row = scores.subspan(i * width, width);
    const auto guess = static_cast<size_t>(std::ranges::max_element(row) - row.begin());
    const auto is = static_cast<size_t>(actual[i]);
    ++metrics.classes[is].actual;
    ++metrics.classes[guess].predicted;
    ++metrics.confusion[is][guess];
    ++metrics.count;
    if (guess != is) continue;
    ++metrics.classes[is].right;
    ++metrics.right;
  }
  for (size_t of = 0; of < width; ++of) {
    std::vector<double> column;
    std::vector<bool> member;
    for (size_t i = 0; i < actual.size(); ++i) {
      column.push_back(scores[i * width + of]);
      member.push_back(static_cast<size_t>(actual[i]) == of);
    }
    metrics.classes[of].auroc = Auroc(column, member);
  }
  return metrics;
}

NumberMetrics MeasureNumbers(std::span<const double> predicted, std::span<const double> actual) {
  NumberMetrics metrics{.count = std::ssize(actual)};
  const double mean = MeanOf(actual);
  double squares = 0, absolute = 0, spread = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = predicted[i] - actual[i];
    squares += error * error;
    absolute += std::abs(error);
    spread += (actual[i] - mean) * (actual[i] - mean);
  }
  const auto count = static_cast<double>(actual.size());
  metrics.rmse = std::sqrt(Ratio(squares, count));
  metrics.mae = Ratio(absolute, count);
  metrics.r2 = 1 - Ratio(squares, spread);
  metrics.pearson = Correlation(predicted, actual);
  metrics.spearman = Correlation(Ranks(predicted), Ranks(actual));
  return metrics;
}

}  // namespace favor::reports
