// favor inspect model: what a model is made of and the memory that it takes.
#ifndef FAVOR_CLI_INSPECT_MODEL_H_
#define FAVOR_CLI_INSPECT_MODEL_H_

#include <CLI/CLI.hpp>
#include <functional>

namespace favor::cli {

// Adds the subcommand; returns what runs it.
std::function<void()> AddInspectModel(CLI::App& inspect);

}  // namespace favor::cli

#endif  // FAVOR_CLI_INSPECT_MODEL_H_
