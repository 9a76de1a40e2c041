// Can random features do what softmax does in these experiments, and at what cost? The success of
// FAVOR+ and its refinements against the number of features, with softmax's as the line to reach.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/progress.h"
#include "core/stopwatch.h"
#include "experiments/experiment.h"
#include "experiments/separation.h"
#include "favor/attention.h"

namespace favor::experiments {
namespace {

struct Kind {
  const char* name;
  const char* map;
  bool center_keys = false;
  double gain = 1;
  bool on_span = false;  // queries in the span of the centred keys
};
constexpr Kind kSelfKinds[] = {{"positive", "positive"},
                               {"positive, centred keys", "positive", true},
                               {"hyperbolic, centred keys", "hyperbolic", true},
                               {"regularized", "regularized"},
                               {"oprf", "oprf"},
                               {"oprf, centred keys", "oprf", true}};
constexpr Kind kOnesKinds[] = {
    {"positive", "positive"}, {"positive, centred keys", "positive", true}, {"oprf", "oprf"}};
constexpr Kind kCrossKinds[] = {{"positive", "positive"},
                                {"oprf, q/4, 4k, centred keys", "oprf", true, 0.25},
                                {"the same, q in the span of the keys", "oprf", true, 0.25, true}};

// One of the experiments at its standard parameters.
struct Case {
  const char* name;
  TokenData one, zero;
  Between between;
  int64_t hidden;
  double threshold;
  std::span<const Kind> kinds;
};

constexpr double kReached = 0.1;  // below softmax's success by no more than this

class FeatureStudy {
 public:
  explicit FeatureStudy(ExperimentRun& run)
      : run_(run), stream_(run.context.seed(), "separation features") {
    const int64_t most = ByScale<int64_t>{256, 16384, 65536}.At(run.scale);
    for (int64_t m = 16; m <= most; m *= 4) features_.push_back(m);
  }

  void Run() {
    run_.report.AddText(
        "The networks of the other separation experiments with random features of the softmax "
        "kernel in place of its exponentials: orthogonal rows of χ length, drawn anew in each "
        "trial. Success: the network fires on D1 and not on D0. n = 200 tokens.");
    const double root = std::sqrt(std::log(200.0));
    Measure({.name = "self-attention, X = I",
             .one = SelfTokens({.a = 1.2}),
             .zero = SelfTokens({.a = 0.01}),
             .between = Between::kIdentity,
             .hidden = 15,
             .threshold = 0.9 * root,
             .kinds = kSelfKinds});
    Measure({.name = "self-attention, X of ones",
             .one = SelfTokens({.a = 1.2}),
             .zero = SelfTokens({.a = 0.01}),
             .between = Between::kOnes,
             .hidden = 15,
             .threshold = 0.9 * root,
             .kinds = kOnesKinds});
    Measure({.name = "cross-attention",
             .one = CrossTokens({.a = 3}),
             .zero = CrossTokens({.a = 0.01}),
             .between = Between::kIdentity,
             .hidden = 10,
             .threshold = 0.9,
             .kinds = kCrossKinds});
  }

 private:
  bool Separates(const Rows& one, const Rows& zero, const Case& data, int64_t trial) const {
    const Rows signs = SignsOf(data.hidden, one.columns,
                               stream_.Child(figure_).Child(static_cast<uint64_t>(trial)));
    return Fires(one, signs, data.threshold) && !Fires(zero, signs, data.threshold);
  }

  Measured SuccessOf(const Case& data, const Kind& kind, int64_t features) {
    ++figure_;
    const TokenData one = kind.on_span ? OnSpanOfKeys(data.one) : data.one,
                    zero = kind.on_span ? OnSpanOfKeys(data.zero) : data.zero;
    const FeatureAttention attention{.features = {.map = kind.map, .features = features},
                                     .center_keys = kind.center_keys,
                                     .gain = kind.gain};
    std::vector<double> successes;
    for (int64_t trial = 0; trial < run_.draws; ++trial) {
      const uint64_t redraw = (figure_ << 32) + static_cast<uint64_t>(trial);
      successes.push_back(
          Separates(FeatureOutputsOf(one, data.between, attention, redraw, run_.context),
                    FeatureOutputsOf(zero, data.between, attention, redraw, run_.context), data,
                    trial)
              ? 1
              : 0);
    }
    const auto hits = static_cast<int64_t>(std::ranges::count(successes, 1.0));
    const Share share = ShareOf(hits, run_.draws);
    return {.value = share.value, .standard_error = (share.high - share.low) / (2 * 1.96)};
  }

  // Time of one call of Attend with so many features, over that of exact attention.
  double CostOf(const Case& data, const Kind& kind, int64_t features) const {
    const FeatureAttention attention{.features = {.map = kind.map, .features = features},
                                     .center_keys = kind.center_keys,
                                     .gain = kind.gain};
    const double linear = LeastSeconds(
        3, [&] { FeatureOutputsOf(data.one, data.between, attention, 0, run_.context); });
    const double exact =
        LeastSeconds(3, [&] { ExactOutputsOf(data.one, data.between, run_.context); });
    return linear / exact;
  }

  void Measure(const Case& data) {
    const Rows one = OutputsOf(data.one, data.between, Weighting::kSoftmax),
               zero = OutputsOf(data.zero, data.between, Weighting::kSoftmax);
    ++figure_;
    int64_t hits = 0;
    constexpr int64_t kSoftmaxTrials = 2000;
    for (int64_t trial = 0; trial < kSoftmaxTrials; ++trial)
      hits += Separates(one, zero, data, trial) ? 1 : 0;
    const Share softmax = ShareOf(hits, kSoftmaxTrials);
    run_.results["softmax"].push_back({{"case", data.name}, {"success", softmax.value}});

    reports::Table table{
        .title = fmt::format("Success of features: {}", data.name),
        .caption = fmt::format("Softmax: {}. {} trials, seed {}, with standard errors; in brackets "
                               "the time of the attention as a multiple of exact attention's.",
                               softmax.ToText(), run_.draws, run_.context.seed()),
        .columns = {"features of"},
        .rows = {}};
    for (const int64_t m : features_) table.columns.push_back(fmt::format("m = {}", m));
    reports::Plot plot{.title = fmt::format("Success of features: {}", data.name),
                       .caption = "The black line is softmax attention.",
                       .x_label = "features m",
                       .y_label = "share of trials",
                       .log_x = true,
                       .from_zero = true,
                       .series = {}};
    Progress progress(data.name, std::ssize(data.kinds) * std::ssize(features_), run_.quiet);
    int64_t done = 0;
    int color = 0;
    for (const Kind& kind : data.kinds) {
      table.rows.push_back({kind.name});
      reports::Series series{.name = kind.name, .points = {}, .color = color++};
      std::optional<int64_t> reached;
      double cost_of_reached = 0;
      Measured best;
      for (const int64_t features : features_) {
        const Measured success = SuccessOf(data, kind, features);
        const double cost = CostOf(data, kind, features);
        table.rows.back().push_back(fmt::format("{} [{:.2g}]", success.ToText(), cost));
        series.points.emplace_back(static_cast<double>(features), success.value);
        if (success.value > best.value) best = success;
        if (!reached && success.value >= softmax.value - kReached) {
          reached = features;
          cost_of_reached = cost;
        }
        run_.results["features"].push_back({{"case", data.name},
                                            {"kind", kind.name},
                                            {"features", features},
                                            {"success", success.value},
                                            {"standard_error", success.standard_error},
                                            {"cost", cost}});
        progress.Update(++done, kind.name);
      }
      plot.series.push_back(std::move(series));
      run_.claims.push_back(
          {.source = fmt::format("{}: {}", data.name, kind.name),
           .statement =
               fmt::format("{} features or fewer reach softmax's success of {:.2f}, within "
                           "{}",
                           features_.back(), softmax.value, kReached),
           .measured = reached ? fmt::format("from m = {} on, for {:.2g} times the time of exact "
                                             "attention",
                                             *reached, cost_of_reached)
                               : fmt::format("at best {}", best.ToText()),
           .verdict = AllAtLeast({{Comparison{best, softmax.value - kReached}}})});
    }
    plot.series.push_back({.name = "softmax",
                           .points = {{static_cast<double>(features_.front()), softmax.value},
                                      {static_cast<double>(features_.back()), softmax.value}},
                           .color = 6});
    run_.report.AddTable(table);
    run_.report.AddPlot(plot);
  }

  ExperimentRun& run_;
  RandomStream stream_;
  std::vector<int64_t> features_;
  uint64_t figure_ = 0;
};

}  // namespace

Experiment SeparationFeaturesExperiment() {
  return {.name = "separation-features",
          .summary = "can FAVOR+ tell the data sets apart, and with how many features?",
          .subject = "Superiority of Softmax, a third contestant",
          .draws = {.quick = 10, .full = 200, .paper = 400},
          .seconds = {.quick = 2, .full = 120, .paper = 2000},
          .run = [](ExperimentRun& run) { FeatureStudy(run).Run(); }};
}

}  // namespace favor::experiments
