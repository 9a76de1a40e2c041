// When does linear attention with softmax features work? Its error over the norm of queries and
// keys, the dim and the number of features, next to uniform attention; the number of features at
// which it begins to beat that; what centring keys and balancing norms bring.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/progress.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "experiments/outputs.h"
#include "favor/attention.h"
#include "favor/random.h"

namespace favor::experiments {
namespace {

constexpr int64_t kLength = 512;
constexpr int64_t kDims[] = {16, 64};
constexpr double kNorms[] = {0.25, 0.5, 1, 2, 4};  // s = ‖x‖² of scaled queries and keys
constexpr double kShares[] = {0.01, 0.05, 0.1};    // errors relative to exact attention

constexpr int64_t kMapsDim = 64;
constexpr int64_t kMapsFeatures[] = {64, 256, 1024};
constexpr double kMapsDeviations[] = {0.25, 0.5, 1};
constexpr const char* kMaps[] = {"positive", "hyperbolic", "oprf", "regularized", "trigonometric"};

constexpr double kGains[] = {0.25, 0.5, 1, 2, 4, 8};
constexpr int64_t kGainDim = 16, kGainFeatures = 256;

constexpr int64_t kCentreDim = 16, kCentreFeatures = 64;
constexpr double kOffset = 2, kCentreDeviation = 0.7;  // of scaled keys

// The deviation of entries for which ‖q·d^{−1/4}‖² is s on average.
double DeviationOf(double s, int64_t dim) {
  return std::sqrt(s) / std::pow(static_cast<double>(dim), 0.25);
}

// About so many positive features have the error of uniform attention, for random data: the error
// of the features, exp(2s)/(mL), over that of uniform attention, (exp(s²/d) − 1)/L. The refined law
// leaves out what numerator and denominator have in common (docs/mathematics.md).
double RuleOfThumb(double s, int64_t dim) {
  return std::exp(2 * s) / std::expm1(s * s / static_cast<double>(dim));
}
double RefinedLaw(double s, int64_t dim) {
  return std::exp(s) * std::expm1(s) / std::expm1(s * s / static_cast<double>(dim));
}

std::string Whole(double value) { return fmt::format("{:.0f}", value); }

class RegimeStudy {
 public:
  explicit RegimeStudy(ExperimentRun& run)
      : run_(run),
        progress_("regimes",
                  std::ssize(kDims) * std::ssize(kNorms) * run.draws +
                      std::ssize(kMapsDeviations) * std::ssize(kMaps) + 2 * std::ssize(kGains) + 1,
                  run.quiet) {
    const int64_t most = ByScale<int64_t>{1024, 16384, 65536}.At(run.scale);
    for (int64_t m = 16; m <= most; m *= 4) features_.push_back(m);
  }

  void Run() {
    run_.report.AddText(fmt::format(
        "Queries, keys and values are normal; s = |x|² is the mean squared norm of queries and of "
        "keys after scaling by d^(−1/4). R is the mean squared error of linear attention over "
        "that of uniform attention, the mean of all values: above 1 it is worse than ignoring "
        "queries and keys. Means over {} draws of inputs and ω are geometric.",
        run_.draws));
    DrawMap();
    CompareMaps();
    CompareCentring();
    CompareGains();
  }

 private:
  struct Cell {
    double s;
    int64_t dim;
    std::vector<std::vector<double>> log_ratios;  // [features][draws], of R
    std::vector<double> relative;                 // [features], error relative to exact attention
    double uniform = 0;                           // the same of uniform attention
  };

  Tensor Call(const RandomInputs& in, const AttentionOptions& options) const {
    return Attend(in.q, in.k, in.v, options, run_.context);
  }
  FeaturePlan Plan(const FeatureOptions& options, int64_t dim, int64_t draw) const {
    return FeaturePlan::Draw(options, 1, dim, run_.context.seed(), static_cast<uint64_t>(draw));
  }

  Cell MeasureCell(double s, int64_t dim) {
    Cell cell{.s = s,
              .dim = dim,
              .log_ratios = std::vector<std::vector<double>>(features_.size()),
              .relative = std::vector<double>(features_.size())};
    for (int64_t draw = 0; draw < run_.draws; ++draw) {
      const RandomInputs in(kLength, dim, DeviationOf(s, dim),
                            SeedOfSample(run_.context.seed(), draw));
      const Tensor exact = Call(in, {.attention = "exact"});
      const double size = MeanSquare(exact),
                   uniform = MeanSquaredError(Call(in, {.attention = "uniform"}), exact);
      cell.uniform += std::sqrt(uniform / size) / static_cast<double>(run_.draws);
      for (size_t place = 0; place < features_.size(); ++place) {
        const auto plan = Plan({.features = features_[place]}, dim, draw);
        const double error = MeanSquaredError(Call(in, {.plan = plan}), exact);
        cell.log_ratios[place].push_back(std::log(error / uniform));
        cell.relative[place] += std::sqrt(error / size) / static_cast<double>(run_.draws);
      }
      Step(fmt::format("d = {}, s = {}", dim, s));
    }
    return cell;
  }

  void DrawMap() {
    std::vector<Cell> cells;
    for (const int64_t dim : kDims)
      for (const double s : kNorms) cells.push_back(MeasureCell(s, dim));
    AddRatios(cells);
    AddShares(cells);
    AddBreakEven(cells);
  }

  void AddRatios(const std::vector<Cell>& cells) {
    reports::Table table{
        .title = "R: error of linear attention over that of uniform attention",
        .caption = fmt::format("L = {}, positive features, orthogonal, {} draws, seed {}; ± is the "
                               "standard error of log R. Entries: the deviation of queries and "
                               "keys.",
                               kLength, run_.draws, run_.context.seed()),
        .columns = {"d", "s", "entries"},
        .rows = {}};
    for (const int64_t m : features_) table.columns.push_back(fmt::format("m = {}", m));
    for (const Cell& cell : cells) {
      std::vector<std::string>& row = table.rows.emplace_back(
          std::vector<std::string>{std::to_string(cell.dim), fmt::format("{}", cell.s),
                                   fmt::format("{:.2f}", DeviationOf(cell.s, cell.dim))});
      for (size_t place = 0; place < features_.size(); ++place) {
        const Measured log_ratio = Summarize(cell.log_ratios[place]).mean;
        row.push_back(
            fmt::format("{:.3g} ± {:.2f}", std::exp(log_ratio.value), log_ratio.standard_error));
        run_.results["ratios"].push_back({{"dim", cell.dim},
                                          {"s", cell.s},
                                          {"features", features_[place]},
                                          {"log_ratio", log_ratio.value},
                                          {"standard_error", log_ratio.standard_error},
                                          {"relative_error", cell.relative[place]}});
      }
    }
    run_.report.AddTable(table);
    for (const int64_t dim : kDims) {
      reports::Plot plot{.title = fmt::format("R over the number of features, d = {}", dim),
                         .caption =
                             "Below the black line linear attention is better than uniform "
                             "attention.",
                         .x_label = "features m",
                         .y_label = "R",
                         .log_x = true,
                         .log_y = true,
                         .series = {}};
      int color = 0;
      for (const Cell& cell : cells) {
        if (cell.dim != dim) continue;
        reports::Series series{
            .name = fmt::format("s = {}", cell.s), .points = {}, .color = color++};
        for (size_t place = 0; place < features_.size(); ++place)
          series.points.emplace_back(static_cast<double>(features_[place]),
                                     std::exp(Summarize(cell.log_ratios[place]).mean.value));
        plot.series.push_back(std::move(series));
      }
      plot.series.push_back({.name = "uniform",
                             .points = {{static_cast<double>(features_.front()), 1},
                                        {static_cast<double>(features_.back()), 1}},
                             .color = 6});
      run_.report.AddPlot(plot);
    }
  }

  void AddShares(const std::vector<Cell>& cells) {
    reports::Table table{
        .title = "Features for an error of 1, 5 and 10 % of exact attention",
        .caption =
            "The smallest m of those tried with a mean relative error, |out − "
            "exact|/|exact|, below the share; > : none of them; uniform: the error of "
            "uniform attention.",
        .columns = {"d", "s", "uniform"},
        .rows = {}};
    for (const double share : kShares)
      table.columns.push_back(fmt::format("{:.0f} %", 100 * share));
    for (const Cell& cell : cells) {
      std::vector<std::string>& row = table.rows.emplace_back(
          std::vector<std::string>{std::to_string(cell.dim), fmt::format("{}", cell.s),
                                   fmt::format("{:.3f}", cell.uniform)});
      for (const double share : kShares) {
        const auto enough =
            std::ranges::find_if(cell.relative, [&](double error) { return error <= share; });
        row.push_back(
            enough == cell.relative.end()
                ? fmt::format("> {}", features_.back())
                : std::to_string(features_[static_cast<size_t>(enough - cell.relative.begin())]));
      }
    }
    run_.report.AddTable(table);
  }

  // log2 of the m where one draw's R crosses 1, on a line between two numbers of features.
  std::optional<double> Crossing(const Cell& cell, size_t draw) const {
    for (size_t place = 1; place < features_.size(); ++place) {
      const double before = cell.log_ratios[place - 1][draw], after = cell.log_ratios[place][draw];
      if (before <= 0 || after > 0) continue;
      const double low = std::log2(static_cast<double>(features_[place - 1])),
                   high = std::log2(static_cast<double>(features_[place]));
      return low + (high - low) * before / (before - after);
    }
    return std::nullopt;
  }

  void AddBreakEven(const std::vector<Cell>& cells) {
    reports::Table table{
        .title = "Break-even with uniform attention",
        .caption =
            "The m at which R crosses 1, where every draw has a crossing among the m that "
            "were tried; the rule of thumb exp(2s)/(exp(s²/d) − 1) for random data, and the "
            "refined law (exp(2s) − exp(s))/(exp(s²/d) − 1), with log2 of measured over law.",
        .columns = {"d", "s", "measured", "rule of thumb", "log2", "refined", "log2"},
        .rows = {}};
    std::vector<Measured> rule, refined;  // log2 of measured over law; refined: s ≤ 1
    for (const Cell& cell : cells) {
      const double thumb = RuleOfThumb(cell.s, cell.dim), law = RefinedLaw(cell.s, cell.dim);
      std::vector<double> logs;
      for (size_t draw = 0; draw < cell.log_ratios[0].size(); ++draw)
        if (const auto crossing = Crossing(cell, draw)) logs.push_back(*crossing);
      if (logs.size() < cell.log_ratios[0].size()) {
        table.rows.push_back({std::to_string(cell.dim), fmt::format("{}", cell.s), "—",
                              Whole(thumb), "—", Whole(law), "—"});
        continue;
      }
      const Measured crossing = Summarize(logs).mean;
      rule.push_back(Difference(crossing, {std::log2(thumb)}));
      const Measured to_law = Difference(crossing, {std::log2(law)});
      if (cell.s <= 1) refined.push_back(to_law);
      table.rows.push_back({std::to_string(cell.dim), fmt::format("{}", cell.s),
                            Whole(std::exp2(crossing.value)), Whole(thumb), rule.back().ToText(),
                            Whole(law), to_law.ToText()});
      run_.results["break_even"].push_back({{"dim", cell.dim},
                                            {"s", cell.s},
                                            {"rule_of_thumb", thumb},
                                            {"refined", law},
                                            {"log2_measured", crossing.value},
                                            {"standard_error", crossing.standard_error}});
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "the rule of thumb for break-even",
                           .statement = "linear attention begins to beat uniform attention at m ≈ "
                                        "exp(2s)/(exp(s²/d) − 1), within a factor of 2",
                           .measured = NearestToBound(Sizes(rule), Bound::kMost) + " (log2)",
                           .verdict = AllAtMost(Sizes(rule))});
    run_.claims.push_back({.source = "the refined law for break-even",
                           .statement =
                               "at m ≈ (exp(2s) − exp(s))/(exp(s²/d) − 1), within a factor "
                               "of 2, for s ≤ 1",
                           .measured = NearestToBound(Sizes(refined), Bound::kMost) + " (log2)",
                           .verdict = AllAtMost(Sizes(refined))});
  }

  // Within a factor of two: a logarithm of size 1.
  static std::vector<Comparison> Sizes(const std::vector<Measured>& log2_ratios) {
    std::vector<Comparison> sizes;
    for (const Measured& ratio : log2_ratios)
      sizes.push_back({{std::fabs(ratio.value), ratio.standard_error, ratio.freedom}, 1});
    return sizes;
  }

  void CompareMaps() {
    reports::Table table{
        .title = "When is linear attention as good as softmax?",
        .caption = fmt::format(
            "|out − exact|/|exact|, L = {}, d = {}, orthogonal ω, by map, number of features and "
            "standard deviation of queries and keys, with standard errors over {} draws of ω. A "
            "map is useful if its error is below that of uniform attention (last row of each "
            "group).",
            kLength, kMapsDim, run_.draws),
        .columns = {"deviation", "map", "m = 64", "m = 256", "m = 1024"},
        .rows = {}};
    for (const double deviation : kMapsDeviations) {
      const RandomInputs in(kLength, kMapsDim, deviation, run_.context.seed());
      const Tensor exact = Call(in, {.attention = "exact"});
      for (const char* map : kMaps) {
        table.rows.push_back({fmt::format("{:.2f}", deviation), map});
        for (const int64_t features : kMapsFeatures) {
          std::vector<double> errors;
          for (int64_t draw = 0; draw < run_.draws; ++draw) {
            const auto plan = Plan({.map = map, .features = features}, kMapsDim, draw);
            errors.push_back(RelativeError(Call(in, {.plan = plan}), exact));
          }
          const Measured error = Summarize(errors).mean;
          table.rows.back().push_back(error.ToText());
          run_.results["maps"].push_back({{"deviation", deviation},
                                          {"map", map},
                                          {"features", features},
                                          {"error", error.value},
                                          {"standard_error", error.standard_error}});
        }
        Step(map);
      }
      const std::string uniform =
          fmt::format("{:.3f}", RelativeError(Call(in, {.attention = "uniform"}), exact));
      table.rows.push_back(
          {fmt::format("{:.2f}", deviation), "uniform", uniform, uniform, uniform});
    }
    run_.report.AddTable(table);
  }

  // Keys that share an offset: softmax does not see it, positive features do.
  void CompareCentring() {
    const double root = std::pow(static_cast<double>(kCentreDim), 0.25);
    std::vector<std::vector<double>> errors(4);  // positive, centred; oprf, centred
    for (int64_t draw = 0; draw < run_.draws; ++draw) {
      RandomInputs in(kLength, kCentreDim, kCentreDeviation,
                      SeedOfSample(run_.context.seed(), draw));
      std::vector<double> offset(static_cast<size_t>(kCentreDim));
      RandomStream(SeedOfSample(run_.context.seed(), draw), "offset").FillNormal(0, offset);
      double square = 0;
      for (const double value : offset) square += value * value;
      for (int64_t i = 0; i < kLength * kCentreDim; ++i)
        in.k.Data<float>()[i] += static_cast<float>(
            kOffset * root * offset[static_cast<size_t>(i % kCentreDim)] / std::sqrt(square));
      const Tensor exact = Call(in, {.attention = "exact"});
      size_t place = 0;
      for (const char* map : {"positive", "oprf"}) {
        const auto plan = Plan({.map = map, .features = kCentreFeatures}, kCentreDim, draw);
        for (const bool centred : {false, true})
          errors[place++].push_back(
              MeanSquaredError(Call(in, {.plan = plan, .center_keys = centred}), exact));
      }
    }
    Step("centring");
    reports::Table table{
        .title = "Keys with a common offset",
        .caption = fmt::format("Mean squared error of the output, L = {}, d = {}, m = {}, an "
                               "offset of norm {} after scaling, {} draws.",
                               kLength, kCentreDim, kCentreFeatures, kOffset, run_.draws),
        .columns = {"map", "as they are", "centred"},
        .rows = {}};
    std::vector<Comparison> lower;
    for (size_t map = 0; map < 2; ++map) {
      const std::vector<double>&raw = errors[2 * map], &centred = errors[2 * map + 1];
      std::vector<double> logs;
      for (size_t i = 0; i < raw.size(); ++i) logs.push_back(std::log(centred[i] / raw[i]));
      lower.push_back({Summarize(logs).mean, 0});
      const Measured before = Summarize(raw).mean, after = Summarize(centred).mean;
      table.rows.push_back({map == 0 ? "positive" : "oprf", before.ToText(), after.ToText()});
      run_.results["centring"].push_back({{"map", map == 0 ? "positive" : "oprf"},
                                          {"raw", before.value},
                                          {"centred", after.value}});
    }
    run_.report.AddTable(table);
    run_.claims.push_back({.source = "key centring",
                           .statement = "centring keys, which softmax does not see, lowers the "
                                        "error",
                           .measured = fmt::format("{:.2f} (positive) and {:.2f} (oprf) times",
                                                   std::exp(lower[0].measured.value),
                                                   std::exp(lower[1].measured.value)),
                           .verdict = AllAtMost(lower)});
  }

  // q → g q, k → k/g: the same softmax.
  void CompareGains() {
    reports::Table table{
        .title = "Queries times g, keys divided by g",
        .caption = fmt::format("R for d = {}, m = {}, L = {}; ± is the standard error of log R.",
                               kGainDim, kGainFeatures, kLength),
        .columns = {"s"},
        .rows = {}};
    for (const double gain : kGains) table.columns.push_back(fmt::format("g = {}", gain));
    std::vector<Comparison> larger_keys, larger_queries;
    for (const double s : {1.0, 4.0}) {
      table.rows.push_back({fmt::format("{}", s)});
      std::vector<std::vector<double>> logs;  // [gains][draws]
      for (const double gain : kGains) {
        std::vector<double>& ratios = logs.emplace_back();
        for (int64_t draw = 0; draw < run_.draws; ++draw) {
          RandomInputs in(kLength, kGainDim, DeviationOf(s, kGainDim),
                          SeedOfSample(run_.context.seed(), draw));
          const Tensor exact = Call(in, {.attention = "exact"});
          const double uniform = MeanSquaredError(Call(in, {.attention = "uniform"}), exact);
          for (int64_t i = 0; i < kLength * kGainDim; ++i) {
            in.q.Data<float>()[i] *= static_cast<float>(gain);
            in.k.Data<float>()[i] /= static_cast<float>(gain);
          }
          const auto plan = Plan({.features = kGainFeatures}, kGainDim, draw);
          ratios.push_back(std::log(MeanSquaredError(Call(in, {.plan = plan}), exact) / uniform));
        }
        const Measured log_ratio = Summarize(ratios).mean;
        table.rows.back().push_back(
            fmt::format("{:.3g} ± {:.2f}", std::exp(log_ratio.value), log_ratio.standard_error));
        run_.results["gains"].push_back({{"s", s},
                                         {"gain", gain},
                                         {"log_ratio", log_ratio.value},
                                         {"standard_error", log_ratio.standard_error}});
        Step(fmt::format("g = {}", gain));
      }
      const auto against_equal = [&](size_t place) {
        std::vector<double> differences;
        for (size_t draw = 0; draw < logs[place].size(); ++draw)
          differences.push_back(logs[place][draw] - logs[2][draw]);
        return Comparison{Summarize(differences).mean, 0};
      };
      larger_keys.push_back(against_equal(0));
      if (s > 1) larger_queries.push_back(against_equal(3));
    }
    run_.report.AddTable(table);
    run_.claims.push_back(
        {.source = "balance of norms",
         .statement = "keys that are larger than queries (g = 1/4) raise the "
                      "error",
         .measured = fmt::format("{:.3g} and {:.3g} times", std::exp(larger_keys[0].measured.value),
                                 std::exp(larger_keys[1].measured.value)),
         .verdict = AllAtLeast(larger_keys)});
    run_.claims.push_back(
        {.source = "balance of norms",
         .statement = "larger queries (g = 2) lower the error of diffuse "
                      "attention with long vectors (s = 4)",
         .measured = fmt::format("{:.3g} times", std::exp(larger_queries[0].measured.value)),
         .verdict = AllAtMost(larger_queries)});
  }

  void Step(const std::string& note) { progress_.Update(++done_, note); }

  ExperimentRun& run_;
  std::vector<int64_t> features_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace

Experiment RegimesExperiment() {
  return {
      .name = "regimes",
      .summary = "when linear attention works: norms, dims, features, centring, balance of norms",
      .subject = "Beyond the paper",
      .draws = {.quick = 3, .full = 48, .paper = 48},
      .seconds = {.quick = 2, .full = 120, .paper = 400},
      .run = [](ExperimentRun& run) { RegimeStudy(run).Run(); }};
}

}  // namespace favor::experiments
