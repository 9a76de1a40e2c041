// Local attention by features: masks of content as random frequencies, the mask of places, what the
// notes print of their weights, and what windows cost. (Notes on custom kernels, smoothed local
// masks.)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <span>

#include "core/parallel.h"
#include "core/progress.h"
#include "core/stopwatch.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "favor/attention.h"
#include "favor/local_mask.h"
#include "favor/random.h"

namespace favor::experiments {
namespace {

constexpr int64_t kLength = 256;    // of the sequences whose matrices are compared
constexpr double kDeviation = 0.5;  // of elements of x and y
constexpr int64_t kPlaces = 16;     // window of the mask of places
constexpr int64_t kTimedLength = 4096;
constexpr int64_t kWindows[] = {8, 32, 64, 128, 256, 1024};

double Normal(double t) { return std::erfc(-t / std::numbers::sqrt2) / 2; }

// P(‖r + σg‖₁ ≤ δ) in two dimensions: a square, turned by 45°.
double SmoothedSquare(double r1, double r2, double width, double smoothing) {
  const double half = width / std::numbers::sqrt2;
  const auto side = [&](double t) {
    return Normal((half - t) / smoothing) - Normal((-half - t) / smoothing);
  };
  return side((r1 + r2) / std::numbers::sqrt2) * side((r1 - r2) / std::numbers::sqrt2);
}

// One comparison of masks: queries and keys are the same vectors, of standard deviation ½ before
// they are scaled by d^{−1/4}; widths are given for these and scaled with them.
struct Setting {
  int64_t dim;
  double width, smoothing;

  double Scaled(double length) const { return length * std::pow(static_cast<double>(dim), -0.25); }
  // A Gaussian as wide as the ball in each dimension.
  FeatureOptions Options(std::string_view map, int64_t features) const {
    FeatureOptions options{.map = std::string(map), .features = features};
    options.local_width =
        Scaled(map == "local-gaussian" ? width / std::sqrt(static_cast<double>(dim)) : width);
    if (map == "local-ball") options.local_smoothing = Scaled(smoothing);
    return options;
  }
};
constexpr Setting kSettings[] = {{2, 1, 0.3}, {4, 2, 0.3}, {8, 4, 0.4}};

// The mask k(r) of a map with these options. Beyond two dimensions a smoothed ball has no formula:
// the share of `noise`, rows of σg, that lead into it.
double MaskOf(const FeatureOptions& options, std::span<const double> r,
              std::span<const double> noise) {
  double l1 = 0, square = 0;
  for (const double one : r) {
    l1 += std::fabs(one);
    square += one * one;
  }
  const double width = options.local_width;
  if (options.map == "local-laplace") return std::exp(-l1 / width);
  if (options.map == "local-gaussian") return std::exp(-square / (2 * width * width));
  if (r.size() == 2) return SmoothedSquare(r[0], r[1], width, options.local_smoothing);
  int64_t inside = 0;
  for (size_t at = 0; at < noise.size(); at += r.size()) {
    double norm = 0;
    for (size_t i = 0; i < r.size(); ++i) norm += std::fabs(r[i] + noise[at + i]);
    inside += norm <= width ? 1 : 0;
  }
  return static_cast<double>(inside) * static_cast<double>(r.size()) /
         static_cast<double>(noise.size());
}

// Row-normalised exp(x·y)·mask(x − y), [L, L].
std::vector<double> Target(const std::vector<double>& x, int64_t dim,
                           const std::function<double(std::span<const double>)>& mask,
                           const Context& context) {
  std::vector<double> matrix(static_cast<size_t>(kLength * kLength));
  ParallelFor(context, kLength, [&](int64_t i) {
    double* row = matrix.data() + i * kLength;
    double sum = 0;
    std::vector<double> difference(static_cast<size_t>(dim));
    for (int64_t j = 0; j < kLength; ++j) {
      const double *a = x.data() + i * dim, *b = x.data() + j * dim;
      double dot = 0;
      for (int64_t c = 0; c < dim; ++c) {
        dot += a[c] * b[c];
        difference[static_cast<size_t>(c)] = a[c] - b[c];
      }
      row[j] = std::exp(dot) * mask(difference);
      sum += row[j];
    }
    for (int64_t j = 0; j < kLength; ++j) row[j] /= sum;
  });
  return matrix;
}

// Mean over rows of Σ_j |a_ij − b_ij|.
template <class T>
double RowError(const T* matrix, const std::vector<double>& target) {
  double sum = 0;
  for (size_t i = 0; i < target.size(); ++i)
    sum += std::fabs(static_cast<double>(matrix[i]) - target[i]);
  return sum / static_cast<double>(kLength);
}

// The integral of a function that oscillates and falls, over [0, end], by Simpson's rule.
template <class Function>
double Integral(const Function& function, double end) {
  constexpr int64_t kSteps = 400'000;
  const double h = end / kSteps;
  double sum = function(0.0) + function(end);
  for (int64_t i = 1; i < kSteps; ++i)
    sum += (i % 2 == 1 ? 4 : 2) * function(h * static_cast<double>(i));
  return sum * h / 3;
}

class LocalStudy {
 public:
  explicit LocalStudy(ExperimentRun& run) : run_(run), progress_("local", 4, run.quiet) {}

  void Run() {
    run_.report.AddText(
        "Attention that prefers keys near the query: near in content, ‖x − y‖ small, or near in "
        "place. A mask k(x − y) is the mean of g·cos(f·(x − y)) over random frequencies f with "
        "weights g, and multiplies positive features pair by pair.");
    CheckWeights();
    CheckOneDivision();
    CompareMasks();
    CheckPlaces();
    TimeWindows();
  }

 private:
  // One dimension, the smoothed indicator of |r| ≤ 1, σ = 0.2: k̂(f) = sin(f)/(πf)·e^{−σ²f²/2}.
  void CheckWeights() {
    const auto transform = [](double f) {
      const double sine = f == 0 ? 1 : std::sin(f) / f;
      return sine / std::numbers::pi * std::exp(-0.02 * f * f);
    };
    const double z = 2 * Integral([&](double f) { return std::fabs(transform(f)); }, 60),
                 ours = 2 * Integral([&](double f) { return transform(f); }, 60),
                 printed =
                     2 *
                     Integral([&](double f) { return std::fabs(transform(f)) * transform(f); },
                              60) /
                     z,
                 target = 2 * Normal(1 / 0.2) - 1;
    run_.results["weights"] = {{"z", z}, {"ours", ours}, {"printed", printed}, {"target", target}};
    run_.claims.push_back(
        {.source = "weights Z·sign k̂",
         .statement = "the smoothed indicator at r = 0 is their mean",
         .measured = fmt::format("{:.4f}, expected {:.4f}; Z = {:.3f}", ours, target, z),
         .verdict = AllAtMost({{Comparison{{std::fabs(ours - target)}, 1e-6}}})});
    run_.claims.push_back(
        {.source = "weights |k̂|, as printed",
         .statement = "the smoothed indicator at r = 0 is their mean",
         .measured = fmt::format("{:.3f}, expected {:.4f}", printed, target),
         .verdict = AllAtMost({{Comparison{{std::fabs(printed - target)}, 0.01}}})});
    // ∫|sin(f)/f| over [0, W] has no limit: it grows like (2/π)·log W.
    const auto sharp = [](double end) {
      return 2 / std::numbers::pi *
             Integral([](double f) { return f == 0 ? 1 : std::fabs(std::sin(f) / f); }, end);
    };
    const double near = sharp(1e2), far = sharp(1e4), slope = (far - near) / std::log(100.0);
    run_.results["sharp"] = {{"at_1e2", near}, {"at_1e4", far}, {"slope", slope}};
    run_.claims.push_back(
        {.source = "the sharp indicator",
         .statement = "has a finite weight Z = ∫|k̂|, from which frequencies could be drawn",
         .measured = fmt::format("{:.3f} up to |f| = 100, {:.3f} up to 10,000: it grows by {:.3f} "
                                 "(4/π² = {:.3f}) per factor e",
                                 near, far, slope, 4 / (std::numbers::pi * std::numbers::pi)),
         .verdict = AllAtMost({{Comparison{{far}, near * 1.1}}})});
    progress_.Update(++done_, "weights");
  }

  // Positive features and a mask, each with 1/√m of its own, would divide by m twice.
  void CheckOneDivision() {
    constexpr int64_t kFeatures = 16;
    const VectorPair pair = GenericPair(4, 0.7, 0.6, 5);
    const FeatureOptions options{.map = "local-laplace", .features = kFeatures};
    const double kernel = *FeaturePlan::Draw(options, 1, 4, 0).Kernel(pair.x, pair.y);
    const Measured mean = MeasureEstimator(options, pair, {run_.draws * 4, 1}, run_.context).mean;
    const Measured twice{mean.value / kFeatures, mean.standard_error / kFeatures, mean.freedom};
    run_.results["divisions"] = {{"kernel", kernel}, {"once", mean.value}, {"twice", twice.value}};
    run_.claims.push_back({.source = "one 1/m for ω and f together",
                           .statement = "exp(x·y)·k(x − y) is the mean of φ(x)·φ(y)",
                           .measured = fmt::format("{}, expected {:.4f}", mean.ToText(), kernel),
                           .verdict = AllEqual({{Comparison{mean, kernel}}}, 0.05)});
    run_.claims.push_back({.source = "1/√m in both maps, as printed",
                           .statement = "the same with m = 16",
                           .measured = fmt::format("{}, expected {:.4f}", twice.ToText(), kernel),
                           .verdict = AllEqual({{Comparison{twice, kernel}}}, 0.05)});
    progress_.Update(++done_, "divisions");
  }

  void CompareMasks() {
    reports::Table table{
        .title = "Masks of content",
        .caption = fmt::format(
            "Σ_j |A_ij − target_ij| of attention matrices, mean over rows, of {} tokens whose "
            "queries and keys are the same normal vectors of standard deviation {}, with δ = d/2 "
            "and σ = 0.3 or, for d = 8, 0.4 (δ/√d for the Gaussian). Doing nothing: the softmax "
            "without the mask. In brackets: share of rows whose denominator is not positive.",
            kLength, kDeviation),
        .columns = {"dim", "map", "doing nothing"},
        .rows = {}};
    const bool quick = run_.scale == Scale::kQuick;
    const std::vector<int64_t> features =
        quick ? std::vector<int64_t>{64, 256} : std::vector<int64_t>{64, 256, 1024, 4096};
    for (const int64_t m : features) table.columns.push_back(fmt::format("m = {}", m));
    std::vector<Comparison> nearer, positive, vanishing;
    for (const Setting& setting : kSettings) {
      const int64_t dim = setting.dim;
      const RandomStream stream =
          RandomStream(run_.context.seed(), "local").Child(static_cast<uint64_t>(dim));
      std::vector<double> x(static_cast<size_t>(kLength * dim)),
          noise(static_cast<size_t>((quick ? 200 : 2000) * dim));
      stream.Child(0).FillNormal(0, x);
      stream.Child(1).FillNormal(0, noise);
      for (double& value : x) value *= setting.Scaled(kDeviation);
      for (double& value : noise) value *= setting.Scaled(setting.smoothing);
      Tensor rows({kLength, dim});
      std::ranges::transform(x, rows.Data<float>(), [](double v) { return static_cast<float>(v); });
      const std::vector<double> softmax = Target(
          x, dim, [](std::span<const double>) { return 1.0; }, run_.context);
      for (const char* map : {"local-laplace", "local-gaussian", "local-ball"}) {
        const std::vector<double> target = Target(
            x, dim,
            [&](std::span<const double> r) { return MaskOf(setting.Options(map, 1), r, noise); },
            run_.context);
        const double nothing = RowError(softmax.data(), target);
        std::vector<std::string> cells = {std::to_string(dim), map, fmt::format("{:.2f}", nothing)};
        const bool ball = std::string_view(map) == "local-ball";
        for (const int64_t m : features) {
          const int64_t draws = std::clamp<int64_t>(run_.draws / 250, 1, 8);
          double error = 0, share = 0;
          for (int64_t draw = 0; draw < draws; ++draw) {
            AttentionOptions options{.scale = 1};
            options.plan = FeaturePlan::Draw(setting.Options(map, m), 1, dim, run_.context.seed(),
                                             static_cast<uint64_t>(draw));
            const Tensor matrix = AttentionMatrix(rows, rows, options, run_.context);
            error += RowError(matrix.Data<float>(), target) / static_cast<double>(draws);
            AttentionReport report;
            Attend(rows, rows, rows, options, run_.context, {.report = &report});
            share +=
                static_cast<double>(report.nonpositive_rows) / static_cast<double>(kLength * draws);
          }
          cells.push_back(fmt::format("{:.2f} ({:.0f} %)", error, 100 * share));
          run_.results["masks"].push_back({{"dim", dim},
                                           {"map", map},
                                           {"features", m},
                                           {"error", error},
                                           {"nothing", nothing},
                                           {"nonpositive", share}});
          if (std::string_view(map) == "local-gaussian") positive.push_back({{share}, 0});
          if (ball && dim == 8) vanishing.push_back({{share}, 0.01});
          if (!ball && m == features.back()) nearer.push_back({{error}, nothing});
        }
        table.rows.push_back(std::move(cells));
      }
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "local-gaussian",
                           .statement = "its denominators are positive in every row",
                           .measured = fmt::format("{} settings", positive.size()),
                           .verdict = AllAtMost(positive)});
    run_.claims.push_back(
        {.source = "local-laplace and local-gaussian",
         .statement = "are nearer to their targets than the softmax is, with the most features",
         .measured = fmt::format("{} matrices", nearer.size()),
         .verdict = AllAtMost(nearer)});
    run_.claims.push_back({.source = "the smoothed ball in 8 dimensions",
                           .statement = "has positive denominators in 99 of 100 rows",
                           .measured = fmt::format("{} numbers of features", vanishing.size()),
                           .verdict = AllAtMost(vanishing)});
    progress_.Update(++done_, "masks");
  }

  // The sharp mask |i − j| ≤ w of places, from frequencies drawn in proportion to |D|.
  void CheckPlaces() {
    reports::Table table{.title = "A mask of places",
                         .caption = fmt::format(
                             "|i − j| ≤ {} by m random frequencies with weights ±{:.3f}: mean "
                             "absolute error over distances up to {}. The kind window computes the "
                             "same mask exactly, in linear time.",
                             kPlaces, DirichletWeight(kPlaces), 4 * kPlaces),
                         .columns = {"m", "error"},
                         .rows = {}};
    const double z = DirichletWeight(kPlaces);
    const RandomStream stream(run_.context.seed(), "places");
    for (const int64_t m : {64, 256, 1024, 4096}) {
      std::vector<double> mask(static_cast<size_t>(4 * kPlaces + 1), 0.0);
      uint64_t index = 0;
      const RandomStream own = stream.Child(static_cast<uint64_t>(m));
      for (int64_t l = 0; l < m;) {  // by rejection: |D| ≤ 2w + 1
        const double f = std::numbers::pi * (2 * own.Uniform(index) - 1),
                     u = own.Uniform(index + 1) * static_cast<double>(2 * kPlaces + 1);
        index += 2;
        const double d = DirichletKernel(kPlaces, f);
        if (u > std::fabs(d)) continue;
        ++l;
        for (size_t n = 0; n < mask.size(); ++n)
          mask[n] +=
              std::copysign(z, d) * std::cos(static_cast<double>(n) * f) / static_cast<double>(m);
      }
      double error = 0;
      for (size_t n = 0; n < mask.size(); ++n)
        error += std::fabs(mask[n] - (n <= static_cast<size_t>(kPlaces) ? 1 : 0)) /
                 static_cast<double>(mask.size());
      table.rows.push_back({std::to_string(m), fmt::format("{:.3f}", error)});
      run_.results["places"].push_back({{"features", m}, {"error", error}, {"z", z}});
    }
    run_.report.AddTable(table);
  }

  // Forward passes of 8 heads, the best of a few rounds.
  void TimeWindows() {
    reports::Table table{
        .title = "Time against the window",
        .caption = fmt::format("µs per token of causal calls, 8 heads of dim 64, {} tokens, 256 "
                               "features; linear attention without a window next to it.",
                               kTimedLength),
        .columns = {"window", "exact-window", "window", "hybrid", "linear"},
        .rows = {}};
    reports::Plot plot{.title = "Time against the window",
                       .caption = "Features of near keys cost the same for every window.",
                       .x_label = "window",
                       .y_label = "µs per token",
                       .log_x = true,
                       .log_y = true,
                       .series = {}};
    for (const char* name : {"exact-window", "window", "hybrid", "linear"})
      plot.series.push_back(
          {.name = name, .points = {}, .color = static_cast<int>(plot.series.size())});
    Tensor q({8, kTimedLength, 64}), k(q.shape()), v(q.shape());
    uint64_t index = 0;
    for (Tensor* tensor : {&q, &k, &v}) {
      for (int64_t i = 0; i < tensor->shape().Elements(); ++i)
        tensor->Data<float>()[i] =
            static_cast<float>(RandomStream(run_.context.seed(), "times").Normal(index++));
    }
    const FeaturePlan plan = FeaturePlan::Draw({.features = 256}, 8, 64, run_.context.seed());
    Tensor out(q.shape());
    for (const int64_t window : kWindows) {
      std::vector<std::string> cells = {std::to_string(window)};
      for (reports::Series& series : plot.series) {
        AttentionOptions options{.attention = series.name, .causal = true};
        if (series.name != "linear") options.kind_options = {{"window", window}};
        if (series.name != "exact-window") options.plan = plan;
        double best = INFINITY;
        for (int round = 0; round < (run_.scale == Scale::kQuick ? 1 : 5); ++round) {
          const Stopwatch watch;
          AttendInto({q, k, v}, options, run_.context, out);
          best = std::min(best, watch.Seconds() * 1e6 / static_cast<double>(kTimedLength));
        }
        series.points.emplace_back(static_cast<double>(window), best);
        cells.push_back(fmt::format("{:.2f}", best));
        run_.results["times"].push_back(
            {{"attention", series.name}, {"window", window}, {"microseconds", best}});
      }
      table.rows.push_back(std::move(cells));
    }
    run_.report.AddTable(table);
    run_.report.AddPlot(plot);
    progress_.Update(++done_, "times");
  }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace

Experiment LocalExperiment() {
  return {.name = "local",
          .summary = "masks of near content and near places, their weights, and windows",
          .subject = "Notes on smoothed local masks",
          .draws = {.quick = 200, .full = 2000, .paper = 20000},
          .seconds = {.quick = 4, .full = 40, .paper = 60},
          .run = [](ExperimentRun& run) { LocalStudy(run).Run(); }};
}

}  // namespace favor::experiments
