// favor train: learns a model from data; a run that was stopped continues where it was.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/run_config_options.h"
#include "cli/stop_signals.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "favor/train.h"
#include "io/atomic_file.h"
#include "models/checkpoint.h"
#include "reports/run_report.h"
#include "train/run_folder.h"

namespace favor::cli {
namespace {

struct Arguments {
  RunConfigOptions run;
  std::string out;
  double save_minutes = TrainOptions().save_minutes;
  bool resume = false, no_report = false, quiet = false, json = false;
  ContextArguments context;
};

Json ToJson(const TrainResult& result) {
  Json json = {{"steps", result.steps},
               {"tokens", result.tokens},
               {"loss", result.loss ? Json(*result.loss) : nullptr},
               {"seconds", result.seconds},
               {"stopped_early", result.stopped_early},
               {"interrupted", result.interrupted},
               {"best_loss", result.best_loss},
               {"best_step", result.best_step}};
  if (result.start) {
    json["start"] = {
        {"loss", result.start->valid.MeanLoss()},
        {"own_loss", result.start->own ? Json(result.start->own->MeanLoss()) : nullptr},
        {"drawn", result.start->report.drawn},
        {"unused", result.start->report.unused},
        {"same_omega", result.start->report.same_omega}};
  }
  if (result.valid) {
    json["valid"] = {{"loss", result.valid->MeanLoss()}};
    if (result.task != Task::kRegress) json["valid"]["accuracy"] = result.valid->Accuracy();
    if (!HasLabels(result.task)) {
      json["valid"]["perplexity"] = result.valid->Perplexity();
      json["valid"]["bits_per_token"] = result.valid->BitsPerToken();
    }
  }
  return json;
}

// A report that fails is a warning: the run itself is complete. It is made on the device of the
// run, in f32.
void WriteReport(const Arguments& a) {
  ContextArguments run;
  run.threads = a.context.threads;
  run.device = a.context.device;
  try {
    const Context context = run.Make();
    Json results = Json::object();
    const reports::Report report = reports::MakeRunReport(
        {.folders = {a.out},
         .placement = run.ModelPlacement(),
         .command = "favor report " + Quoted(a.out) + run.PlacementWords(),
         .repeat = CommandOf(train::ReadRunFolder(a.out).config, a.out) + "\n",
         .quiet = a.quiet},
        context, results);
    io::WriteFileAtomically((std::filesystem::path(a.out) / models::kReportName).string(),
                            report.ToHtml());
    if (report.plots_missing()) Warn("report", "gnuplot is not installed or failed, no plots");
  } catch (const Error& error) {
    Warn("report", "{}", error.what());
  }
}

void Print(const TrainResult& result, const Arguments& a) {
  if (a.json) return PrintJson(ToJson(result));
  if (!result.loss) {  // no step was left to do
    fmt::print("the run in '{}' is complete: {} steps, best loss {:.4f} at step {}\n",
               Printable(a.out), result.steps, result.best_loss, result.best_step);
    return;
  }
  fmt::print("{} steps, {} tokens, {:.1f} s{}\n", result.steps, result.tokens, result.seconds,
             result.stopped_early ? " (stopped early)" : "");
  if (result.start) {
    fmt::print("start: loss {:.4f}{}\n", result.start->valid.MeanLoss(),
               result.start->own ? fmt::format(" ({:.4f} in the model that it starts from)",
                                               result.start->own->MeanLoss())
                                 : "");
  }
  if (result.valid) {
    fmt::print("valid: loss {:.4f}", result.valid->MeanLoss());
    if (result.task != Task::kRegress) fmt::print(", accuracy {:.4f}", result.valid->Accuracy());
    if (!HasLabels(result.task)) {
      fmt::print(", perplexity {:.3f}, {:.4f} bits per {}", result.valid->Perplexity(),
                 result.valid->BitsPerToken(), result.unit);
    }
    fmt::print("\n");
    fmt::print("best: loss {:.4f} at step {}\n", result.best_loss, result.best_step);
  }
  fmt::print("run: {}{}\n", Printable(a.out), a.no_report ? "" : " (report.html)");
}

// Says in one line on stderr how to continue. A run that is complete gets its report when resumed.
[[noreturn]] void Stop(int signal, const TrainResult& result, int64_t steps, const Arguments& a) {
  if (a.json) PrintJson(ToJson(result));
  Notice(
      fmt::format("train: stopped at step {} of {}, continue with: favor train --out {} --resume\n",
                  result.steps, steps, Printable(Quoted(a.out))));
  throw StoppedBySignal{signal};
}

void SayIfSlow(const ModelConfig& model, const Arguments& a) {
  if (a.quiet || a.context.ModelPlacement().pass_type != DataType::kBF16 ||
      model.features.omega_type == OmegaType::kBF16 || model.attention != "linear" ||
      !FindMap(model.features.map).has_omega)
    return;
  Notice(
      "train: omega is f32, which the fast kernels of a GPU do not take (new runs draw it in "
      "bf16)\n");
}

void Run(const Arguments& a) {
  std::optional<RunConfig> stored;
  if (a.resume) stored = FindRun(a.out);
  const RunConfig config =
      stored ? a.run.Agreeing(*stored, a.out) : a.run.Fresh(a.context.ModelOmega());
  if (config.data.empty()) {
    Throw(ErrorCode::kInvalidOption, "train: --data",
          "given nothing, expected a file or a task such as task:copy{}",
          a.resume ? fmt::format(" ('{}' holds no run to resume)", Printable(a.out)) : "");
  }
  const Context context = a.context.Make();
  SayIfSlow(config.model, a);
  // Before the first step there is nothing to keep: until then a signal ends the process as usual.
  std::optional<StopSignals> signals;
  const TrainResult result = Train(config,
                                   {.out = a.out,
                                    .resume = a.resume,
                                    .data = stored ? a.run.DataHint(*stored) : "",
                                    .quiet = a.quiet,
                                    .pass_type = a.context.ModelPlacement().pass_type,
                                    .save_minutes = a.save_minutes,
                                    .stop =
                                        [&] {
                                          if (!signals) signals.emplace();
                                          return StopSignals::Received() != 0;
                                        }},
                                   context);
  signals.reset();
  if (const int signal = StopSignals::Received(); signal != 0)
    Stop(signal, result, config.training.steps, a);
  Print(result, a);
  std::error_code ignored;
  const bool done =
      !result.loss &&
      std::filesystem::exists(std::filesystem::path(a.out) / models::kReportName, ignored);
  if (!a.no_report && !done) WriteReport(a);
}

void Declare(Options& options, Arguments& a) {
  options
      .Path("--out", "DIR", a.out,
            "Folder of the run: config.json, log.jsonl, last.safetensors, "
            "best.safetensors, report.html")
      .Required();
  options.Flag("--resume", a.resume,
               "Continue the run in --out, bit for bit; start one if there is none");
  options.Number(
      "--save-minutes", a.save_minutes,
      "Save at least every so many minutes, in addition to --save-every; 0: never by time");
  options.Flag("--no-report", a.no_report, "Do not write report.html at the end");
  a.run.Add(options);
  a.context.AddThreads(options);
  a.context.AddPlacement(options, DataType::kBF16);
  options.Flag("--quiet", a.quiet, "No progress on stderr");
  options.Flag("--json", a.json, "Print the result as JSON");
}

}  // namespace

Command TrainCommand() {
  return {.name = "train",
          .summary = "Learn a model from data",
          .example =
              "favor train --data book.txt --task causal --preset tiny --steps 2000 "
              "--out run\n  favor train --out run --resume",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
