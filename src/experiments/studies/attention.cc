// Exact and linear attention on growing sequences: time, memory and error, next to the error of
// ignoring the logits altogether (uniform attention). Then how well each map does with more
// features and larger inputs.
#include <fmt/format.h>

#include <cmath>

#include "benchmarks/peak_memory.h"
#include "benchmarks/random_tensor.h"
#include "core/progress.h"
#include "core/stopwatch.h"
#include "experiments/experiment.h"
#include "favor/attention.h"
#include "favor/random.h"

namespace favor::experiments {
namespace {

constexpr int64_t kDim = 64, kFeatures = 256;
constexpr double kDeviation = 0.25;  // standard deviation of queries and keys
constexpr int64_t kLengths[] = {256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr int64_t kMapLength = 512;
constexpr int64_t kMapFeatures[] = {64, 256, 1024};
constexpr double kMapDeviations[] = {0.25, 0.5, 1.0};
constexpr const char* kMaps[] = {"positive", "hyperbolic", "oprf", "regularized", "trigonometric"};

struct Inputs {
  Inputs(int64_t length, double deviation, uint64_t seed)
      : q(benchmarks::RandomNormal({length, kDim}, deviation, seed, "q")),
        k(benchmarks::RandomNormal({length, kDim}, deviation, seed, "k")),
        v(benchmarks::RandomNormal({length, kDim}, 1, seed, "v")) {}
  Tensor q, k, v;
};

// ‖a − b‖/‖b‖
double RelativeError(const Tensor& a, const Tensor& b) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < b.shape().Elements(); ++i) {
    difference += std::pow(a.Data<float>()[i] - b.Data<float>()[i], 2);
    size += std::pow(b.Data<float>()[i], 2);
  }
  return std::sqrt(difference / size);
}

std::string Megabytes(std::optional<int64_t> bytes) {
  return bytes ? fmt::format("{:.1f}", static_cast<double>(*bytes) / 1e6) : "—";
}

class AttentionStudy {
 public:
  explicit AttentionStudy(ExperimentRun& run)
      : run_(run),
        progress_("attention",
                  static_cast<int64_t>(std::size(kLengths) * 2 + std::size(kMaps) *
                                                                     std::size(kMapFeatures) *
                                                                     std::size(kMapDeviations)),
                  run.quiet) {}

  void Run() {
    run_.report.AddText(
        fmt::format("One head of dim {}, queries and keys of standard deviation {}, {} features of "
                    "the positive map on orthogonal ω, {} threads. Exact "
                    "attention costs O(L²), linear attention O(L). An error is ‖out − "
                    "exact‖/‖exact‖, averaged over {} draws of ω; uniform attention "
                    "(the mean of the values) is what an estimate must beat to be worth anything.",
                    kDim, kDeviation, kFeatures, run_.context.threads(), run_.draws));
    Grow(false);
    Grow(true);
    CompareMaps();
  }

 private:
  Tensor Call(const Inputs& in, const AttentionOptions& options) const {
    return Attend(in.q, in.k, in.v, options, run_.context);
  }

  double LinearError(const Inputs& in, const Tensor& exact, const FeatureOptions& features,
                     bool causal) const {
    double sum = 0;
    for (int64_t draw = 0; draw < run_.draws; ++draw) {
      const auto plan =
          FeaturePlan::Draw(features, 1, kDim, run_.context.seed(), static_cast<uint64_t>(draw));
      sum += RelativeError(Call(in, {.causal = causal, .plan = plan}), exact);
    }
    return sum / static_cast<double>(run_.draws);
  }

  void Grow(bool causal) {
    const std::string kind = causal ? "causal" : "bidirectional";
    reports::Table table{
        .title = "Growing sequences, " + kind,
        .caption =
            "Times are the shortest of three runs, memory the highest resident memory above "
            "inputs and output; speed-up is exact time over linear time.",
        .columns = {"length", "exact ms", "linear ms", "speed-up", "exact MB", "linear MB",
                    "linear error", "uniform error"},
        .rows = {}};
    reports::Plot plot{.title = "Time of one head, " + kind,
                       .caption = "Exact attention grows like L², linear attention like L.",
                       .x_label = "length",
                       .y_label = "seconds",
                       .log_x = true,
                       .log_y = true,
                       .series = {{.name = "exact", .points = {}, .color = 0},
                                  {.name = "linear", .points = {}, .color = 1}}};
    for (const int64_t length : kLengths) {
      const Inputs in(length, kDeviation, run_.context.seed());
      const AttentionOptions exact_options{.attention = "exact", .causal = causal};
      const AttentionOptions linear_options{
          .causal = causal,
          .plan = FeaturePlan::Draw({.features = kFeatures}, 1, kDim, run_.context.seed())};
      const Tensor exact = Call(in, exact_options);
      const double exact_seconds =
          LeastSeconds(length > 4096 ? 1 : 3, [&] { Call(in, exact_options); });
      const double linear_seconds = LeastSeconds(3, [&] { Call(in, linear_options); });
      const auto above = [&](const AttentionOptions& options) -> std::optional<int64_t> {
        const auto peak = benchmarks::PeakExtraBytes([&] { Call(in, options); });
        return peak ? std::optional(std::max<int64_t>(0, *peak - exact.Bytes())) : std::nullopt;
      };
      const auto exact_bytes = above(exact_options), linear_bytes = above(linear_options);
      const double error = LinearError(in, exact, {.features = kFeatures}, causal);
      const double uniform =
          RelativeError(Call(in, {.attention = "uniform", .causal = causal}), exact);
      table.rows.push_back({std::to_string(length), fmt::format("{:.2f}", 1e3 * exact_seconds),
                            fmt::format("{:.2f}", 1e3 * linear_seconds),
                            fmt::format("{:.2f}", exact_seconds / linear_seconds),
                            Megabytes(exact_bytes), Megabytes(linear_bytes),
                            fmt::format("{:.3f}", error), fmt::format("{:.3f}", uniform)});
      plot.series[0].points.emplace_back(static_cast<double>(length), exact_seconds);
      plot.series[1].points.emplace_back(static_cast<double>(length), linear_seconds);
      run_.results["lengths"].push_back({{"length", length},
                                         {"causal", causal},
                                         {"exact_seconds", exact_seconds},
                                         {"linear_seconds", linear_seconds},
                                         {"exact_extra_bytes", exact_bytes.value_or(-1)},
                                         {"linear_extra_bytes", linear_bytes.value_or(-1)},
                                         {"linear_error", error},
                                         {"uniform_error", uniform}});
      Step(fmt::format("{} L = {}", kind, length));
    }
    run_.report.AddTable(table);
    run_.report.AddPlot(plot);
  }

  void CompareMaps() {
    reports::Table table{
        .title = "When is linear attention as good as softmax?",
        .caption = fmt::format(
            "Error against exact attention, L = {}, d = {}, orthogonal ω, by map, number "
            "of features and standard deviation of queries and keys. "
            "A map is useful if its error is below that of uniform attention (last row "
            "of each group).",
            kMapLength, kDim),
        .columns = {"deviation", "map", "m = 64", "m = 256", "m = 1024"},
        .rows = {}};
    for (const double deviation : kMapDeviations) {
      const Inputs in(kMapLength, deviation, run_.context.seed());
      const Tensor exact = Call(in, {.attention = "exact"});
      for (const char* map : kMaps) {
        table.rows.push_back({fmt::format("{:.2f}", deviation), map});
        for (const int64_t features : kMapFeatures) {
          const double error = LinearError(in, exact, {.map = map, .features = features}, false);
          table.rows.back().push_back(fmt::format("{:.3f}", error));
          run_.results["maps"].push_back(
              {{"deviation", deviation}, {"map", map}, {"features", features}, {"error", error}});
          Step(fmt::format("{} m = {}", map, features));
        }
      }
      const std::string uniform =
          fmt::format("{:.3f}", RelativeError(Call(in, {.attention = "uniform"}), exact));
      table.rows.push_back(
          {fmt::format("{:.2f}", deviation), "uniform", uniform, uniform, uniform});
    }
    run_.report.AddTable(table);
  }

  void Step(const std::string& note) { progress_.Update(++done_, note); }

  ExperimentRun& run_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace

Experiment AttentionExperiment() {
  return {.name = "attention",
          .summary = "exact and linear attention on growing sequences: time, memory, error",
          .default_draws = 3,
          .run = [](ExperimentRun& run) { AttentionStudy(run).Run(); }};
}

}  // namespace favor::experiments
