// Can other attentions do what softmax does in these experiments, and at what cost? The success of
// FAVOR+ and its refinements against the number of features, of polynomials and of windows, with
// softmax's success as the line to reach.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/progress.h"
#include "core/stopwatch.h"
#include "experiments/experiment.h"
#include "experiments/separation_contestants.h"

namespace favor::experiments {
namespace {

// One of the experiments at its standard parameters.
struct Case {
  const char* name;
  TokenData one, zero;
  Between between;
  int64_t hidden;
  double threshold;
  std::vector<Contestant> drawn;  // with as many random features as are asked for
  std::vector<Contestant> fixed;  // nothing about them is random
};

// The number of features from which on softmax's success is reached, and their time as a multiple
// of exact attention's.
struct Reached {
  int64_t features;
  double cost;
};

// What one of the experiments found.
struct Lesson {
  std::string of;
  double softmax;
  std::optional<Reached> best = {};  // the fewest random features
  std::string name = {};             // whose they are
  int64_t never = 0;                 // kinds of random features that do not reach it
  std::vector<std::string> fixed = {};
};

constexpr int kBlack = 6;               // a colour of plots
constexpr double kReached = 0.1;        // below softmax's success by no more than this
constexpr int64_t kFixedTrials = 2000;  // of contestants whose outputs are computed once

class FeatureStudy {
 public:
  explicit FeatureStudy(ExperimentRun& run)
      : run_(run), stream_(run.context.seed(), "separation features") {
    const int64_t most = ByScale<int64_t>{256, 16384, 65536}.At(run.scale);
    for (int64_t m = 16; m <= most; m *= 4) features_.push_back(m);
  }

  void Run() {
    run_.report.AddText(
        "The networks of the other separation experiments with other attentions in place of "
        "softmax's. Random features have orthogonal rows of χ length, drawn anew in each trial. "
        "Success: the network fires on D1 and not on D0. n = 200 tokens.");
    const double root = std::sqrt(std::log(200.0));
    Measure({.name = "self-attention, X = I",
             .one = SelfTokens({.a = 1.2}),
             .zero = SelfTokens({.a = 0.01}),
             .between = Between::kIdentity,
             .hidden = 15,
             .threshold = 0.9 * root,
             .drawn = DrawnForSelf(),
             .fixed = FixedForSelf()});
    Measure({.name = "self-attention, X of ones",
             .one = SelfTokens({.a = 1.2}),
             .zero = SelfTokens({.a = 0.01}),
             .between = Between::kOnes,
             .hidden = 15,
             .threshold = 0.9 * root,
             .drawn = DrawnForOnes(),
             .fixed = FixedForOnes()});
    Measure({.name = "cross-attention",
             .one = CrossTokens({.a = 3}),
             .zero = CrossTokens({.a = 0.01}),
             .between = Between::kIdentity,
             .hidden = 10,
             .threshold = 0.9,
             .drawn = DrawnForCross(),
             .fixed = FixedForCross()});
    AddLessons();
  }

 private:
  bool Separates(const Rows& one, const Rows& zero, const Case& data, int64_t trial) const {
    const Rows signs = SignsOf(data.hidden, one.columns,
                               stream_.Child(figure_).Child(static_cast<uint64_t>(trial)));
    return Fires(one, signs, data.threshold) && !Fires(zero, signs, data.threshold);
  }

  // The success of outputs that are the same in every trial.
  Share SuccessOfOutputs(const Rows& one, const Rows& zero, const Case& data) {
    ++figure_;
    const Rows distinct_one = Distinct(one), distinct_zero = Distinct(zero);
    int64_t hits = 0;
    for (int64_t trial = 0; trial < kFixedTrials; ++trial)
      hits += Separates(distinct_one, distinct_zero, data, trial) ? 1 : 0;
    return ShareOf(hits, kFixedTrials);
  }

  Share SuccessOfDrawn(const Case& data, const Contestant& contestant) {
    ++figure_;
    int64_t hits = 0;
    for (int64_t trial = 0; trial < run_.draws; ++trial) {
      const uint64_t redraw = (figure_ << 32) + static_cast<uint64_t>(trial);
      const auto outputs = [&](const TokenData& tokens) {
        return OutputsBy(contestant, tokens, data.between, redraw, run_.context);
      };
      hits += Separates(outputs(data.one), outputs(data.zero), data, trial) ? 1 : 0;
    }
    return ShareOf(hits, run_.draws);
  }

  static Measured ToMeasured(const Share& share) {
    return {.value = share.value, .standard_error = (share.high - share.low) / (2 * 1.96)};
  }

  // Time of one call of Attend, over that of exact attention.
  double CostOf(const Case& data, const Contestant& contestant) const {
    const auto seconds = [&](const Contestant& one) {
      return LeastSeconds(3, [&] { OutputsBy(one, data.one, data.between, 0, run_.context); });
    };
    return seconds(contestant) / seconds({.name = "", .attention = {.attention = "exact"}});
  }

  void Measure(const Case& data) {
    const Share softmax =
        SuccessOfOutputs(OutputsOf(data.one, data.between, Weighting::kSoftmax),
                         OutputsOf(data.zero, data.between, Weighting::kSoftmax), data);
    run_.results["softmax"].push_back({{"case", data.name}, {"success", softmax.value}});
    Lesson lesson{.of = data.name, .softmax = softmax.value};
    MeasureDrawn(data, softmax, lesson);
    MeasureFixed(data, softmax, lesson);
    lessons_.push_back(std::move(lesson));
  }

  // What the figures mean for someone who chooses an attention.
  void AddLessons() {
    run_.report.AddHeading("What this means for a choice");
    for (const Lesson& lesson : lessons_) {
      std::string text =
          fmt::format("{} (softmax {:.2f}). ", lesson.of, lesson.softmax) +
          (lesson.best
               ? fmt::format("The fewest random features that come within {} of softmax: "
                             "{} of {}, for {:.2g} times the time of exact attention. ",
                             kReached, lesson.best->features, lesson.name, lesson.best->cost)
               : fmt::format("No random features here come within {} of softmax. ", kReached)) +
          fmt::format("{} kinds of random features never do. ", lesson.never) +
          fmt::format("Without random features: {}.",
                      lesson.fixed.empty() ? "nothing but exact attention does"
                                           : fmt::format("{}", fmt::join(lesson.fixed, "; ")));
      run_.report.AddText(text);
    }
    run_.report.AddText(
        "One token of n must win by its weight alone. Softmax's weights are steep enough; the "
        "logits themselves are not, and high powers of them are, if their features can be "
        "afforded. Random features estimate the exponential, with an error that grows with "
        "exp(‖q + k‖²) (trigonometric ones: ‖q − k‖²): centring keys, making queries and keys "
        "equally long and oprf make that smaller, and softmax does not change by them. In "
        "self-attention the one token is its own key: there trigonometric features have no error, "
        "and random powers a small one; in cross-attention that does not help them. If such tokens "
        "decide your task and queries and keys are given, use exact attention, or a wide window if "
        "they are near; if a model learns them, see separation-trained.");
  }

  // The most features that are measured: powers and sines take several times as long as
  // exponentials.
  int64_t MostFeatures(const Contestant& contestant) const {
    constexpr int64_t kOfSlowMaps = 1024;
    const FeatureMapInfo& map = FindMap(contestant.attention.features.map);
    const bool slow = map.kernel == KernelFamily::kPolynomial || map.name == "trigonometric";
    return slow ? std::min(features_.back(), kOfSlowMaps) : features_.back();
  }

  void MeasureDrawn(const Case& data, const Share& softmax, Lesson& lesson) {
    reports::Table table{
        .title = fmt::format("Success of features: {}", data.name),
        .caption = fmt::format("Softmax: {}. {} trials, seed {}, with standard errors; in brackets "
                               "the time of the attention as a multiple of exact attention's.",
                               softmax.ToText(), run_.draws, run_.context.seed()),
        .columns = {"features of"},
        .rows = {}};
    for (const int64_t m : features_) table.columns.push_back(fmt::format("m = {}", m));
    std::vector<reports::Plot> plots;  // one for each preparation, in the order of the contestants
    Progress progress(data.name, std::ssize(data.drawn) * std::ssize(features_), run_.quiet);
    int64_t done = 0;
    for (Contestant contestant : data.drawn) {
      table.rows.push_back({contestant.name});
      reports::Series series{.name = contestant.name, .points = {}};
      std::optional<Reached> reached;
      Measured best;
      const int64_t most = MostFeatures(contestant);
      for (const int64_t features : features_) {
        ++done;
        if (features > most) {
          table.rows.back().emplace_back("—");
          continue;
        }
        contestant.attention.features.features = features;
        const Measured success = ToMeasured(SuccessOfDrawn(data, contestant));
        const double cost = CostOf(data, contestant);
        table.rows.back().push_back(fmt::format("{} [{:.2g}]", success.ToText(), cost));
        series.points.emplace_back(static_cast<double>(features), success.value);
        series.deviations.push_back(success.standard_error);
        if (success.value > best.value) best = success;
        if (!reached && success.value >= softmax.value - kReached) reached = {features, cost};
        run_.results["features"].push_back({{"case", data.name},
                                            {"kind", contestant.name},
                                            {"features", features},
                                            {"success", success.value},
                                            {"standard_error", success.standard_error},
                                            {"cost", cost}});
        progress.Update(done, contestant.name);
      }
      AddSeries(fmt::format("Success of features {}: {}", PreparationOf(contestant), data.name),
                std::move(series), plots);
      run_.claims.push_back(
          {.source = fmt::format("{}: {}", data.name, contestant.name),
           .statement =
               fmt::format("{} features or fewer reach softmax's success of {:.2f}, within {}",
                           most, softmax.value, kReached),
           .measured = reached ? fmt::format("from m = {} on, for {:.2g} times the time of exact "
                                             "attention",
                                             reached->features, reached->cost)
                               : fmt::format("at best {}", best.ToText()),
           .verdict = AllAtLeast({{Comparison{best, softmax.value - kReached}}})});
      if (!reached)
        ++lesson.never;
      else if (!lesson.best || reached->features < lesson.best->features) {
        lesson.best = reached;
        lesson.name = contestant.name;
      }
    }
    run_.report.AddTable(table);
    for (reports::Plot& plot : plots) {
      plot.series.push_back({.name = "softmax",
                             .points = {{static_cast<double>(features_.front()), softmax.value},
                                        {static_cast<double>(features_.back()), softmax.value}},
                             .color = kBlack});
      run_.report.AddPlot(plot);
    }
  }

  static std::string PreparationOf(const Contestant& contestant) {
    return contestant.on_span                 ? "of balanced rows in the span of the keys"
           : contestant.gain != 1             ? "of balanced rows with centred keys"
           : contestant.attention.center_keys ? "with centred keys"
                                              : "as they are";
  }

  // Adds a line to the plot of this title, which is made if it is not there.
  static void AddSeries(const std::string& title, reports::Series series,
                        std::vector<reports::Plot>& plots) {
    auto plot = std::ranges::find(plots, title, &reports::Plot::title);
    if (plot == plots.end())
      plot = plots.insert(plots.end(),
                          {.title = title,
                           .caption = "The black line is softmax attention; bars are standard "
                                      "errors.",
                           .x_label = "features m",
                           .y_label = "share of trials",
                           .log_x = true,
                           .from_zero = true,
                           .series = {}});
    const auto place = static_cast<int>(plot->series.size());
    series.color = place < kBlack ? place : place + 1;
    plot->series.push_back(std::move(series));
  }

  void MeasureFixed(const Case& data, const Share& softmax, Lesson& lesson) {
    reports::Table table{
        .title = fmt::format("Success without random features: {}", data.name),
        .caption = fmt::format("Softmax: {}. {} trials, seed {}, with Wilson's 95 % interval; time "
                               "as a multiple of exact attention's.",
                               softmax.ToText(), kFixedTrials, run_.context.seed()),
        .columns = {"attention", "features", "success", "time"},
        .rows = {}};
    for (const Contestant& contestant : data.fixed) {
      const auto outputs = [&](const TokenData& tokens) {
        return OutputsBy(contestant, tokens, data.between, 0, run_.context);
      };
      const Share success = SuccessOfOutputs(outputs(data.one), outputs(data.zero), data);
      const double cost = CostOf(data, contestant);
      const int64_t width = contestant.Width(data.one, data.between);
      table.rows.push_back({contestant.name, width > 0 ? std::to_string(width) : "—",
                            success.ToText(), fmt::format("{:.2g}", cost)});
      run_.results["fixed"].push_back({{"case", data.name},
                                       {"kind", contestant.name},
                                       {"features", width},
                                       {"success", success.value},
                                       {"low", success.low},
                                       {"high", success.high},
                                       {"cost", cost}});
      run_.claims.push_back(
          {.source = fmt::format("{}: {}", data.name, contestant.name),
           .statement = fmt::format("reaches softmax's success of {:.2f}, within {}", softmax.value,
                                    kReached),
           .measured = fmt::format("{}, for {:.2g} times the time of exact attention",
                                   success.ToText(), cost),
           .verdict = AllAtLeast({{Comparison{ToMeasured(success), softmax.value - kReached}}})});
      if (contestant.attention.attention != "exact" && success.value >= softmax.value - kReached)
        lesson.fixed.push_back(fmt::format("{}, {:.2f}, for {:.2g} times the time", contestant.name,
                                           success.value, cost));
    }
    run_.report.AddTable(table);
  }

  ExperimentRun& run_;
  RandomStream stream_;
  std::vector<int64_t> features_;
  std::vector<Lesson> lessons_;
  uint64_t figure_ = 0;
};

}  // namespace

Experiment SeparationFeaturesExperiment() {
  return {.name = "separation-features",
          .summary = "can other attentions tell the data sets apart, and with how many features?",
          .subject = "Superiority of Softmax, other contestants",
          .draws = {.quick = 10, .full = 100, .paper = 400},
          .seconds = {.quick = 3, .full = 180, .paper = 8000},
          .run = [](ExperimentRun& run) { FeatureStudy(run).Run(); }};
}

}  // namespace favor::experiments
