// Parts of commands that have their own file.
#ifndef FAVOR_CLI_PARTS_H_
#define FAVOR_CLI_PARTS_H_

#include "cli/command.h"

namespace favor::cli {

Command BenchAttentionPart();
Command BenchGeneratePart();
Command BenchTrainPart();
Command InspectDataPart();
Command InspectModelPart();

}  // namespace favor::cli

#endif  // FAVOR_CLI_PARTS_H_
