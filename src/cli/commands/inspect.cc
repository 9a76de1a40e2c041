// favor inspect model | data.
#include "cli/command.h"
#include "cli/inspect_data.h"
#include "cli/inspect_model.h"

namespace favor::cli {

Command InspectCommand() {
  return {.name = "inspect",
          .summary = "Show what a model is made of, or what data are like",
          .example =
              "favor inspect model --preset regular --length 8192\n  favor inspect data "
              "--data proteins.fasta.gz",
          .setup = [](CLI::App& app) -> std::function<void()> {
            app.require_subcommand(1);
            const std::function<void()> model = AddInspectModel(app), data = AddInspectData(app);
            return [&app, model, data] { app.got_subcommand("data") ? data() : model(); };
          }};
}

}  // namespace favor::cli
