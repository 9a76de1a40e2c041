// Speed of generation after prefixes of several lengths, next to a copy of the same bytes: each
// step reads every weight and all states once.
#ifndef FAVOR_BENCHMARKS_GENERATE_H_
#define FAVOR_BENCHMARKS_GENERATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "favor/model.h"
#include "reports/table.h"

namespace favor::benchmarks {

struct GenerateBenchOptions {
  ModelConfig model = Preset("regular");
  DataType pass_type = DataType::kF32;  // as in Placement
  std::vector<int64_t> prefixes = {100, 1000, 10'000, 100'000};
  int64_t tokens = 64;  // of each sequence, generated per round
  int64_t batch = 1;    // sequences that continue the prefix, one token of each at a time
  // Read before those: the first ones of a decoder on a GPU make and record what others repeat.
  static constexpr int64_t kUntimedTokens = 3;
  int64_t rounds = 5;  // the shortest time counts
  bool quiet = false;
};

struct GenerateMeasurement {
  int64_t prefix = 0;
  double read_tokens_per_second = 0;  // for the tokens since the previous prefix
  double seconds = 0;                 // time of a step: one token of each sequence
  int64_t state_bytes = 0;            // of all sequences
  double copy_seconds = 0;  // time of copying as many bytes as weights and state have, there

  double ShareOfCopy() const { return copy_seconds / seconds; }
};

struct GenerateBench {
  GenerateBenchOptions options;
  int threads = 0;
  std::string gpu;           // its name; empty: the CPU
  int64_t weight_bytes = 0;  // as passes read them
  std::vector<GenerateMeasurement> rows;

  double TokensPerSecond(const GenerateMeasurement& row) const {
    return static_cast<double>(options.batch) / row.seconds;
  }
  reports::Table ToTable() const;
};

// The model lives on the context's device.
GenerateBench RunGenerateBench(const GenerateBenchOptions& options, const Context& context);

}  // namespace favor::benchmarks

#endif  // FAVOR_BENCHMARKS_GENERATE_H_
