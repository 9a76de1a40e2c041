// Times and memory of training steps over lengths, next to a large matrix product of the same run.
#ifndef FAVOR_BENCHMARKS_TRAIN_H_
#define FAVOR_BENCHMARKS_TRAIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/operation_times.h"
#include "favor/train.h"
#include "reports/table.h"

namespace favor::benchmarks {

struct TrainBenchOptions {
  ModelConfig model = Preset("regular");
  std::vector<int64_t> lengths = {1024, 2048, 4096, 8192};
  int64_t batch = 1;
  bool recompute = false;
  double dropout = TrainConfig{}.dropout;
  DataType pass_type = DataType::kF32;  // as in Placement
  int64_t rounds = 3;                   // steps that are timed; the shortest time counts
  bool quiet = false;
};

struct TrainMeasurement {
  int64_t length, tokens;
  double seconds;  // time per step: batch, forward, backward, AdamW
  double gflops;
  int64_t planned_bytes;  // as favor inspect model estimates
  // Peak memory of model and steps; on a GPU what they hold after a step.
  std::optional<int64_t> measured_bytes;
  // Shares of the time of one more step, whose operations are timed; the last is what is left
  // (dropout, activations, loss, batches, waiting).
  struct Shares {
    double products = 0, attention = 0, norms = 0, optimizer = 0, rest = 0;
  };
  Shares shares = {};
  double timed_seconds = 0;               // of that step
  std::vector<OperationTime> operations;  // in it, the longest first
};

struct TrainBench {
  TrainBenchOptions options;
  int threads = 0;
  std::string gpu;                     // its name; empty: the CPU
  std::optional<double> sgemm_gflops;  // the yardstick; empty without oneDNN and on a GPU
  std::vector<TrainMeasurement> rows;

  reports::Table ToTable() const;
  reports::Table OperationsOf(const TrainMeasurement& row) const;
};

// Operations that count: 6 for every token and parameter of a matrix product (tables that are only
// looked up do not count), and those of attention with gradients as favor bench attention counts
// them.
double CountedTrainFlops(const ModelConfig& model, int64_t batch, int64_t length);

// The shares of operations in a step of `step` seconds.
TrainMeasurement::Shares SharesOf(const std::vector<OperationTime>& operations, double step);

TrainBench RunTrainBench(const TrainBenchOptions& options, const Context& context);

}  // namespace favor::benchmarks

#endif  // FAVOR_BENCHMARKS_TRAIN_H_
