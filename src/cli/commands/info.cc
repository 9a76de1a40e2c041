// favor info [--json]
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/files.h"
#include "core/device.h"
#include "core/json.h"
#include "core/shared_library.h"
#include "core/simd.h"
#include "data/generated.h"
#include "experiments/experiment.h"
#include "favor/context.h"
#include "favor/error.h"
#include "favor/features.h"
#include "favor/model.h"
#include "favor/version.h"
#include "reports/table.h"

namespace favor::cli {
namespace {

Json Describe() {
  Json info = {{"version", FAVOR_VERSION},
               {"isa", SimdName()},
               {"simd", SimdNames()},
               {"threads", Context().threads()},
               {"memory_bytes", PhysicalMemoryBytes()},
               {"cuda", BuiltWithCuda()},
               {"gpus", Json::array()},
               {"gpu_libraries", Json::array()},
               {"maps", Json::array()},
               {"projections", Json::array()},
               {"tasks", Json::array()},
               {"presets", PresetNames()},
               {"experiments", Json::array()}};
  for (const GpuInfo& gpu : ListGpus()) {
    info["gpus"].push_back({{"name", gpu.name},
                            {"memory_bytes", gpu.memory_bytes},
                            {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)}});
  }
  if (BuiltWithCuda()) {
    for (const auto open : {CublasLt, Cudnn}) {
      try {
        info["gpu_libraries"].push_back({{"file", open().name()}});
      } catch (const Error& error) {
        info["gpu_libraries"].push_back({{"file", nullptr}, {"error", error.what()}});
      }
    }
  }
  for (const FeatureMapInfo& map : Maps()) {
    info["maps"].push_back(
        {{"name", map.name},
         {"formula", map.formula},
         {"kernel", Name(map.kernel)},
         {"nonnegative", map.nonnegative},
         {"parts", map.parts},
         {"default_epsilon", map.default_epsilon ? Json(*map.default_epsilon) : Json()}});
  }
  for (const ProjectionInfo& projection : Projections()) {
    info["projections"].push_back(
        {{"name", projection.name}, {"summary", projection.summary}, {"cost", projection.cost}});
  }
  for (const data::GeneratedTask& task : data::GeneratedTasks()) {
    Json parameters = Json::array();
    for (const data::TaskParameter& parameter : task.parameters) {
      parameters.push_back(
          {{"key", parameter.key}, {"help", parameter.help}, {"default", parameter.standard}});
    }
    info["tasks"].push_back({{"name", task.name},
                             {"task", Name(task.task)},
                             {"summary", task.summary},
                             {"parameters", parameters}});
  }
  for (const experiments::Experiment& experiment : experiments::AllExperiments()) {
    info["experiments"].push_back({{"name", experiment.name}, {"summary", experiment.summary}});
  }
  return info;
}

void Print(const Json& info) {
  fmt::print("favor {}\n", info["version"].get<std::string>());
  fmt::print("cpu     {}, {} threads, {:.1f} GiB memory\n", info["isa"].get<std::string>(),
             info["threads"].get<int>(), info["memory_bytes"].get<double>() / (1 << 30));
  if (info["gpus"].empty()) {
    fmt::print("gpu     none ({})\n",
               info["cuda"].get<bool>() ? "no CUDA device found" : "built without CUDA");
  }
  for (const auto& gpu : info["gpus"]) {
    fmt::print("gpu     {}, {:.1f} GiB, compute capability {}\n", gpu["name"].get<std::string>(),
               gpu["memory_bytes"].get<double>() / (1 << 30),
               gpu["compute_capability"].get<std::string>());
  }
  for (const auto& library : info["gpu_libraries"]) {
    fmt::print("library {}\n", library["file"].is_null()
                                   ? library["error"].get<std::string>()
                                   : library["file"].get<std::string>() + ": found");
  }
  reports::Table maps{.title = "\nfeature maps (u = ω·x; φ carries 1/√m)",
                      .caption = "",
                      .columns = {"name", "kernel", "sign", "formula"},
                      .rows = {}};
  for (const auto& map : info["maps"]) {
    maps.rows.push_back({map["name"], map["kernel"],
                         map["nonnegative"].get<bool>() ? "≥ 0" : "signed", map["formula"]});
  }
  reports::Table projections{.title = "\nprojections",
                             .caption = "",
                             .columns = {"name", "cost per row", "summary"},
                             .rows = {}};
  for (const auto& projection : info["projections"]) {
    projections.rows.push_back({projection["name"], projection["cost"], projection["summary"]});
  }
  reports::Table tasks{.title = "\ngenerated tasks (favor train --data task:NAME,key=value,…)",
                       .caption = "",
                       .columns = {"name", "--task", "summary", "parameters"},
                       .rows = {}};
  for (const auto& task : info["tasks"]) {
    std::string parameters;
    for (const auto& parameter : task["parameters"])
      parameters +=
          fmt::format("{}{}={}", parameters.empty() ? "" : " ", parameter["key"].get<std::string>(),
                      parameter["default"].get<int64_t>());
    tasks.rows.push_back({task["name"], task["task"], task["summary"], parameters});
  }
  reports::Table experiments{.title = "\nexperiments (favor lab NAME)",
                             .caption = "",
                             .columns = {"name", "summary"},
                             .rows = {}};
  for (const auto& experiment : info["experiments"]) {
    experiments.rows.push_back({experiment["name"], experiment["summary"]});
  }
  fmt::print("{}{}{}{}", maps.ToText(), projections.ToText(), tasks.ToText(), experiments.ToText());
}

struct Arguments {
  bool json = false;
};

void Declare(Options& options, Arguments& a) { options.Flag("--json", a.json, "Print JSON"); }

void Run(const Arguments& a) {
  const Json info = Describe();
  if (a.json) return PrintJson(info);
  Print(info);
}

}  // namespace

Command InfoCommand() {
  return {.name = "info",
          .summary = "Show version, machine, and every map, projection, task and experiment",
          .example = "favor info --json | jq '.maps[].name'",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
