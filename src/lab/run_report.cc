#include "lab/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/error_text.h"
#include "core/json.h"
#include "core/progress.h"
#include "favor/generate.h"
#include "favor/random.h"
#include "io/atomic_file.h"
#include "lab/data_statistics.h"
#include "lab/measure.h"
#include "lab/run_folder.h"
#include "models/checkpoint.h"

namespace favor::lab {
namespace {

// One run with its model, opened once for the whole report.
struct Subject {
  RunFolder run;
  TrainedModel trained;
  std::shared_ptr<const Dataset> data;  // shared by runs on the same data
  Score score;
  Split split = Split::kTest;
  std::vector<std::pair<int64_t, double>> microseconds;  // a token, by length
};

// What tells data apart: runs that agree are measured with the same baselines.
std::string DataKey(const RunConfig& config) {
  Json key = Json::parse(ToJson(config));
  return key["data"].dump() + key["task"].dump() + key["format"].dump() +
         std::to_string(config.training.length) +
         (config.data.starts_with("task:") ? std::to_string(config.training.seed) : "");
}

Score EvaluateSome(Subject& subject, int64_t targets, const Context& context) {
  const TrainConfig& training = subject.run.config.training;
  Score score;
  const int64_t batches = subject.data->Batches(subject.split, training.batch, training.length);
  for (int64_t i = 0; i < batches && score.count < targets; ++i) {
    score += subject.trained.model.Evaluate(
        subject.data->EvalBatch(subject.split,
                                {.index = i, .batch = training.batch, .length = training.length}),
        context);
  }
  return score;
}

double MicrosecondsOfToken(const Model& model, int64_t length, const Context& context) {
  Batch batch{.batch = 1, .length = length};
  const RandomStream stream(0, "tokens of a report");
  for (int64_t i = 0; i < length; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(stream.Uniform(static_cast<uint64_t>(i)) *
                                                static_cast<double>(model.config().vocab)));
  }
  batch.targets.assign(static_cast<size_t>(model.config().classes > 0 ? 1 : length), 0);
  const auto pass = [&] { model.Evaluate(batch, context); };
  pass();
  return 1e6 * LeastSeconds(2, pass) / static_cast<double>(length);
}

std::string Percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::vector<std::string> ScoreCells(const Score& score) {
  return {fmt::format("{:.4f}", score.MeanLoss()), Percent(score.Accuracy()),
          fmt::format("{:.3f}", score.Perplexity()), fmt::format("{:.4f}", score.BitsPerToken())};
}

Json ScoreJson(const Score& score) {
  return {{"targets", score.count},
          {"loss", score.MeanLoss()},
          {"accuracy", score.Accuracy()},
          {"perplexity", score.Perplexity()},
          {"bits_per_token", score.BitsPerToken()}};
}

class Page {
 public:
  Page(const RunReportOptions& options, const Context& context, Json& results)
      : options_(options),
        context_(context),
        results_(results),
        progress_("report", static_cast<int64_t>(options.folders.size()) + 1, options.quiet),
        report_(Title(), options.command) {}

  Report Make() {
    Open();
    Introduce();
    Results();
    Curves();
    Speed();
    Samples();
    Data();
    Configuration();
    return std::move(report_);
  }

 private:
  std::string Title() const {
    if (options_.folders.size() > 1) return "favor: runs beside each other";
    return "favor: " + RunFolder{.path = options_.folders.at(0)}.Name();
  }

  void Open() {
    for (const std::string& folder : options_.folders) {
      RunFolder run = ReadRunFolder(folder);
      TrainedModel trained = LoadTrained(folder);
      std::shared_ptr<const Dataset> data;
      for (const Subject& other : subjects_) {
        if (DataKey(other.run.config) == DataKey(run.config)) data = other.data;
      }
      if (data == nullptr) data = OpenData(trained.config);  // with its own copy of a tokenizer
      subjects_.push_back({std::move(run), std::move(trained), data});
      Subject& subject = subjects_.back();
      const TrainConfig& training = subject.run.config.training;
      if (data->Batches(Split::kTest, training.batch, training.length) == 0)
        subject.split = Split::kValid;
      subject.score = EvaluateSome(subject, options_.evaluate, context_);
      const ModelConfig& model = subject.trained.config.model;
      for (const int64_t length : options_.lengths) {
        if (model.positions == "learned" && length > model.max_length) continue;
        subject.microseconds.emplace_back(
            length, MicrosecondsOfToken(subject.trained.model, length, context_));
      }
      progress_.Update(std::ssize(subjects_), subject.run.Name());
    }
    same_data_ = std::ranges::all_of(subjects_,
                                     [&](const Subject& s) { return s.data == subjects_[0].data; });
    const TrainConfig& training = subjects_[0].run.config.training;
    statistics_ =
        GatherStatistics(*subjects_[0].data, BaselineOptions{.task = subjects_[0].run.config.task,
                                                             .length = training.length,
                                                             .split = subjects_[0].split,
                                                             .most_tokens = options_.count,
                                                             .eval_tokens = options_.evaluate});
    progress_.Update(std::ssize(subjects_) + 1, "baselines");
  }

  void Introduce() {
    for (const Subject& subject : subjects_) {
      const RunConfig& config = subject.run.config;
      const ModelConfig& model = config.model;
      const int64_t tokens = subject.run.steps.empty() ? 0 : subject.run.steps.back().tokens;
      report_.AddText(fmt::format(
          "{}: {} with {}, {} layers of width {}, {:.3g} million parameters, trained for {} steps "
          "on {:.3g} million tokens of {} ({}).",
          subject.run.Name(),
          model.classes > 0 ? "a classifier"
          : model.causal    ? "a decoder"
                            : "an encoder",
          subject.run.Attention(), model.layers, model.width,
          static_cast<double>(subject.trained.model.ParameterCount()) / 1e6,
          subject.run.steps.empty() ? 0 : subject.run.steps.back().step,
          static_cast<double>(tokens) / 1e6, Printable(config.data), config.task));
      if (subject.run.unread_lines > 0) {
        report_.AddText(fmt::format("{} lines of {}'s log are damaged and were left out.",
                                    subject.run.unread_lines, subject.run.Name()));
      }
      if (!subject.trained.fingerprint.empty() &&
          subject.data->Fingerprint() != subject.trained.fingerprint) {
        report_.AddText(fmt::format(
            "Beware: {} has changed since {} was trained; what was held out may have been learned "
            "from.",
            Printable(config.data), subject.run.Name()));
      }
    }
  }

  std::string Unit() const { return same_data_ ? statistics_.unit : "token"; }
  bool Words() const {
    return std::ranges::all_of(subjects_, [](const Subject& s) {
      return s.run.config.task == "causal" && s.data->Summary(s.split).words > 0;
    });
  }

  void Results() {
    Table table{.title = "How well the next token is predicted",
                .caption = fmt::format(
                    "The {} split: {} targets. Models are those of the best checkpoint. The "
                    "simple models below answer the same questions from frequencies alone.",
                    Name(subjects_[0].split), subjects_[0].score.count),
                .columns = {"model", "nats", "accuracy", "perplexity", "bits a " + Unit()}};
    if (subjects_[0].run.config.task == "masked")
      table.title = "How well masked tokens are predicted";
    if (subjects_[0].run.config.task == "classify")
      table.title = "How well sequences are classified";
    // Per word and character of the original text: these compare across vocabularies.
    const bool words = Words();
    if (words) {
      table.columns.push_back("perplexity of words");
      table.columns.push_back("bits a character");
    }
    const auto add_words = [&](const Score& score, const SplitSummary& summary,
                               std::vector<std::string>& row) {
      if (!words) return;
      row.push_back(fmt::format("{:.4g}", std::exp(score.MeanLoss() * summary.TokensPerWord())));
      row.push_back(fmt::format("{:.4f}", score.BitsPerToken() * summary.TokensPerCharacter()));
    };
    results_["runs"] = Json::array();
    for (const Subject& subject : subjects_) {
      std::vector<std::string> row = ScoreCells(subject.score);
      row.insert(row.begin(), subject.run.Name() + ": " + subject.run.Attention());
      add_words(subject.score, subject.data->Summary(subject.split), row);
      table.rows.push_back(row);
      results_["runs"].push_back({{"folder", subject.run.path},
                                  {"attention", subject.run.Attention()},
                                  {"split", Name(subject.split)},
                                  {"score", ScoreJson(subject.score)},
                                  {"tokens_per_second", subject.run.TokensPerSecond()},
                                  {"training_seconds", subject.run.Seconds()}});
      for (const auto& [length, time] : subject.microseconds)
        results_["runs"].back()["microseconds_per_token"][std::to_string(length)] = time;
    }
    if (same_data_ && statistics_.baselines) {
      for (const Baseline& baseline : statistics_.baselines->baselines) {
        std::vector<std::string> row = ScoreCells(baseline.score);
        row.insert(row.begin(), baseline.name);
        add_words(baseline.score, subjects_[0].data->Summary(subjects_[0].split), row);
        table.rows.push_back(row);
        results_["baselines"][baseline.name] = ScoreJson(baseline.score);
      }
    } else if (!same_data_) {
      table.caption =
          "These runs had different data or vocabularies: losses, accuracies and perplexities of "
          "tokens do not compare, and there are no simple models beside them.";
      report_.AddWarning(
          "the runs had different data or vocabularies: figures of tokens do not compare");
    }
    report_.AddTable(table);
  }

  void Curves() {
    const auto plot = [&](const std::string& title, const std::string& label,
                          double LogPoint::*value) {
      Plot curves{.title = title,
                  .caption =
                      "Lines: the valid split. Dots: training, the mean of some steps, without the "
                      "first tenth.",
                  .x_label = "step",
                  .y_label = label};
      int color = 0;
      for (const Subject& subject : subjects_) {
        Series line{.name = subject.run.Name(), .color = color};
        for (const LogPoint& point : subject.run.evaluations)
          line.points.emplace_back(static_cast<double>(point.step), point.*value);
        Series dots{.name = "", .color = color, .markers = true};
        // About forty dots: each the mean of the steps since the one before.
        const auto& steps = subject.run.steps;
        const size_t together = std::max<size_t>(1, steps.size() / 40);
        for (size_t first = steps.size() / 10; first + together <= steps.size();
             first += together) {
          double sum = 0;
          for (size_t i = first; i < first + together; ++i) sum += steps[i].*value;
          dots.points.emplace_back(static_cast<double>(steps[first + together - 1].step),
                                   sum / static_cast<double>(together));
        }
        if (!line.points.empty()) curves.series.push_back(line);
        if (!dots.points.empty()) curves.series.push_back(dots);
        ++color;
      }
      if (!curves.series.empty()) report_.AddPlot(curves);
    };
    report_.AddHeading("Learning");
    plot("Loss", "nats a target", &LogPoint::loss);
    plot("Accuracy", "share of targets", &LogPoint::accuracy);
  }

  void Speed() {
    Table table{.title = "Speed",
                .caption = fmt::format(
                    "Training: the median of steps of {} × {} tokens; this report uses {} "
                    "thread(s).",
                    subjects_[0].run.config.training.batch, subjects_[0].run.config.training.length,
                    context_.threads()),
                .columns = {"model", "training tokens/s", "training s"}};
    for (const int64_t length : options_.lengths)
      table.columns.push_back(fmt::format("µs a token, L = {}", length));
    if (!options_.lengths.empty())
      table.caption += " To the right: a forward pass over one sequence of L tokens.";
    if (std::ranges::any_of(subjects_, [&](const Subject& s) {
          return s.microseconds.size() < options_.lengths.size();
        }))
      table.caption += " —: longer than the model's learned positions.";
    Plot plot{.title = "Time of a token",
              .caption = "A forward pass over one sequence.",
              .x_label = "length",
              .y_label = "µs a token",
              .log_x = true,
              .from_zero = true};
    int color = 0;
    for (const Subject& subject : subjects_) {
      std::vector<std::string> row = {subject.run.Name(),
                                      fmt::format("{:.0f}", subject.run.TokensPerSecond()),
                                      fmt::format("{:.1f}", subject.run.Seconds())};
      Series series{.name = subject.run.Name(), .color = color++};
      for (const int64_t length : options_.lengths) {
        const auto found =
            std::ranges::find(subject.microseconds, length, &std::pair<int64_t, double>::first);
        row.push_back(found == subject.microseconds.end() ? "—"
                                                          : fmt::format("{:.2f}", found->second));
        if (found != subject.microseconds.end())
          series.points.emplace_back(static_cast<double>(length), found->second);
      }
      table.rows.push_back(row);
      plot.series.push_back(series);
    }
    report_.AddTable(table);
    if (options_.lengths.size() > 1) report_.AddPlot(plot);
  }

  void Samples() {
    if (options_.samples == 0) return;
    bool heading = false;
    for (Subject& subject : subjects_) {
      const ModelConfig& model = subject.trained.config.model;
      const Vocabulary& vocabulary = *subject.trained.vocabulary;
      if (!model.causal || model.classes > 0 || vocabulary.name() == "numbers") continue;
      if (!heading) report_.AddHeading("Samples");
      heading = true;
      std::string text;
      for (int64_t i = 0; i < options_.samples; ++i) {
        Decoder decoder(subject.trained.model, context_);
        const auto begin = vocabulary.special().begin;
        decoder.Read(Prompt(vocabulary, begin ? "" : "\n"));
        int64_t most = options_.sample_tokens;
        if (model.positions == "learned") most = std::min(most, model.max_length - 1);
        const Generated sample =
            Generate(decoder, vocabulary, {.tokens = most, .sample = static_cast<uint64_t>(i)});
        text += begin ? fmt::format(">sample {}{}\n", i + 1, sample.ended ? "" : " (cut off)") : "";
        text += vocabulary.Decode(sample.tokens) + "\n";
        if (!begin && i + 1 < options_.samples) text += "—\n";
      }
      report_.AddText(fmt::format("{}, temperature 1:", subject.run.Name()));
      report_.AddPreformatted(ValidText(text));
    }
  }

  // Bytes that are no UTF-8, and control characters, would spoil the page.
  static std::string ValidText(const std::string& text) {
    std::string valid = Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
                            .get<std::string>();
    std::ranges::replace_if(
        valid, [](unsigned char c) { return (c < ' ' && c != '\n' && c != '\t') || c == 127; },
        ' ');
    return valid;
  }

  void Data() {
    if (!same_data_) return;
    if (const Table lengths = LengthsTable(statistics_); !lengths.rows.empty())
      report_.AddTable(lengths);
    if (statistics_.baselines) report_.AddTable(FrequenciesTable(statistics_, 12));
    results_["data"] = ToJson(statistics_);
  }

  void Configuration() {
    Table table{.title = "Configuration", .caption = "config.json of each run.", .columns = {""}};
    Json all = Json::object();
    for (const Subject& subject : subjects_) {
      table.columns.push_back(subject.run.Name());
      all.update(Json::parse(ToJson(subject.run.config)).flatten());
    }
    for (const auto& [key, unused] : all.items()) {
      std::vector<std::string> row = {key.substr(1)};
      for (const Subject& subject : subjects_) {
        const Json flat = Json::parse(ToJson(subject.run.config)).flatten();
        const Json value = flat.contains(key) ? flat[key] : Json();
        row.push_back(value.is_null()     ? "—"
                      : value.is_string() ? value.get<std::string>()
                                          : value.dump());
      }
      table.rows.push_back(row);
    }
    report_.AddHeading("To repeat it");
    std::string commands;
    for (const Subject& subject : subjects_)
      commands += CommandOf(subject.run.config, subject.run.path) + "\n";
    if (subjects_.size() > 1) commands += options_.command + "\n";
    report_.AddPreformatted(commands);
    report_.AddTable(table);
  }

  const RunReportOptions& options_;
  const Context& context_;
  Json& results_;
  Progress progress_;
  Report report_;
  std::vector<Subject> subjects_;
  bool same_data_ = true;
  DataStatistics statistics_;
};

}  // namespace

Report MakeRunReport(const RunReportOptions& options, const Context& context, Json& results) {
  return Page(options, context, results).Make();
}

bool WriteRunReport(const std::string& folder, const Context& context, bool quiet) {
  Json results = Json::object();
  const Report report = MakeRunReport(
      {.folders = {folder}, .command = "favor report " + Quoted(folder), .quiet = quiet}, context,
      results);
  io::WriteFileAtomically((std::filesystem::path(folder) / models::kReportName).string(),
                          report.ToHtml());
  return !report.plots_missing();
}

}  // namespace favor::lab
