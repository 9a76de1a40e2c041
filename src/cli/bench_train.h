// favor bench train.
#ifndef FAVOR_CLI_BENCH_TRAIN_H_
#define FAVOR_CLI_BENCH_TRAIN_H_

#include <CLI/CLI.hpp>
#include <functional>

namespace favor::cli {

// Adds the subcommand; returns what runs it.
std::function<void()> AddBenchTrain(CLI::App& bench);

}  // namespace favor::cli

#endif  // FAVOR_CLI_BENCH_TRAIN_H_
