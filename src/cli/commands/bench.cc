// favor bench: how fast attention, training and generation are on this machine, next to a yardstick
// measured in the same run.
#include "cli/command.h"
#include "cli/parts.h"

namespace favor::cli {

Command BenchCommand() {
  return {.name = "bench",
          .summary = "Measure speed and memory on this machine",
          .example = "favor bench attention --lengths 1024,4096,16384 --causal --json bench.json",
          .parts = {BenchAttentionPart(), BenchTrainPart(), BenchGeneratePart()}};
}

}  // namespace favor::cli
