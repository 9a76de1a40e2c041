#include "benchmarks/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attention/kind.h"
#include "benchmarks/gpu_attention.h"
#include "benchmarks/peak_memory.h"
#include "benchmarks/random_tensor.h"
#include "benchmarks/sgemm.h"
#include "core/device.h"
#include "core/progress.h"
#include "core/stopwatch.h"
#include "favor/attention.h"

namespace favor::benchmarks {
namespace {

constexpr int64_t kFitFrom = 4096;
constexpr double kSecondsOfRow = 20;  // a row that has taken this long is not timed again

// Zeros whose pages are there: a call is not charged for results that it writes first.
Tensor Touched(const Shape& shape) {
  Tensor zeros(shape);
  std::fill_n(zeros.Data<float>(), shape.Elements(), 0.0f);
  return zeros;
}

// Arrays of one length, and a call on them.
class BenchCall {
 public:
  BenchCall(const AttentionBenchOptions& options, int64_t length, uint64_t seed)
      : backward_(options.backward) {
    const Shape rows{options.batch, options.heads, length, options.dim},
        values{options.batch, options.heads, length, options.ValueDim()};
    q_ = RandomNormal(rows, options.deviation, seed, "bench q");
    k_ = RandomNormal(rows, options.deviation, seed, "bench k");
    v_ = RandomNormal(values, 1, seed, "bench v");
    out_ = Touched(values);
    if (!backward_) return;
    grad_out_ = RandomNormal(values, 1, seed, "bench gradient");
    grad_q_ = Touched(rows);
    grad_k_ = Touched(rows);
    grad_v_ = Touched(values);
  }

  void Run(const AttentionOptions& options, const Context& context) {
    if (!backward_) return AttendInto({q_, k_, v_}, options, context, out_);
    AttentionTrace trace;
    AttendInto({q_, k_, v_}, options, context, out_, {.trace = &trace});
    AttendBackwardInto({q_, k_, v_, out_, grad_out_}, options, context, &trace,
                       {grad_q_, grad_k_, grad_v_});
  }

 private:
  bool backward_;
  Tensor q_, k_, v_, out_, grad_out_, grad_q_, grad_k_, grad_v_;
};

struct Timed {
  AttentionMeasurement row;
  AttentionOptions options;
  Tensor log_decay;  // what the options point to
  double spent = 0;
};

std::vector<Timed> RowsOfLength(const AttentionBenchOptions& options, int64_t length, bool on_gpu,
                                uint64_t seed) {
  std::vector<Timed> rows;
  const auto add = [&](AttentionMeasurement row) -> Timed& {
    row.length = length;
    row.seconds = std::numeric_limits<double>::infinity();
    rows.push_back({.row = std::move(row), .options = {.causal = options.causal}});
    return rows.back();
  };
  for (const std::string& map : options.maps) {
    for (const std::string& projection : options.projections) {
      Timed& timed = add({.map = map, .projection = projection});
      AttentionOptions& attention = timed.options;
      attention.plan = FeaturePlan::Draw(
          {.map = map,
           .projection = projection,
           .features = options.features,
           .omega_type = options.omega_type,
           // A for this deviation and dim: a causal call may not take it from the data.
           .oprf_a = FindMap(map).takes_a ? std::vector<double>{OptimalOprfA(
                                                2 * options.deviation * options.deviation *
                                                    std::sqrt(static_cast<double>(options.dim)),
                                                options.dim)}
                                          : std::vector<double>{}},
          options.heads, options.dim, seed);
      timed.row.features = attention.plan->features();  // a projection may have its own m
      if (!options.log_decay) continue;
      timed.log_decay = Tensor({length}, DataType::kF64);
      std::fill_n(timed.log_decay.Data<double>(), length, *options.log_decay);
      attention.log_decay = std::as_const(timed.log_decay).view();
    }
  }
  for (const AttentionKindInfo& kind : AttentionKinds()) {
    if (options.window < 0 ||
        std::ranges::find(kind.options, "window", &AttentionOptionInfo::name) ==
            kind.options.end() ||
        (on_gpu && !attention::FindKind(kind.name).RunsOnGpu()))
      continue;
    const std::optional<FeaturePlan> plan = rows.front().options.plan;
    Timed& timed = add({.windowed = std::string(kind.name)});
    timed.options.attention = kind.name;
    timed.options.kind_options = {{"window", options.window}};
    if (!kind.takes_plan) continue;
    timed.options.plan = plan;
    timed.row.features = plan->features();
  }
  if (length <= options.exact_up_to) add({.exact = true}).options.attention = "exact";
  return rows;
}

// The x from which on y of `linear` stays below y of `exact`, both sorted by x.
std::optional<double> Crossover(const std::vector<std::pair<double, double>>& linear,
                                const std::vector<std::pair<double, double>>& exact) {
  std::vector<std::pair<double, double>> gap;  // log(linear/exact) over log(length)
  for (const auto& [length, seconds] : linear) {
    for (const auto& [other, exact_seconds] : exact) {
      if (other == length) gap.emplace_back(std::log(length), std::log(seconds / exact_seconds));
    }
  }
  if (gap.empty() || gap.back().second >= 0) return std::nullopt;
  for (size_t i = gap.size() - 1; i > 0; --i) {
    const auto& [x0, y0] = gap[i - 1];
    const auto& [x1, y1] = gap[i];
    if (y0 >= 0) return std::exp(x0 + (x1 - x0) * y0 / (y0 - y1));
  }
  return std::exp(gap.front().first);
}

}  // namespace

std::optional<double> FittedExponent(const std::vector<std::pair<double, double>>& points) {
  if (points.size() < 2) return std::nullopt;
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [px, py] : points) {
    x += std::log(px);
    y += std::log(py);
    xx += std::log(px) * std::log(px);
    xy += std::log(px) * std::log(py);
  }
  const auto n = static_cast<double>(points.size());
  const double spread = n * xx - x * x;
  if (!(spread > 0)) return std::nullopt;
  return (n * xy - x * y) / spread;
}

namespace {

// Times the rows of one length on the CPU, in turns with the yardstick.
void TimeOnCpu(const AttentionBenchOptions& options, int64_t length, std::vector<Timed>& rows,
               Yardstick& sgemm, const Context& context) {
  BenchCall call(options, length, context.seed());
  for (Timed& timed : rows) {
    // Also warms caches and pages. A fresh context, so that its scratch memory counts.
    const Context fresh({.threads = context.threads(), .seed = context.seed()});
    timed.row.extra_bytes = PeakExtraBytes([&] { call.Run(timed.options, fresh); });
  }
  for (int64_t round = 0; round < options.rounds; ++round) {
    // The sgemm and the rows take turns, so that what disturbs one disturbs the other.
    sgemm.Measure();
    for (Timed& timed : rows) {
      if (timed.spent > kSecondsOfRow) continue;
      const double seconds = LeastSeconds(1, [&] { call.Run(timed.options, context); });
      timed.spent += seconds;
      timed.row.seconds = std::min(timed.row.seconds, seconds);
    }
  }
}

void TimeOnGpu(const AttentionBenchOptions& options, int64_t length, std::vector<Timed>& rows,
               const Context& context) {
  GpuAttention arrays(options, length, context);
  for (Timed& timed : rows) {
    const auto [seconds, extra_bytes] = arrays.CostOf(timed.options, options.rounds);
    timed.row.seconds = seconds;
    timed.row.extra_bytes = extra_bytes;
  }
}

// What one call computes and moves.
void Count(const AttentionBenchOptions& options, int64_t length, Timed& timed) {
  const attention::Kind& kind = attention::FindKind(timed.options.attention);
  const attention::CacheShape shape{.batch = options.batch,
                                    .heads = options.heads,
                                    .kv_heads = options.heads,
                                    .dim = options.dim,
                                    .value_dim = options.ValueDim()};
  AttentionMeasurement& row = timed.row;
  row.gflops = kind.Flops(shape, length, timed.options, options.backward) / row.seconds / 1e9;
  row.exponentials = kind.Exponentials(shape, length, timed.options, options.backward);
  // Forward q, k, v and the output; backward all of them again with the gradient of the output, and
  // three gradients.
  const auto rows = static_cast<double>(options.batch * options.heads * length),
             dim = static_cast<double>(options.dim),
             value_dim = static_cast<double>(options.ValueDim());
  const double elements =
      2 * dim + 2 * value_dim + (options.backward ? 4 * dim + 4 * value_dim : 0);
  row.bytes = rows * elements * static_cast<double>(ItemBytes(options.type));
}

}  // namespace

AttentionBench RunAttentionBench(const AttentionBenchOptions& options, const Context& context) {
  AttentionBench bench{.options = options, .threads = context.threads()};
  const bool on_gpu = context.device().type == DeviceType::kCuda;
  std::optional<Yardstick> sgemm;
  if (on_gpu) {
    bench.gpu = ListGpus()[static_cast<size_t>(context.device().index)].name;
    bench.copy_rate = GpuCopyRate(options.rounds, context);
  } else {
    sgemm.emplace(context);
  }
  Progress progress("bench", static_cast<int64_t>(options.lengths.size()), options.quiet);
  int64_t done = 0;
  std::sort(bench.options.lengths.begin(), bench.options.lengths.end());
  for (const int64_t length : bench.options.lengths) {
    std::vector<Timed> rows = RowsOfLength(options, length, on_gpu, context.seed());
    if (on_gpu) {
      TimeOnGpu(options, length, rows, context);
    } else {
      TimeOnCpu(options, length, rows, *sgemm, context);
    }
    progress.Update(++done, fmt::format("L = {}", length));
    for (Timed& timed : rows) {
      Count(options, length, timed);
      bench.rows.push_back(std::move(timed.row));
    }
  }
  if (sgemm) bench.sgemm_gflops = sgemm->gflops();
  const auto times = [&](bool exact, const std::string& map, const std::string& projection) {
    std::vector<std::pair<double, double>> points;
    for (const AttentionMeasurement& row : bench.rows) {
      if (row.exact == exact && row.map == map && row.projection == projection)
        points.emplace_back(static_cast<double>(row.length), row.seconds);
    }
    return points;
  };
  const auto exact = times(true, "", "");
  for (const std::string& map : options.maps) {
    for (const std::string& projection : options.projections) {
      const auto linear = times(false, map, projection);
      auto fitted = linear;
      std::erase_if(fitted, [](const auto& point) { return point.first < kFitFrom; });
      bench.lines.push_back({.map = map,
                             .projection = projection,
                             .crossover = Crossover(linear, exact),
                             .exponent = FittedExponent(fitted.size() >= 2 ? fitted : linear)});
    }
  }
  return bench;
}

namespace {

// "3.21", or "" if there is no exact attention of the same length.
std::string RatioToExact(const AttentionBench& bench, const AttentionMeasurement& row) {
  if (row.exact || !row.windowed.empty()) return "";
  for (const AttentionMeasurement& other : bench.rows) {
    if (other.exact && other.length == row.length)
      return fmt::format("{:.2f}", other.seconds / row.seconds);
  }
  return "";
}

std::string NameOf(const AttentionBench& bench, const AttentionMeasurement& row) {
  if (!row.windowed.empty()) return fmt::format("{}, {}", row.windowed, bench.options.window);
  if (row.exact) return "exact";
  return FindMap(row.map).has_omega ? fmt::format("{}, {}", row.map, row.projection)
                                    : fmt::format("{}, m = {}", row.map, row.features);
}

std::vector<std::string> CpuColumns(const AttentionBench& bench, const AttentionMeasurement& row) {
  return {fmt::format("{:.1f}", row.gflops), ShareText(row.gflops, bench.sgemm_gflops)};
}

std::vector<std::string> GpuColumns(const AttentionBench& bench, const AttentionMeasurement& row) {
  const auto tokens = static_cast<double>(row.length * bench.options.batch);
  return {fmt::format("{:.1f}", row.gflops / 1e3),
          fmt::format("{:.3g}", row.gflops * 1e9 * row.seconds / tokens),
          fmt::format("{:.0f}", row.bytes / tokens),
          fmt::format("{:.3g}", row.exponentials / tokens),
          fmt::format("{:.0f} %", 100 * row.bytes / row.seconds / *bench.copy_rate)};
}

}  // namespace

reports::Table AttentionBench::ToTable() const {
  const bool on_gpu = !gpu.empty();
  reports::Table table{
      .title = fmt::format(
          "{} attention, {}, batch {}, {} heads, d = {}{}, m = {}, {}",
          options.causal ? "Causal" : "Bidirectional",
          options.backward ? "forward and backward" : "forward", options.batch, options.heads,
          options.dim,
          options.value_dim == 0 ? "" : fmt::format(", values of dim {}", options.value_dim),
          options.features,
          on_gpu ? fmt::format("{}", Name(options.type)) : fmt::format("{} threads", threads)),
      .caption = on_gpu ? fmt::format("{} Median of {} times of the kernels alone; tokens are "
                                      "positions of a sequence, all heads.",
                                      CopyText(gpu, *copy_rate), GpuSamples(options.rounds))
                        : fmt::format("{} Shortest of {} times; tokens are positions of a "
                                      "sequence, all heads.",
                                      YardstickText(sgemm_gflops), options.rounds),
      .columns = {"length", "attention", "ms", "tokens/s"},
      .rows = {}};
  const std::vector<std::string> more =
      on_gpu ? std::vector<std::string>{"TFLOP/s", "flop/token", "bytes/token", "exp/token",
                                        "of a copy"}
             : std::vector<std::string>{"GFLOP/s", "of sgemm"};
  table.columns.insert(table.columns.end(), more.begin(), more.end());
  table.columns.emplace_back("extra MB");
  table.columns.emplace_back("exact/linear");
  for (const AttentionMeasurement& row : rows) {
    std::vector<std::string> cells = {
        std::to_string(row.length), NameOf(*this, row), fmt::format("{:.3f}", 1e3 * row.seconds),
        fmt::format("{:.3g}", static_cast<double>(row.length * options.batch) / row.seconds)};
    for (std::string cell : on_gpu ? GpuColumns(*this, row) : CpuColumns(*this, row))
      cells.push_back(std::move(cell));
    cells.push_back(
        row.extra_bytes ? fmt::format("{:.1f}", static_cast<double>(*row.extra_bytes) / 1e6) : "—");
    cells.push_back(RatioToExact(*this, row));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

reports::Plot AttentionBench::ToPlot() const {
  reports::Plot plot{
      .title = fmt::format("Time of {} attention{}", options.causal ? "causal" : "bidirectional",
                           options.backward ? ", forward and backward" : ""),
      .caption = "",
      .x_label = "length",
      .y_label = "seconds",
      .log_x = true,
      .log_y = true,
      .series = {}};
  const auto add = [&](const std::string& name, const auto& belongs) {
    reports::Series series{
        .name = name, .points = {}, .color = static_cast<int>(plot.series.size() / 2)};
    for (const AttentionMeasurement& row : rows) {
      if (belongs(row)) series.points.emplace_back(static_cast<double>(row.length), row.seconds);
    }
    if (series.points.empty()) return;
    plot.series.push_back(series);
    series.markers = true;
    plot.series.push_back(series);
  };
  add("exact", [](const AttentionMeasurement& row) { return row.exact; });
  for (const AttentionBenchLine& line : lines) {
    std::string name = fmt::format("{}, {}", line.map, line.projection);
    if (line.exponent) name += fmt::format(": L^{:.3f}", *line.exponent);
    add(name, [&](const AttentionMeasurement& row) {
      return !row.exact && row.map == line.map && row.projection == line.projection;
    });
  }
  return plot;
}

}  // namespace favor::benchmarks
