// favor bench attention.
#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/attention.h"
#include "benchmarks/sgemm.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/parts.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/simd.h"
#include "favor/attention.h"
#include "favor/version.h"
#include "features/option_fields.h"
#include "io/atomic_file.h"

namespace favor::cli {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 24;

struct Arguments {
  benchmarks::AttentionBenchOptions options;
  std::string json, plot;
  std::optional<DataType> type;
  std::optional<OmegaType> omega_type;
  ContextArguments run;
};

Json ToJson(const benchmarks::AttentionBench& bench) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json rows = Json::array(), lines = Json::array();
  for (const benchmarks::AttentionMeasurement& row : bench.rows) {
    rows.push_back(
        {{"attention", !row.windowed.empty() ? row.windowed
                       : row.exact           ? "exact"
                                             : "linear"},
         {"window", row.windowed.empty() ? Json() : Json(bench.options.window)},
         {"map", row.map.empty() ? Json() : Json(row.map)},
         {"projection", row.projection.empty() ? Json() : Json(row.projection)},
         {"causal", bench.options.causal},
         {"backward", bench.options.backward},
         {"batch", bench.options.batch},
         {"heads", bench.options.heads},
         {"dim", bench.options.dim},
         {"value_dim", bench.options.ValueDim()},
         {"features", row.exact ? bench.options.features : row.features},
         {"length", row.length},
         {"threads", bench.threads},
         {"seconds", row.seconds},
         {"gflops", row.gflops},
         {"share_of_sgemm", bench.sgemm_gflops ? Json(row.gflops / *bench.sgemm_gflops) : Json()},
         {"extra_bytes", or_null(row.extra_bytes)},
         {"type", Name(bench.options.type)},
         {"omega_type", Name(bench.options.omega_type)},
         {"log_decay", or_null(bench.options.log_decay)},
         {"bytes", row.bytes},
         {"exponentials", row.exponentials},
         {"share_of_copy",
          bench.copy_rate ? Json(row.bytes / row.seconds / *bench.copy_rate) : Json()}});
  }
  for (const benchmarks::AttentionBenchLine& line : bench.lines) {
    lines.push_back({{"map", line.map},
                     {"projection", line.projection},
                     {"crossover_length", or_null(line.crossover)},
                     {"fitted_exponent", or_null(line.exponent)}});
  }
  return {{"version", FAVOR_VERSION},
          {"simd", SimdName()},
          {"gpu", bench.gpu.empty() ? Json() : Json(bench.gpu)},
          {"copy_bytes_per_second", or_null(bench.copy_rate)},
          {"sgemm_gflops", bench.sgemm_gflops ? Json(*bench.sgemm_gflops) : Json()},
          {"rows", rows},
          {"lines", lines}};
}

void Print(const benchmarks::AttentionBench& bench) {
  if (bench.gpu.empty())
    fmt::print("{} SIMD: {}.\n\n", benchmarks::YardstickText(bench.sgemm_gflops), SimdName());
  fmt::print("{}\n", bench.ToTable().ToText());
  const bool beside_exact =
      std::any_of(bench.rows.begin(), bench.rows.end(), [](const auto& row) { return row.exact; });
  for (const benchmarks::AttentionBenchLine& line : bench.lines) {
    std::vector<std::string> facts;
    if (line.exponent) facts.push_back(fmt::format("time grows like L^{:.3f}", *line.exponent));
    if (line.crossover) {
      facts.push_back(fmt::format("faster than exact attention from L ≈ {:.0f}", *line.crossover));
    } else if (beside_exact) {
      facts.emplace_back("slower than exact attention at the lengths measured");
    }
    if (!facts.empty())
      fmt::print("{}, {}: {}\n", line.map, line.projection, fmt::join(facts, "; "));
  }
}

void Run(Arguments& a) {
  CheckFiles("bench", {a.json, a.plot}, {});
  const bool on_gpu = a.run.device.type == DeviceType::kCuda;
  if (a.type && !on_gpu)
    Throw(ErrorCode::kInvalidOption, "bench attention: --type",
          "given without --device cuda, expected none: kernels of the CPU compute with f32");
  if (on_gpu) a.options.type = a.type.value_or(DataType::kBF16);
  a.options.omega_type =
      a.omega_type.value_or(a.options.type == DataType::kBF16 ? OmegaType::kBF16 : OmegaType::kF32);
  if (a.options.log_decay && !a.options.causal)
    Throw(ErrorCode::kInvalidOption, "bench attention: --log-decay",
          "given without --causal, expected both: only causal attention forgets");
  if (a.options.log_decay && !(*a.options.log_decay <= 0))
    Throw(ErrorCode::kInvalidOption, "bench attention: --log-decay", "given {}, expected at most 0",
          *a.options.log_decay);
  // Invalid combinations are rejected here, not after an hour.
  for (const std::string& map : a.options.maps) {
    for (const std::string& projection : a.options.projections) {
      FeaturePlan::Draw({.map = map, .projection = projection, .features = a.options.features},
                        a.options.heads, a.options.dim, 0);
    }
  }
  const Context context = a.run.Make();
  const benchmarks::AttentionBench bench = benchmarks::RunAttentionBench(a.options, context);
  Print(bench);
  if (!a.json.empty()) io::WriteFileAtomically(a.json, ToJson(bench).dump(2) + "\n");
  if (a.plot.empty()) return;
  const auto svg = reports::RenderSvg(bench.ToPlot());
  if (!svg) Throw(ErrorCode::kUnavailable, "bench: --plot", "gnuplot is needed to draw it");
  io::WriteFileAtomically(a.plot, *svg);
}

void Declare(Options& options, Arguments& a) {
  options.Integers("--lengths,--length", {1, kMaxLength}, a.options.lengths,
                   "Lengths of sequences");
  options.Integer("--batch", {1, 4096}, a.options.batch, "Sequences at a time");
  options.Integer("--heads", {1, 4096}, a.options.heads, "Heads");
  options.Integer("--dim", {1, FeaturePlan::kMaxDim}, a.options.dim,
                  "Dim of queries, keys and values");
  options.Integer("--value-dim", {0, FeaturePlan::kMaxDim}, a.options.value_dim,
                  "Dim of values; 0: that of queries and keys");
  options.Integer("--features", {1, FeaturePlan::kMaxFeatures}, a.options.features, "Rows of ω");
  options.Choices("--maps,--map", features::MapNames(), a.options.maps, "Feature maps");
  options.Choices("--projections,--projection", features::ProjectionNames(), a.options.projections,
                  "Ways to draw ω");
  options.Choice("--omega-type", a.omega_type, "ω is rounded to this type; bf16 is faster on a GPU")
      .Default("bf16 for arrays of bf16, f32 otherwise");
  options
      .Number("--log-decay", a.options.log_decay,
              "Linear attention forgets: the logarithm by which every token decays the past, at "
              "most 0")
      .Default("none");
  options
      .Integer("--window", {0, kMaxLength}, a.options.window,
               "Time kinds with a window of this size too, with the first map")
      .Default("none");
  options.Flag("--causal", a.options.causal, "Query i sees keys 0 to i");
  options.Flag("--backward", a.options.backward,
               "Time forward and backward together instead of forward alone");
  options.Number("--deviation", a.options.deviation, "Standard deviation of queries and keys");
  options.Integer("--exact-up-to", {0, kMaxLength}, a.options.exact_up_to,
                  "Longest sequence of exact attention, whose time grows like L²");
  options.Integer(
      "--rounds", {1, 1000}, a.options.rounds,
      "How often everything is timed; the shortest time counts (on a GPU: the median of "
      "five times as many)");
  a.run.AddDevice(options);
  AddType(options, a.type, "Type of the arrays on a GPU").Default("bf16");
  a.run.Add(options);
  options.Path("--json", "FILE", a.json, "Write the figures as JSON");
  options.Path("--plot", "FILE.svg", a.plot,
               "Draw time over length, log–log, with the fitted exponents");
  options.Flag("--quiet", a.options.quiet, "No progress on stderr");
}

}  // namespace

Command BenchAttentionPart() {
  return {.name = "attention",
          .summary = "Linear and exact attention next to a large sgemm of the same run",
          .example =
              "favor bench attention --lengths 1024,4096,16384 --causal --backward --json "
              "bench.json --plot bench.svg",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
