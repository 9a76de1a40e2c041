// favor bench: how fast attention and training are here, beside a large matrix product.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench_generate.h"
#include "cli/bench_train.h"
#include "cli/command.h"
#include "cli/options.h"
#include "core/error_text.h"
#include "core/simd.h"
#include "favor/attention.h"
#include "favor/version.h"
#include "io/atomic_file.h"
#include "lab/bench_attention.h"

namespace favor::cli {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 24;

struct Arguments {
  lab::AttentionBenchOptions options;
  std::string json, plot;
  RunOptions run;
};

nlohmann::json ToJson(const lab::AttentionBench& bench) {
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  nlohmann::json rows = nlohmann::json::array(), lines = nlohmann::json::array();
  for (const lab::AttentionBenchRow& row : bench.rows) {
    const bool linear = row.attention == "linear";
    rows.push_back({{"attention", row.attention},
                    {"map", linear ? nlohmann::json(row.map) : nlohmann::json()},
                    {"projection", linear ? nlohmann::json(row.projection) : nlohmann::json()},
                    {"causal", bench.options.causal},
                    {"backward", bench.options.backward},
                    {"batch", bench.options.batch},
                    {"heads", bench.options.heads},
                    {"dim", bench.options.dim},
                    {"features", linear ? row.features : bench.options.features},
                    {"length", row.length},
                    {"threads", bench.threads},
                    {"seconds", row.seconds},
                    {"gflops", row.gflops},
                    {"share_of_sgemm", row.share_of_sgemm},
                    {"extra_bytes", or_null(row.extra_bytes)}});
  }
  for (const lab::AttentionBenchLine& line : bench.lines) {
    lines.push_back({{"map", line.map},
                     {"projection", line.projection},
                     {"crossover_length", or_null(line.crossover)},
                     {"fitted_exponent", or_null(line.exponent)}});
  }
  return {{"version", FAVOR_VERSION},
          {"simd", SimdName()},
          {"sgemm_gflops", bench.sgemm_gflops},
          {"rows", rows},
          {"lines", lines}};
}

void Print(const lab::AttentionBench& bench) {
  fmt::print("large sgemm in this run: {:.1f} GFLOP/s ({})\n\n", bench.sgemm_gflops, SimdName());
  fmt::print("{}\n", bench.ToTable().ToText());
  const bool beside_exact = std::any_of(bench.rows.begin(), bench.rows.end(),
                                        [](const auto& row) { return row.attention == "exact"; });
  for (const lab::AttentionBenchLine& line : bench.lines) {
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
  // Combinations that cannot be fail now, not after an hour.
  for (const std::string& map : a.options.maps) {
    for (const std::string& projection : a.options.projections) {
      FeaturePlan::Draw({.map = map, .projection = projection, .features = a.options.features},
                        a.options.heads, a.options.dim, 0);
    }
  }
  const Context context(a.run.ToContext());
  const lab::AttentionBench bench = lab::RunAttentionBench(a.options, context);
  Print(bench);
  if (!a.json.empty()) io::WriteFileAtomically(a.json, ToJson(bench).dump(2) + "\n");
  if (a.plot.empty()) return;
  const auto svg = lab::RenderSvg(bench.ToPlot());
  if (!svg) Throw(ErrorCode::kUnavailable, "bench: --plot", "gnuplot is needed to draw it");
  io::WriteFileAtomically(a.plot, *svg);
}

template <class Infos>
std::vector<std::string_view> Names(const Infos& infos) {
  std::vector<std::string_view> names;
  for (const auto& info : infos) names.push_back(info.name);
  return names;
}

}  // namespace

Command BenchCommand() {
  return {.name = "bench",
          .summary = "Measure speed and memory on this machine",
          .example = "favor bench attention --lengths 1024,4096,16384 --causal --json bench.json",
          .setup = [](CLI::App& app) -> std::function<void()> {
            const auto arguments = std::make_shared<Arguments>();
            Arguments& a = *arguments;
            app.require_subcommand(1);
            CLI::App* attention = app.add_subcommand(
                "attention", "Linear and exact attention beside a large sgemm of the same run");
            attention->footer(
                "Example:\n  favor bench attention --lengths 1024,4096,16384 --causal --backward "
                "--json bench.json --plot bench.svg");
            AddIntegers(*attention, "--lengths,--length", 1, kMaxLength, a.options.lengths,
                        "Lengths of sequences");
            AddInteger(*attention, "--batch", 1, 4096, a.options.batch, "Sequences at a time");
            AddInteger(*attention, "--heads", 1, 4096, a.options.heads, "Heads");
            AddInteger(*attention, "--dim", 1, FeaturePlan::kMaxDim, a.options.dim,
                       "Dim of queries, keys and values");
            AddInteger(*attention, "--features", 1, FeaturePlan::kMaxFeatures, a.options.features,
                       "Rows of ω");
            AddChoices(*attention, "--maps,--map", Names(Maps()), a.options.maps, "Feature maps");
            AddChoices(*attention, "--projections,--projection", Names(Projections()),
                       a.options.projections, "Ways to draw ω");
            attention->add_flag("--causal", a.options.causal, "Query i sees keys 0 to i");
            attention->add_flag("--backward", a.options.backward,
                                "Forward and backward together instead of forward alone");
            AddNumber(*attention, "--deviation", "Standard deviation of queries and keys",
                      [&a](double value) { a.options.deviation = value; })
                ->default_str("0.5");
            AddInteger(*attention, "--exact-up-to", 0, kMaxLength, a.options.exact_up_to,
                       "Longest sequence of exact attention, whose time grows like L²");
            AddInteger(*attention, "--rounds", 1, 1000, a.options.rounds,
                       "How often everything is timed; the least time counts");
            AddRunOptions(*attention, a.run);
            AddPath(*attention, "--json", "FILE", a.json, "Write the figures as JSON");
            AddPath(*attention, "--plot", "FILE.svg", a.plot,
                    "Draw time over length, log–log, with the fitted exponents");
            attention->add_flag("--quiet", a.options.quiet, "No progress on stderr");
            const std::function<void()> train = AddBenchTrain(app),
                                        generate = AddBenchGenerate(app);
            return [arguments, &app, train, generate] {
              if (app.got_subcommand("train")) return train();
              if (app.got_subcommand("generate")) return generate();
              Run(*arguments);
            };
          }};
}

}  // namespace favor::cli
