// A run and its folder. What is committed is last.safetensors: everything else can be made again
// from it, or is cut back to it.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/access.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "core/progress.h"
#include "core/stopwatch.h"
#include "favor/train.h"
#include "io/atomic_file.h"
#include "io/folder_lock.h"
#include "io/input_file.h"
#include "models/checkpoint.h"
#include "train/run_data.h"
#include "train/run_log.h"
#include "train/start.h"

namespace favor {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Names of the files that a run writes.
std::vector<std::string_view> FilesOfARun() {
  std::vector<std::string_view> names = {models::kConfigName, models::kLastName, models::kBestName,
                                         models::kLogName, models::kReportName};
  for (const train::FormatFile& file : train::kFormatFiles) {
    if (!file.copy.empty()) names.push_back(file.copy);
  }
  return names;
}

// Throws if a run would overwrite what it reads: its folder must not be, or lie inside, its data.
void CheckApart(const RunConfig& config, const std::string& hint, const fs::path& folder) {
  std::error_code ignored;
  const fs::path out = fs::weakly_canonical(folder, ignored);
  const std::vector<std::string_view> own = FilesOfARun();
  std::vector<std::string> inputs = {config.data, hint};
  for (const train::FormatFile& file : train::kFormatFiles)
    inputs.push_back(config.format.*file.path);
  for (const std::string& input : inputs) {
    if (input.empty() || input.starts_with("task:")) continue;
    const fs::path path = fs::weakly_canonical(input, ignored);
    const bool around = fs::is_directory(path, ignored) &&
                        std::ranges::mismatch(path, out).in1 == path.end();  // out lies inside path
    const bool inside =
        path.parent_path() == out && std::ranges::find(own, path.filename().string()) != own.end();
    if (around || inside)
      Throw(ErrorCode::kInvalidOption, "train",
            "the run in '{}' would write into its own data '{}': choose another folder",
            Printable(folder.string()), Printable(input));
  }
}

// Removes what killed processes left in the folder of a run, which is locked.
void RemoveTemporaries(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored) && io::IsTemporary(entry.path().string()))
      fs::remove(entry.path(), ignored);
  }
}

// The results of evaluations so far; part of the checkpoint.
struct Progressed {
  double best_loss = std::numeric_limits<double>::infinity();
  int64_t best_step = 0, waited = 0;

  std::string ToJson() const {
    return Json{{"best_loss", std::isfinite(best_loss) ? Json(best_loss) : nullptr},
                {"best_step", best_step},
                {"waited", waited}}
        .dump();
  }
  static Progressed FromJson(const std::string& text) {
    const auto json = ParseJson(text);
    Progressed result;
    const auto number = [&](const char* key) {
      return json.is_object() && json.contains(key) && json[key].is_number_integer()
                 ? json[key].get<int64_t>()
                 : 0;
    };
    if (json.is_object() && json.contains("best_loss") && json["best_loss"].is_number())
      result.best_loss = json["best_loss"].get<double>();
    result.best_step = number("best_step");
    result.waited = number("waited");
    return result;
  }
};

class Run {
 public:
  Run(const RunConfig& config, const TrainOptions& options, const Context& context)
      : folder_(options.out),
        options_(options),
        trainer_(config, context, DataOf(config, options), options.pass_type) {
    CheckEvaluation();
    if (!config.init.empty() && !Exists(Path(models::kLastName))) StartFromInit(context);
  }

  TrainResult Go() {
    Open();
    // A run that starts from weights is evaluated before its first step, once.
    const bool evaluate_start = !trainer_.config().init.empty() && trainer_.step() == 0 &&
                                std::isinf(progressed_.best_loss);
    train::RunLog log((folder_ / models::kLogName).string(), trainer_.config().task,
                      evaluate_start ? -1 : trainer_.step());
    const TrainConfig& config = trainer_.config().training;
    if (continues_ && !options_.quiet && trainer_.step() < config.steps && !Stopped())
      Notice(fmt::format("train: continues at step {} of {}\n", trainer_.step(), config.steps));
    SayWhatIsDropped();
    const Stopwatch watch;
    Progress progress("train", config.steps, options_.quiet, trainer_.step());
    TrainResult result;
    if (evaluate_start) EvaluateStart(log);
    result.start = start_;
    const bool numbers = trainer_.config().task == Task::kRegress;
    double rate = 0;  // tokens per second over the last few steps
    while (trainer_.step() < config.steps && !Stopped()) {
      if (options_.stop && options_.stop()) {
        result.interrupted = true;
        if (trainer_.step() != saved_step_) Save(log);
        break;
      }
      const Stopwatch step_watch;
      const StepReport report = StepOrExplain();
      const double now = static_cast<double>(report.tokens) / step_watch.Seconds();
      rate = rate == 0 ? now : 0.9 * rate + 0.1 * now;
      result.loss = report.loss;
      log.Step(report, trainer_.tokens(), now);
      // Short sequences may have no masked tokens at all.
      const std::string score =
          std::isnan(report.loss) ? "no targets"
          : numbers               ? fmt::format("loss {:.3f}", report.loss)
                    : fmt::format("loss {:.3f}  accuracy {:.3f}", report.loss, report.accuracy);
      progress.Update(report.step, fmt::format("{}  {:.0f} tokens/s", score, rate));
      const bool last = report.step == config.steps;
      if (last || (config.eval_every > 0 && report.step % config.eval_every == 0))
        result.valid = EvaluateOrExplain(log);
      if (last || Stopped() || (config.save_every > 0 && report.step % config.save_every == 0) ||
          SavedLongAgo())
        Save(log);
    }
    result.task = trainer_.config().task;
    result.unit = trainer_.data().Unit();
    result.steps = trainer_.step();
    result.tokens = trainer_.tokens();
    result.seconds = watch.Seconds();
    result.stopped_early = result.steps < config.steps && !result.interrupted;
    result.best_loss = progressed_.best_loss;
    result.best_step = progressed_.best_step;
    return result;
  }

 private:
  std::string Path(std::string_view name) const { return (folder_ / name).string(); }

  // The data of a run that is resumed may have moved; null: the data as the config says.
  static std::shared_ptr<const Dataset> DataOf(const RunConfig& config,
                                               const TrainOptions& options) {
    const fs::path last = fs::path(options.out) / models::kLastName;
    if (!options.resume || !Exists(last)) return nullptr;
    const models::Checkpoint checkpoint(last.string());
    RunConfig stored = config;
    train::UseCopies(options.out, stored.format);
    return train::FindData(stored, options.out,
                           train::DataDescription::FromJson(ParseJson(checkpoint.info().state)),
                           options.data);
  }

  // Takes over the weights of the config's `init`, before the folder exists.
  void StartFromInit(const Context& context) {
    const train::StartingPoint point = train::OpenStart(trainer_.config().init);
    train::CheckData(point, trainer_.config(), trainer_.data());
    const auto other =
        internal::Access::Make<Model>(point.checkpoint->MakeNetwork(trainer_.model().placement()));
    start_ = {.report = trainer_.StartFrom(
                  other, train::SameOutputs(point, trainer_.config(), trainer_.data()))};
    const ModelConfig &own = other.config(), &here = trainer_.config().model;
    const int64_t length = trainer_.config().training.length;
    const bool same_task = own.causal == here.causal && own.classes == here.classes &&
                           trainer_.config().format.labels.empty();
    if (same_task && (own.positions != Positions::kLearned || own.max_length >= length))
      start_->own = EvaluateOther(other, context);
  }

  // The batches that Trainer::Evaluate reads.
  Score EvaluateOther(const Model& model, const Context& context) const {
    const TrainConfig& config = trainer_.config().training;
    const Dataset& data = trainer_.data();
    const int64_t all = data.Batches(Split::kValid, config.batch, config.length);
    Score score;
    for (int64_t i = 0; i < (config.eval_batches == 0 ? all : std::min(all, config.eval_batches));
         ++i) {
      score += model.Evaluate(
          data.EvalBatch(Split::kValid,
                         {.index = i, .batch = config.batch, .length = config.length}),
          context);
    }
    return score;
  }

  void EvaluateStart(train::RunLog& log) {
    const Score score = EvaluateOrExplain(log);
    Save(log);
    if (!start_) return;  // another process began the run
    start_->valid = score;
    if (options_.quiet) return;
    const auto names = [](const char* what, const std::vector<std::string>& list) {
      constexpr size_t kShown = 4;
      if (list.empty()) return std::string();
      return fmt::format(
          "; {}: {}{}", what,
          fmt::join(list.begin(),
                    list.begin() + static_cast<std::ptrdiff_t>(std::min(list.size(), kShown)),
                    ", "),
          list.size() > kShown ? fmt::format(" and {} more", list.size() - kShown) : "");
    };
    Notice(fmt::format(
        "train: starts from '{}'{}, here with loss {:.4f}{}{}\n", Printable(trainer_.config().init),
        start_->own ? fmt::format(", whose loss is {:.4f}", start_->own->MeanLoss()) : "",
        score.MeanLoss(), names("drawn anew", start_->report.drawn),
        names("left out", start_->report.unused)));
  }

  // Layout clip never shows what lies beyond the length: the user should know.
  void SayWhatIsDropped() const {
    const RunConfig& config = trainer_.config();
    if (options_.quiet || config.format.kind != DataKind::kFasta ||
        config.format.layout != Layout::kClip)
      return;
    const double dropped =
        trainer_.data().Summary(Split::kTrain).ShareBeyond(config.training.length);
    if (!(dropped > 0)) return;
    Notice(fmt::format(
        "train: records are clipped at {} {}s, which leaves out {:.1f} % of the train split{}\n",
        config.training.length, trainer_.data().Unit(), 100 * dropped,
        config.format.labels.empty() ? " (--layout crop or join uses all)" : ""));
  }

  // An evaluation without targets would end the run, so it is refused at the start.
  void CheckEvaluation() const {
    const TrainConfig& config = trainer_.config().training;
    const int64_t all = trainer_.data().Batches(Split::kValid, config.batch, config.length);
    const int64_t batches = config.eval_batches == 0 ? all : std::min(all, config.eval_batches);
    for (int64_t i = 0; i < batches; ++i) {
      const Batch batch = trainer_.data().EvalBatch(
          Split::kValid, {.index = i, .batch = config.batch, .length = config.length});
      if (CountTargets(batch) > 0) return;
    }
    Throw(ErrorCode::kInvalidData, Printable(trainer_.config().data),
          "the valid split has no targets: {} batches of {} × {} tokens", batches, config.batch,
          config.length);
  }

  void Open() {
    if (Exists(Path(models::kLastName))) {
      progressed_ = Progressed::FromJson(trainer_.Load(Path(models::kLastName)));
      saved_step_ = trainer_.step();
      continues_ = true;
      if (!Exists(Path(models::kConfigName)))
        io::WriteFileAtomically(Path(models::kConfigName), ToJson(trainer_.config()));
      return;
    }
    for (const train::FormatFile& file : train::kFormatFiles) {
      const std::string& path = trainer_.config().format.*file.path;
      if (!file.copy.empty() && !path.empty())
        io::WriteFileAtomically(Path(file.copy), io::ReadRegularFile(path));
    }
    io::WriteFileAtomically(Path(models::kConfigName), ToJson(trainer_.config()));
    SaveLast();
  }

  // Adds to errors about non-finite numbers which checkpoint is left.
  template <class Work>
  auto OrExplain(const Work& work) {
    try {
      return work();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidData) throw;
      throw Error(error.code(), Printable(Path(models::kLastName)),
                  fmt::format("kept as it was before: {}", error.what()));
    }
  }

  StepReport StepOrExplain() {
    return OrExplain([&] { return trainer_.Step(); });
  }
  Score EvaluateOrExplain(train::RunLog& log) {
    return OrExplain([&] { return Evaluate(log); });
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

  bool SavedLongAgo() const {
    return options_.save_minutes > 0 && since_save_.Seconds() >= 60 * options_.save_minutes;
  }

  void Save(train::RunLog& log) {
    log.Sync();
    SaveLast();
  }
  void SaveLast() {
    trainer_.Save(Path(models::kLastName), progressed_.ToJson());
    saved_step_ = trainer_.step();
    since_save_ = Stopwatch();
  }

  fs::path folder_;
  TrainOptions options_;
  Trainer trainer_;
  std::optional<Start> start_;  // of a run with an `init`, in the process that began it
  Progressed progressed_;
  int64_t saved_step_ = 0;  // step of last.safetensors
  Stopwatch since_save_;
  bool continues_ = false;  // whether the run resumed from a checkpoint
};

}  // namespace

std::optional<RunConfig> FindRun(const std::string& folder) {
  const fs::path config_file = fs::path(folder) / models::kConfigName,
                 last = fs::path(folder) / models::kLastName;
  RunConfig config;
  if (Exists(config_file)) {
    const std::string name = config_file.string();
    try {
      ReadRunConfig(io::OpenRegularFile(name).ReadRest(models::kMaxConfigBytes), name, config);
    } catch (const Error& error) {  // a file that favor wrote is data, not an option
      throw Error(ErrorCode::kInvalidData, "damaged config", error.what());
    }
    return config;
  }
  if (!Exists(last)) return std::nullopt;
  ReadRunConfig(models::Checkpoint(last.string()).info().config, last.string(), config);
  return config;
}

TrainResult Train(const RunConfig& config, const TrainOptions& options, const Context& context) {
  if (options.out.empty())
    Throw(ErrorCode::kInvalidOption, "train", "given no folder, expected one for the run");
  if (!(options.save_minutes >= 0) || !std::isfinite(options.save_minutes)) {
    Throw(ErrorCode::kInvalidOption, "save_minutes", "given {}, expected a number, 0 or more",
          options.save_minutes);
  }
  train::CheckDataGiven(config);
  const fs::path folder(options.out);
  CheckApart(config, options.data, folder);
  const auto check_folder = [&] {
    const bool last = Exists(folder / models::kLastName);
    for (const std::string_view name : FilesOfARun()) {
      if (!options.resume && Exists(folder / name)) {
        Throw(ErrorCode::kInvalidOption, "train",
              "the folder '{}' holds a run already ({}): resume it (--resume), or choose another",
              Printable(options.out), name);
      }
    }
    // A run writes its first checkpoint before everything else except its config.
    if (options.resume && !last && Exists(folder / models::kBestName)) {
      Throw(ErrorCode::kInvalidData, Printable(options.out),
            "has {} but no {}: the run cannot be continued", models::kBestName, models::kLastName);
    }
  };
  check_folder();
  // Everything that can be refused is refused before the folder exists.
  Run run(config, options, context);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) Throw(ErrorCode::kIo, Printable(options.out), "cannot be made: {}", error.message());
  const io::FolderLock lock((folder / models::kLastName).string(), io::FolderLock::IfTaken::kThrow);
  check_folder();  // again: another process may have been faster
  RemoveTemporaries(folder);
  return run.Go();
}

}  // namespace favor
