// favor inspect data: what data are like, and what simple models make of them.
#ifndef FAVOR_CLI_INSPECT_DATA_H_
#define FAVOR_CLI_INSPECT_DATA_H_

#include <CLI/CLI.hpp>
#include <functional>

namespace favor::cli {

// Adds the subcommand; returns what runs it.
std::function<void()> AddInspectData(CLI::App& inspect);

}  // namespace favor::cli

#endif  // FAVOR_CLI_INSPECT_DATA_H_
