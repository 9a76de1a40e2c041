// favor bench generate.
#ifndef FAVOR_CLI_BENCH_GENERATE_H_
#define FAVOR_CLI_BENCH_GENERATE_H_

#include <CLI/CLI.hpp>
#include <functional>

namespace favor::cli {

// Adds the subcommand; returns what it runs.
std::function<void()> AddBenchGenerate(CLI::App& bench);

}  // namespace favor::cli

#endif  // FAVOR_CLI_BENCH_GENERATE_H_
