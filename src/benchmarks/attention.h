// Times of attention over lengths, maps and projections, next to exact attention and a large matrix
// product measured in the same run.
#ifndef FAVOR_BENCHMARKS_ATTENTION_H_
#define FAVOR_BENCHMARKS_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "favor/context.h"
#include "favor/maps.h"
#include "reports/plot.h"
#include "reports/table.h"

namespace favor::benchmarks {

struct AttentionBenchOptions {
  std::vector<int64_t> lengths = {512, 1024, 2048, 4096, 8192, 16384};
  int64_t batch = 1, heads = 8, dim = 64, features = 256;
  int64_t value_dim = 0;  // 0: dim
  std::vector<std::string> maps = {"positive"}, projections = {"orthogonal"};
  bool causal = false, backward = false;
  int64_t window = -1;          // ≥ 0: kinds with a window are timed too, with the first map
  int64_t exact_up_to = 16384;  // the longest sequence of exact attention
  double deviation = 0.5;       // standard deviation of queries and keys
  // How often everything is timed. On the CPU the shortest time counts; on a GPU the median of five
  // times as many.
  int64_t rounds = 5;
  DataType type = DataType::kF32;  // of the arrays; on a GPU only another
  OmegaType omega_type = OmegaType::kF32;
  std::optional<double> log_decay;  // causal linear attention forgets: ℓ of every token
  bool quiet = false;               // no progress on stderr

  int64_t ValueDim() const { return value_dim == 0 ? dim : value_dim; }
};

struct AttentionMeasurement {
  bool exact = false;  // otherwise linear, or of the kind `windowed`
  std::string windowed;
  std::string map, projection;  // only for linear attention
  int64_t length;
  int64_t features;  // m; 0 for exact attention
  double seconds;    // forward, or forward and backward together
  double gflops;
  // Peak memory beyond inputs, outputs and gradients.
  std::optional<int64_t> extra_bytes = {};
  // Of one call: bytes of its arrays, each read or written once by each pass that needs it, and
  // exponentials.
  double bytes = 0, exponentials = 0;
};

// One way to compute linear attention, over all lengths.
struct AttentionBenchLine {
  std::string map, projection;
  // The length from which on linear attention takes less time than exact attention, interpolated
  // between measured lengths; empty if it never does, or exact attention was not measured.
  std::optional<double> crossover;
  // The exponent of time ∝ length^exponent, over lengths of 4096 and more (over all lengths if
  // fewer than two are).
  std::optional<double> exponent;
};

struct AttentionBench {
  AttentionBenchOptions options;
  int threads = 0;
  std::optional<double> sgemm_gflops;  // the yardstick on the CPU; empty without oneDNN
  std::string gpu = {};                // its name, if it ran on one
  std::optional<double> copy_rate;     // bytes that a copy on the GPU reads and writes per second
  std::vector<AttentionMeasurement> rows;
  std::vector<AttentionBenchLine> lines;

  reports::Table ToTable() const;
  reports::Plot ToPlot() const;
};

AttentionBench RunAttentionBench(const AttentionBenchOptions& options, const Context& context);

// The exponent of y ∝ x^exponent by least squares on logarithms; empty for fewer than two points.
std::optional<double> FittedExponent(const std::vector<std::pair<double, double>>& points);

}  // namespace favor::benchmarks

#endif  // FAVOR_BENCHMARKS_ATTENTION_H_
