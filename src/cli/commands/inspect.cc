// favor inspect model | data.
#include "cli/command.h"
#include "cli/parts.h"

namespace favor::cli {

Command InspectCommand() {
  return {.name = "inspect",
          .summary = "Show what a model is made of, or what data looks like",
          .example =
              "favor inspect model --preset regular --length 8192\n  favor inspect data "
              "--data proteins.fasta.gz",
          .parts = {InspectModelPart(), InspectDataPart()}};
}

}  // namespace favor::cli
