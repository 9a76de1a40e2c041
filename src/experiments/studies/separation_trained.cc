// What is fixed in the separation experiments, learned: which attention learns to tell D1 from D0
// as the number of tokens grows?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "core/progress.h"
#include "experiments/estimate.h"
#include "experiments/experiment.h"
#include "experiments/separation.h"
#include "experiments/separation_network.h"

namespace favor::experiments {
namespace {

constexpr double kNear = 0.05;  // shares of right answers that differ by less count as equal
constexpr double kChance = 0.5;

struct Kind {
  std::string name;
  AttentionOptions attention;
};

Kind LinearKind(const char* map, int64_t features) {
  return {.name = fmt::format("{}, {} features", map, features),
          .attention = {.attention = "linear", .features = {.map = map, .features = features}}};
}

// Exact attention comes first: it is what the others are compared with.
std::vector<Kind> Kinds() {
  constexpr int64_t kFeatures = 64;
  Kind identity{
      .name = "identity features: weights q·k",
      .attention = {.attention = "linear", .features = {.map = "identity", .projection = "none"}}};
  return {{.name = "exact", .attention = {.attention = "exact"}},
          LinearKind("positive", kFeatures),
          LinearKind("oprf", kFeatures),
          LinearKind("relu", kFeatures),
          {.name = "taylor: weights 1 + q·k + (q·k)²/2",
           .attention = {.attention = "linear", .features = {.map = "taylor"}}},
          {.name = "poly-exact: weights (q·k)⁴",
           .attention = {.attention = "linear", .features = {.map = "poly-exact", .degree = 4}}},
          std::move(identity),
          {.name = "uniform", .attention = {.attention = "uniform"}},
          {.name = "none: each token sees itself", .attention = {.attention = "identity"}}};
}

// Shares of right answers at one number of tokens, one for each draw.
struct Point {
  int64_t tokens = 0;
  std::vector<std::vector<double>> trained;  // by kind
  std::vector<double> likelihood, squares;
  std::vector<int64_t> skipped;  // steps, by kind
};

class TrainedStudy {
 public:
  explicit TrainedStudy(ExperimentRun& run)
      : run_(run),
        asked_(ByScale<int64_t>{200, 1000, 2000}.At(run.scale)),
        sizes_(run.options.at("tokens")),
        training_{.steps = run.options.at("steps")[0],
                  .batch = 16,
                  .learning_rate = 0.01,
                  .warmup = 20,
                  .weight_decay = 0,
                  .clip = 1} {
    if (run.scale != Scale::kQuick) return;
    sizes_.resize(std::min<size_t>(sizes_.size(), 2));
    training_.steps = std::min<int64_t>(training_.steps, 40);
  }

  void Run() {
    const SeparationTask task;
    run_.report.AddText(fmt::format(
        "The network of the paper with everything learned that is fixed there: queries, keys and "
        "values of one head, hidden units ReLU(⟨c, y⟩ − τ) of the outputs c of its attention, "
        "their mean over tokens, and the answer. Tokens are those of the self-attention data sets "
        "(d = {}, a1 = {}, a0 = {}, b = {}, c = {}), the special one anywhere among them, with "
        "normal noise of deviation σ = {} on the first coordinate of every token: no two examples "
        "are alike, and the only difference between D0 and D1 is whether one of n noises is "
        "shifted by a1√ln n. A network learns from the smallest n first and goes on from there to "
        "the next: {} steps of {} examples for each n, AdamW, rates that fall from {:g} as a "
        "cosine; {} draws of first weights, ω and examples.",
        task.dim, task.a1, task.a0, task.b, task.c, task.noise, training_.steps, training_.batch,
        training_.learning_rate, run_.draws));
    run_.report.AddText(
        "Two tests that are computed, not learned, say what there is to learn. The likelihood "
        "ratio is the best of all: each token counts exp(x·a1√ln n/σ²), a sum of exponentials as "
        "softmax has it. The sum of the squares of the first coordinates is what weights q·k can "
        "find: its noise grows like √n, the signal only like ln n. There are no residual "
        "connections: attention is the only way from a token to the answer. With one, hidden units "
        "of the tokens themselves would do, as the last row of the table shows.");
    Measure();
    AddTable();
    AddPlot();
    AddClaims();
    AddLesson();
  }

 private:
  TrainedRun RunOf(int64_t draw) const {
    TrainedRun trained{
        .task = {}, .sizes = sizes_, .network = {}, .training = training_, .asked = asked_};
    trained.training.seed = static_cast<int64_t>(
        RandomStream(run_.context.seed(), "separation trained").Bits(static_cast<uint64_t>(draw)) >>
        1);
    return trained;
  }

  double ShareOfAsked(int64_t right) const {
    return static_cast<double>(right) / static_cast<double>(asked_);
  }

  void Measure() {
    for (const int64_t tokens : sizes_) points_.push_back(Computed(tokens));
    Progress progress("networks", std::ssize(kinds_), run_.quiet);
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      // Networks are small: each is trained by one thread, several at a time.
      std::vector<std::vector<TrainedResult>> results(static_cast<size_t>(run_.draws));
      ParallelFor(run_.context, run_.draws, [&](int64_t draw) {
        TrainedRun trained = RunOf(draw);
        trained.network.attention = kinds_[kind].attention;
        results[static_cast<size_t>(draw)] = TrainAndTest(trained, Context({.threads = 1}));
      });
      for (size_t size = 0; size < points_.size(); ++size) {
        std::vector<double>& shares = points_[size].trained.emplace_back();
        int64_t& skipped = points_[size].skipped.emplace_back(0);
        for (const std::vector<TrainedResult>& draw : results) {
          shares.push_back(ShareOfAsked(draw[size].right));
          skipped += draw[size].skipped;
        }
      }
      progress.Update(static_cast<int64_t>(kind) + 1, kinds_[kind].name);
    }
  }

  // What the two tests that need no training get right.
  Point Computed(int64_t tokens) const {
    Point point{.tokens = tokens};
    for (int64_t draw = 0; draw < run_.draws; ++draw) {
      int64_t likelihood = 0, squares = 0;
      ForEachAsked(RunOf(draw), tokens,
                   [&](const SeparationTask& task, const SeparationExamples& examples) {
                     likelihood += RightByLikelihood(task, examples);
                     squares += RightBySquares(task, examples);
                   });
      point.likelihood.push_back(ShareOfAsked(likelihood));
      point.squares.push_back(ShareOfAsked(squares));
    }
    return point;
  }

  // The mean over draws. Few draws may all be alike: its error is at least that of so many answers.
  Measured MeanOf(const std::vector<double>& shares) const {
    Measured mean = Summarize(shares).mean;
    const double answers = static_cast<double>(asked_ * run_.draws),
                 p = std::clamp(mean.value, 1 / answers, 1 - 1 / answers);
    mean.standard_error = std::max(mean.standard_error, std::sqrt(p * (1 - p) / answers));
    return mean;
  }

  // The mean of a − b, which answered the same examples in each draw.
  Measured PairedDifference(const std::vector<double>& a, const std::vector<double>& b) const {
    std::vector<double> differences;
    for (size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
    Measured mean = Summarize(differences).mean;
    mean.standard_error =
        std::max(mean.standard_error, 1 / static_cast<double>(asked_ * run_.draws));
    return mean;
  }

  // Draws that are right more often than a coin would be, by 4.5 standard errors.
  int64_t Learned(const std::vector<double>& shares) const {
    const double bound = kChance + 4.5 * std::sqrt(0.25 / static_cast<double>(asked_));
    return std::ranges::count_if(shares, [&](double share) { return share > bound; });
  }

  // Rows of the table and lines of the plot: trained networks, then the two tests.
  size_t RowCount() const { return kinds_.size() + 2; }
  std::string RowName(size_t row) const {
    return row < kinds_.size()    ? kinds_[row].name
           : row == kinds_.size() ? "computed: likelihood ratio"
                                  : "computed: sum of squares";
  }
  const std::vector<double>& SharesOf(size_t row, const Point& point) const {
    return row < kinds_.size()    ? point.trained[row]
           : row == kinds_.size() ? point.likelihood
                                  : point.squares;
  }

  void AddTable() {
    reports::Table table{
        .title = "Right answers of trained networks",
        .caption = fmt::format(
            "Share of {} fresh examples, mean of {} draws with its standard error, seed {}; chance "
            "is {}. In brackets: draws in which the network does better than chance, by more than "
            "4.5 standard errors.",
            asked_, run_.draws, run_.context.seed(), kChance),
        .columns = {"attention"},
        .rows = {}};
    for (const Point& point : points_) table.columns.push_back(fmt::format("n = {}", point.tokens));
    for (size_t row = 0; row < RowCount(); ++row) {
      std::vector<std::string>& cells = table.rows.emplace_back(1, RowName(row));
      for (const Point& point : points_) {
        const std::vector<double>& shares = SharesOf(row, point);
        const Measured mean = MeanOf(shares);
        cells.push_back(
            fmt::format("{:.3f} ± {:.3f}", mean.value, mean.standard_error) +
            (row < kinds_.size() ? fmt::format(" ({}/{})", Learned(shares), run_.draws) : ""));
        run_.results["accuracy"].push_back(
            {{"attention", RowName(row)},
             {"tokens", point.tokens},
             {"mean", mean.value},
             {"standard_error", mean.standard_error},
             {"draws", shares},
             {"skipped_steps", row < kinds_.size() ? Json(point.skipped[row]) : Json()}});
      }
    }
    run_.report.AddTable(table);
  }

  void AddPlot() {
    reports::Plot plot{
        .title = "Right answers against the number of tokens",
        .caption =
            "Means of the draws with bars of two standard errors; chance is 0.5. Points "
            "without a line: the likelihood ratio, in the colour of exact attention, and "
            "the sum of squares, in that of identity features.",
        .x_label = "tokens n",
        .y_label = "share of right answers",
        .log_x = true,
        .series = {}};
    const auto add = [&](size_t row, int color, bool markers) {
      reports::Series series{
          .name = RowName(row), .points = {}, .color = color, .markers = markers};
      for (const Point& point : points_) {
        const Measured mean = MeanOf(SharesOf(row, point));
        series.points.emplace_back(static_cast<double>(point.tokens), mean.value);
        if (!markers) series.deviations.push_back(2 * mean.standard_error);
      }
      plot.series.push_back(std::move(series));
    };
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      const AttentionOptions& attention = kinds_[kind].attention;
      const auto color = static_cast<int>(kind);
      if (attention.attention != "identity") add(kind, color, false);
      if (attention.attention == "exact") add(kinds_.size(), color, true);
      if (attention.features.map == "identity") add(kinds_.size() + 1, color, true);
    }
    run_.report.AddPlot(plot);
  }

  // Claims that `better` is ahead of `worse` by no more than kNear at every n.
  template <class Better, class Worse>
  void AddNearClaim(const std::string& source, const std::string& statement, const Better& better,
                    const Worse& worse) {
    std::vector<Comparison> gaps;
    for (const Point& point : points_)
      gaps.push_back({PairedDifference(better(point), worse(point)), kNear});
    run_.claims.push_back({.source = source,
                           .statement = statement,
                           .measured = NearestToBound(gaps, Bound::kMost),
                           .verdict = AllAtMost(gaps)});
  }

  void AddClaims() {
    const auto likelihood = [](const Point& point) { return point.likelihood; };
    const auto squares = [](const Point& point) { return point.squares; };
    const auto of_kind = [](size_t kind) {
      return [kind](const Point& point) { return point.trained[kind]; };
    };
    AddNearClaim("exact",
                 fmt::format("trained, it falls behind the best test by {} at most, for every n "
                             "here",
                             kNear),
                 likelihood, of_kind(0));
    for (size_t kind = 1; kind < kinds_.size(); ++kind) {
      AddNearClaim(kinds_[kind].name,
                   fmt::format("trained, it falls behind exact attention by {} at most, for every "
                               "n here",
                               kNear),
                   of_kind(0), of_kind(kind));
      if (kinds_[kind].attention.features.map == "identity")
        AddNearClaim(kinds_[kind].name,
                     fmt::format("trained, it is ahead of the sum of squares by {} at most", kNear),
                     of_kind(kind), squares);
    }
  }

  // What the figures mean for someone who chooses an attention.
  void AddLesson() {
    const Point& last = points_.back();
    std::vector<std::string> near, behind;
    for (size_t kind = 1; kind < kinds_.size(); ++kind) {
      const double gap = PairedDifference(last.trained[0], last.trained[kind]).value;
      (gap <= kNear ? near : behind).push_back(fmt::format("{} ({:.3f})", kinds_[kind].name, gap));
    }
    const auto list = [](const std::vector<std::string>& names) {
      return names.empty() ? "none" : fmt::format("{}", fmt::join(names, "; "));
    };
    run_.report.AddHeading("What this means for a choice");
    run_.report.AddText(fmt::format(
        "At n = {}, exact attention is right in {} of the answers. Behind it by {} at most, with "
        "the share in brackets: {}. By more: {}.",
        last.tokens, MeanOf(last.trained[0]).ToText(), kNear, list(near), list(behind)));
    run_.report.AddText(
        "What separates attentions here is not that they are linear, but how steeply their weights "
        "can grow. Weights q·k give sums of squares of the tokens, powers give sums of higher "
        "powers, and one token among n drowns in them the later, the higher the power. Exponential "
        "features, and ReLU features, which can be 0 for all tokens but a few, are as steep as "
        "softmax can be. Whether few of them suffice depends on the queries and keys: learned ones "
        "can adapt to them, given ones cannot (separation-features). All of this is of networks "
        "that "
        "grow with n: how easily each attention learns at once from many tokens is another "
        "question (--tokens with one number).");
  }

  ExperimentRun& run_;
  int64_t asked_;
  std::vector<int64_t> sizes_;
  TrainConfig training_;
  std::vector<Kind> kinds_ = Kinds();
  std::vector<Point> points_;
};

}  // namespace

Experiment SeparationTrainedExperiment() {
  return {.name = "separation-trained",
          .summary = "which attention learns to tell the data sets apart, as n grows?",
          .subject = "Superiority of Softmax, with training",
          .draws = {.quick = 2, .full = 6, .paper = 20},
          .seconds = {.quick = 2, .full = 250, .paper = 900},
          .run = [](ExperimentRun& run) { TrainedStudy(run).Run(); },
          .options = {{.name = "tokens",
                       .help = "Numbers of tokens n, learned one after the other; quick runs take "
                               "the first two",
                       .least = 2,
                       .most = 65536,
                       .standard = {16, 64, 256, 1024}},
                      {.name = "steps",
                       .help = "Steps of training for each n; quick runs take 40 at most",
                       .least = 1,
                       .most = 1'000'000,
                       .standard = {200},
                       .list = false}}};
}

}  // namespace favor::experiments
