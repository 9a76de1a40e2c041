// --threads and --seed.
#ifndef FAVOR_CLI_CONTEXT_OPTIONS_H_
#define FAVOR_CLI_CONTEXT_OPTIONS_H_

#include <cstdint>

#include "cli/options.h"
#include "favor/context.h"

namespace favor::cli {

struct ContextArguments {
  int64_t threads = 0;  // 0: all cores
  int64_t seed = 0;

  void AddThreads(Options& options) {
    options
        .Integer("--threads", {1, Context::kMaxThreads}, threads,
                 "Number of threads; results do not depend on it")
        .Default("all cores");
  }
  void Add(Options& options) {
    AddThreads(options);
    options.Integer("--seed", {0, INT64_MAX}, seed, "Seed of every random draw");
  }

  Context Make() const {
    return Context({.threads = static_cast<int>(threads), .seed = static_cast<uint64_t>(seed)});
  }
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_CONTEXT_OPTIONS_H_
