// A run and its folder. What is committed is last.safetensors: everything else can be made again
// from it, or is cut back to it.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error_text.h"
#include "core/progress.h"
#include "favor/train.h"
#include "io/atomic_file.h"
#include "io/folder_lock.h"
#include "io/input_file.h"
#include "models/checkpoint.h"
#include "train/run_log.h"

namespace favor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// What killed processes left; nobody else writes here while the folder is locked.
void RemoveTemporaries(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (io::IsTemporary(entry.path().string())) fs::remove(entry.path(), ignored);
  }
}

// How evaluations went so far; part of the checkpoint.
struct Progressed {
  double best_loss = std::numeric_limits<double>::infinity();
  int64_t best_step = 0, waited = 0;

  std::string ToJson() const {
    return nlohmann::ordered_json{
        {"best_loss", std::isfinite(best_loss) ? nlohmann::ordered_json(best_loss) : nullptr},
        {"best_step", best_step},
        {"waited", waited}}
        .dump();
  }
  static Progressed FromJson(const std::string& text) {
    const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    Progressed result;
    if (!json.is_object()) return result;
    if (json.contains("best_loss") && json["best_loss"].is_number())
      result.best_loss = json["best_loss"].get<double>();
    result.best_step = json.value("best_step", int64_t{0});
    result.waited = json.value("waited", int64_t{0});
    return result;
  }
};

class Run {
 public:
  Run(const RunConfig& config, const TrainOptions& options, const Context& context)
      : folder_(options.out), options_(options), trainer_(config, context) {}

  TrainResult Go() {
    Open();
    train::RunLog log((folder_ / models::kLogName).string(), trainer_.step());
    const TrainConfig& config = trainer_.config().training;
    const auto start = Clock::now();
    Progress progress("train", config.steps, options_.quiet, trainer_.step());
    TrainResult result;
    double rate = 0;  // tokens a second, of the last few steps
    while (trainer_.step() < config.steps && !Stopped()) {
      const auto step_start = Clock::now();
      const StepReport report = StepOrExplain();
      const double now = static_cast<double>(report.tokens) / SecondsSince(step_start);
      rate = rate == 0 ? now : 0.9 * rate + 0.1 * now;
      result.loss = report.loss;
      log.Step(report, trainer_.tokens(), now);
      progress.Update(report.step, fmt::format("loss {:.3f}  accuracy {:.3f}  {:.0f} tokens/s",
                                               report.loss, report.accuracy, rate));
      const bool last = report.step == config.steps;
      if (last || (config.eval_every > 0 && report.step % config.eval_every == 0))
        result.valid = Evaluate(log);
      if (last || Stopped() || (config.save_every > 0 && report.step % config.save_every == 0)) {
        log.Sync();
        SaveLast();
      }
    }
    result.steps = trainer_.step();
    result.tokens = trainer_.tokens();
    result.seconds = SecondsSince(start);
    result.stopped_early = result.steps < config.steps;
    result.best_loss = progressed_.best_loss;
    result.best_step = progressed_.best_step;
    return result;
  }

 private:
  std::string Path(std::string_view name) const { return (folder_ / name).string(); }

  void Open() {
    if (Exists(Path(models::kLastName))) {
      progressed_ = Progressed::FromJson(trainer_.Load(Path(models::kLastName)));
      return;
    }
    io::WriteFileAtomically(Path(models::kConfigName), ToJson(trainer_.config()));
    SaveLast();
  }

  StepReport StepOrExplain() {
    try {
      return trainer_.Step();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidData) throw;
      throw Error(error.code(), "train",
                  fmt::format("{}; the last good checkpoint is {}",
                              std::string_view(error.what()).substr(7),
                              Printable(Path(models::kLastName))));
    }
  }

  bool Stopped() const {
    const int64_t patience = trainer_.config().training.patience;
    return patience > 0 && progressed_.waited >= patience;
  }

  Score Evaluate(train::RunLog& log) {
    const Score score = trainer_.Evaluate(Split::kValid, trainer_.config().training.eval_batches);
    log.Evaluation(trainer_.step(), Split::kValid, score);
    if (score.MeanLoss() < progressed_.best_loss) {
      progressed_ = {.best_loss = score.MeanLoss(), .best_step = trainer_.step(), .waited = 0};
      trainer_.SaveModel(Path(models::kBestName));
    } else {
      ++progressed_.waited;
    }
    return score;
  }

  void SaveLast() { trainer_.Save(Path(models::kLastName), progressed_.ToJson()); }

  fs::path folder_;
  TrainOptions options_;
  Trainer trainer_;
  Progressed progressed_;
};

}  // namespace

std::optional<RunConfig> FindRun(const std::string& folder) {
  const fs::path path = fs::path(folder) / models::kConfigName;
  if (!Exists(path)) return std::nullopt;
  RunConfig config;
  ReadRunConfig(io::InputFile(path.string()).ReadRest(), path.string(), config);
  return config;
}

TrainResult Train(const RunConfig& config, const TrainOptions& options, const Context& context) {
  if (options.out.empty())
    Throw(ErrorCode::kInvalidOption, "train", "given no folder, expected one for the run");
  const fs::path folder(options.out);
  if (!options.resume &&
      (Exists(folder / models::kConfigName) || Exists(folder / models::kLastName))) {
    Throw(ErrorCode::kInvalidOption, "train",
          "the folder '{}' holds a run already: resume it, or choose another",
          Printable(options.out));
  }
  // Everything that can be refused is refused before the folder exists.
  Run run(config, options, context);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) Throw(ErrorCode::kIo, Printable(options.out), "cannot be made: {}", error.message());
  const io::FolderLock lock((folder / models::kLastName).string(), io::FolderLock::IfTaken::kThrow);
  RemoveTemporaries(folder);
  return run.Go();
}

}  // namespace favor
