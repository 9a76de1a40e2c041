#include "reports/run_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error_text.h"
#include "core/json.h"
#include "core/progress.h"
#include "models/heads.h"
#include "models/network.h"
#include "reports/memory_table.h"
#include "reports/samples.h"
#include "reports/subjects.h"

namespace favor::reports {
namespace {

std::string Percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::vector<std::string> ScoreCells(const Score& score) {
  return {fmt::format("{:.4f}", score.MeanLoss()), Percent(score.Accuracy()),
          fmt::format("{:.3f}", score.Perplexity()), fmt::format("{:.4f}", score.BitsPerToken())};
}

Json ScoreJson(const Score& score, Task task) {
  Json json = {{"targets", score.count}, {"loss", score.MeanLoss()}};
  if (task != Task::kRegress) json["accuracy"] = score.Accuracy();
  if (HasLabels(task)) return json;
  json["perplexity"] = score.Perplexity();
  json["bits_per_token"] = score.BitsPerToken();
  return json;
}

std::string AttentionOf(const Subject& subject) {
  return models::AttentionText(subject.run.config.model);
}

// How a run began, if not from weights that were drawn.
std::string StartOf(const RunConfig& config) {
  if (config.init.empty()) return "";
  return fmt::format(", starting from the weights of {}{}", Printable(config.init),
                     config.training.freeze > 0
                         ? fmt::format(", of which the embedding and the first {} layers were kept",
                                       config.training.freeze)
                         : "");
}

class Page {
 public:
  Page(const RunReportOptions& options, const Context& context, Json& results)
      : options_(options),
        context_(context),
        results_(results),
        progress_("report", static_cast<int64_t>(options.folders.size()) + 1, options.quiet),
        report_(Title(), options.command),
        subject_options_{.folders = options.folders,
                         .data = options.data,
                         .evaluate = options.evaluate,
                         .count = options.count,
                         .lengths = options.lengths,
                         .placement = options.placement} {}

  Report Make() {
    subjects_ = OpenSubjects(subject_options_, context_,
                             [&](const std::string& name) { progress_.Update(++done_, name); });
    groups_ = GroupSubjects(subjects_, subject_options_);
    progress_.Update(++done_, "baselines");
    Introduce();
    results_["runs"] = Json::array();
    for (const SubjectGroup& group : groups_) Results(group);
    SameCharacters();
    report_.AddHeading("Learning");
    for (const SubjectGroup& group : groups_) Curves(group);
    Speed();
    Samples();
    for (const SubjectGroup& group : groups_) Data(group);
    Configuration();
    return std::move(report_);
  }

 private:
  std::string Title() const {
    if (options_.folders.size() > 1) return "favor: runs next to each other";
    return "favor: " + train::RunFolder{.path = options_.folders.at(0)}.Name();
  }

  void Introduce() {
    for (const auto& subject : subjects_) {
      const RunConfig& config = subject->run.config;
      const ModelConfig& model = config.model;
      const int64_t tokens = subject->run.steps.empty() ? 0 : subject->run.steps.back().tokens;
      report_.AddText(fmt::format(
          "{}: {} with {}, {} layers of width {}, {:.3g} million parameters, trained for {} steps "
          "on {:.3g} million tokens of {} ({}){}. The figures are those of its checkpoint of step "
          "{}.",
          subject->run.Name(), model.causal ? "a decoder" : "an encoder", AttentionOf(*subject),
          model.layers, model.width,
          static_cast<double>(subject->trained.model.ParameterCount()) / 1e6,
          subject->run.steps.empty() ? 0 : subject->run.steps.back().step,
          static_cast<double>(tokens) / 1e6, Printable(config.data), Name(config.task),
          StartOf(config), subject->trained.step));
      if (subject->run.unread_lines > 0) {
        report_.AddText(fmt::format("{} lines of {}'s log are damaged and were left out.",
                                    subject->run.unread_lines, subject->run.Name()));
      }
      Table memories = MemoryTable(
          models::MemoriesOf(model, &internal::Inside(subject->trained.model).parameters()));
      if (!memories.rows.empty()) {
        if (subjects_.size() > 1) memories.title += ", " + subject->run.Name();
        report_.AddTable(memories);
      }
      if (!subject->own_data) {
        report_.AddText(fmt::format(
            "Beware: {} is not the data that {} was trained on, or has changed since; what was "
            "held out may have been learned from.",
            Printable(subject->data_name), subject->run.Name()));
      }
    }
    if (groups_.size() > 1) {
      report_.AddText(
          "These runs had different data, vocabularies or lengths: their losses, accuracies and "
          "perplexities cannot be compared, and are shown in separate tables and plots.");
      report_.AddWarning(
          "the runs had different data, vocabularies or lengths: figures per token cannot be "
          "compared");
    }
  }

  // What follows the title of a table or plot if there are several groups.
  std::string Of(const SubjectGroup& group) const {
    if (groups_.size() == 1) return "";
    std::vector<std::string> names;
    for (const Subject* subject : group.subjects) names.push_back(subject->run.Name());
    return fmt::format(": {}", fmt::join(names, ", "));
  }

  void Results(const SubjectGroup& group) {
    const Subject& first = group.first();
    const Task task = first.run.config.task;
    if (HasLabels(task)) return LabelResults(group);
    Table table{.title = fmt::format("How well {}{}",
                                     task == Task::kMasked ? "masked tokens are predicted"
                                                           : "the next token is predicted",
                                     Of(group)),
                .caption = fmt::format(
                    "{} of the {} split: {} targets. Models are those of the best checkpoint. The "
                    "baselines below them predict the same targets from frequencies alone.",
                    first.evaluation.all ? "All" : "A random sample", Name(first.split),
                    first.evaluation.score.count),
                .columns = {"model", "nats", "accuracy", "perplexity", "bits per " + group.Unit()}};
    const bool words = first.evaluation.words > 0;
    if (words) {
      table.columns.emplace_back("word perplexity");
      table.columns.emplace_back("bits per character");
    }
    std::vector<MaskingScores> kinds;
    const auto add = [&](const std::string& name, const Evaluation& evaluation) {
      std::vector<std::string> row = ScoreCells(evaluation.score);
      row.insert(row.begin(), name);
      if (words) {
        row.push_back(fmt::format("{:.4g}", evaluation.WordPerplexity()));
        row.push_back(fmt::format("{:.4f}", evaluation.BitsPerCharacter()));
      }
      table.rows.push_back(row);
      kinds.push_back({name, evaluation.by_masking});
    };
    for (const Subject* subject : group.subjects) {
      add(subject->run.Name() + ": " + AttentionOf(*subject), subject->evaluation);
      AddResult(*subject);
    }
    for (const Baseline& baseline : group.statistics.baselines->baselines) {
      Evaluation same = first.evaluation;  // the same text
      same.score = baseline.score;
      same.by_masking = baseline.by_masking;
      add(baseline.name, same);
      AddBaseline(baseline, first.run.config.task);
    }
    report_.AddTable(table);
    if (task == Task::kMasked) report_.AddTable(MaskingTable(kinds));
  }

  void AddBaseline(const Baseline& baseline, Task task) {
    (groups_.size() == 1 ? results_["baselines"]
                         : results_["runs"].back()["baselines"])[baseline.name] =
        ScoreJson(baseline.score, task);
  }

  void LabelResults(const SubjectGroup& group) {
    const Subject& first = group.first();
    const bool numbers = first.run.config.task == Task::kRegress;
    std::vector<LabelResult> results;
    for (const Subject* subject : group.subjects) {
      results.push_back({subject->run.Name() + ": " + AttentionOf(*subject),
                         subject->evaluation.score, subject->evaluation.labels});
      AddResult(*subject);
    }
    for (const Baseline& baseline : group.statistics.baselines->baselines) {
      results.push_back({.name = baseline.name, .score = baseline.score, .labels = {}});
      AddBaseline(baseline, first.run.config.task);
    }
    Table table = LabelResultsTable(results, numbers, first.data->Scale().deviation);
    table.title =
        fmt::format("How well {} are {}{}",
                    first.run.config.model.per_token ? fmt::format("{}s", first.data->Unit())
                                                     : std::string("sequences"),
                    numbers ? "predicted" : "classified", Of(group));
    table.caption = fmt::format("{} of the {} split: {} cases. {}",
                                first.evaluation.all ? "All" : "A random sample", Name(first.split),
                                first.evaluation.score.count, table.caption);
    report_.AddTable(table);
    for (const Subject* subject : group.subjects) {
      const LabelEvaluation& labels = subject->evaluation.labels;
      const std::string of = subjects_.size() > 1 ? ", " + subject->run.Name() : "";
      if (numbers) {
        Plot plot = PredictionPlot(labels);
        plot.title += of;
        report_.AddPlot(plot);
        continue;
      }
      for (Table each : {ClassTable(*labels.classes, subject->trained.classes),
                         ConfusionTable(*labels.classes, subject->trained.classes)}) {
        each.title += of;
        report_.AddTable(each);
      }
    }
  }

  void AddResult(const Subject& subject) {
    Json result = {{"folder", subject.run.path},
                   {"attention", AttentionOf(subject)},
                   {"split", Name(subject.split)},
                   {"whole_split", subject.evaluation.all},
                   {"step", subject.trained.step},
                   {"score", ScoreJson(subject.evaluation.score, subject.run.config.task)},
                   {"tokens_per_second", subject.run.TokensPerSecond()},
                   {"training_seconds", subject.run.Seconds()}};
    if (subject.evaluation.words > 0) {
      result["word_perplexity"] = subject.evaluation.WordPerplexity();
      result["bits_per_character"] = subject.evaluation.BitsPerCharacter();
    }
    if (subject.run.config.task == Task::kMasked) {
      for (int kind = 0; kind < kMaskings; ++kind) {
        result["by_masking"][std::string(Name(static_cast<Masking>(kind)))] = ScoreJson(
            subject.evaluation.by_masking[static_cast<size_t>(kind)], subject.run.config.task);
      }
    }
    if (HasLabels(subject.run.config.task))
      result["labels"] = ToJson(subject.evaluation.labels, subject.trained.classes);
    for (const auto& [length, time] : subject.microseconds)
      result["microseconds_per_token"][std::to_string(length)] = time;
    results_["runs"].push_back(std::move(result));
  }

  // For runs on one text with different vocabularies, figures of the text itself can be compared.
  void SameCharacters() {
    if (groups_.size() < 2) return;
    const Subject& first = groups_[0].first();
    Table table{.title = "On the same characters",
                .caption = fmt::format("The whole {} split of {}, which is the same text for all.",
                                       Name(first.split), Printable(first.data_name)),
                .columns = {"model", "characters", "bits per character", "word perplexity"}};
    for (const auto& subject : subjects_) {
      if (!SameText(first, *subject)) continue;
      table.rows.push_back({subject->run.Name() + ": " + AttentionOf(*subject),
                            std::to_string(subject->evaluation.characters),
                            fmt::format("{:.4f}", subject->evaluation.BitsPerCharacter()),
                            fmt::format("{:.4g}", subject->evaluation.WordPerplexity())});
    }
    if (table.rows.size() > 1) report_.AddTable(table);
  }

  void Curves(const SubjectGroup& group) {
    const auto plot = [&](const std::string& title, const std::string& label,
                          double train::LogPoint::*value) {
      Plot curves{.title = title + Of(group),
                  .caption =
                      "Lines: the valid split. Dots: training, the mean of some steps, without the "
                      "first tenth.",
                  .x_label = "step",
                  .y_label = label};
      int color = 0;
      for (const Subject* subject : group.subjects) {
        Series line{.name = subject->run.Name(), .color = color};
        for (const train::LogPoint& point : subject->run.evaluations)
          line.points.emplace_back(static_cast<double>(point.step), point.*value);
        Series dots{.name = "", .color = color, .markers = true};
        // About forty dots: each is the mean of the steps since the previous dot.
        const auto& steps = subject->run.steps;
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
    if (group.first().run.config.task == Task::kRegress)
      return plot("Loss", "squared error of scaled numbers", &train::LogPoint::loss);
    plot("Loss", "nats per " + group.Unit(), &train::LogPoint::loss);
    plot("Accuracy", "share of targets", &train::LogPoint::accuracy);
  }

  void Speed() {
    Table table{
        .title = "Speed",
        .caption = fmt::format(
            "Training: the median of steps of {} × {} tokens; this report uses {}.",
            subjects_[0]->run.config.training.batch, subjects_[0]->run.config.training.length,
            context_.device().type == DeviceType::kCpu
                ? fmt::format("{} thread(s)", context_.threads())
                : Name(context_.device())),
        .columns = {"model", "training tokens/s", "training s"}};
    for (const int64_t length : options_.lengths)
      table.columns.push_back(fmt::format("µs per token, L = {}", length));
    if (!options_.lengths.empty())
      table.caption += " To the right: a forward pass over one sequence of L tokens.";
    if (std::ranges::any_of(subjects_, [&](const auto& subject) {
          return subject->microseconds.size() < options_.lengths.size();
        }))
      table.caption += " —: longer than the model's learned positions.";
    Plot plot{.title = "Time per token",
              .caption = "A forward pass over one sequence.",
              .x_label = "length",
              .y_label = "µs per token",
              .log_x = true,
              .from_zero = true};
    int color = 0;
    for (const auto& subject : subjects_) {
      std::vector<std::string> row = {subject->run.Name(),
                                      fmt::format("{:.0f}", subject->run.TokensPerSecond()),
                                      fmt::format("{:.1f}", subject->run.Seconds())};
      Series series{.name = subject->run.Name(), .color = color++};
      for (const int64_t length : options_.lengths) {
        const auto found =
            std::ranges::find(subject->microseconds, length, &std::pair<int64_t, double>::first);
        row.push_back(found == subject->microseconds.end() ? "—"
                                                           : fmt::format("{:.2f}", found->second));
        if (found != subject->microseconds.end())
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
    for (const auto& subject : subjects_) {
      if (!CanGenerate(*subject)) continue;
      if (!heading) report_.AddHeading("Samples");
      heading = true;
      AddSamples(*subject, {.samples = options_.samples, .tokens = options_.sample_tokens},
                 context_, report_);
    }
  }

  void Data(const SubjectGroup& group) {
    Table lengths = LengthsTable(group.statistics);
    lengths.title += Of(group);
    if (!lengths.rows.empty()) report_.AddTable(lengths);
    if (!group.statistics.scale) {
      Table frequencies = FrequenciesTable(group.statistics, 12);
      frequencies.title += Of(group);
      report_.AddTable(frequencies);
    }
    if (groups_.size() == 1) results_["data"] = ToJson(group.statistics);
  }

  void Configuration() {
    Table table{.title = "Configuration", .caption = "config.json of each run.", .columns = {""}};
    Json all = Json::object();
    for (const auto& subject : subjects_) {
      table.columns.push_back(subject->run.Name());
      all.update(Json::parse(ToJson(subject->run.config)).flatten());
    }
    for (const auto& [key, unused] : all.items()) {
      std::vector<std::string> row = {key.substr(1)};
      for (const auto& subject : subjects_) {
        const Json flat = Json::parse(ToJson(subject->run.config)).flatten();
        const Json value = flat.contains(key) ? flat[key] : Json();
        row.push_back(value.is_null()     ? "—"
                      : value.is_string() ? value.get<std::string>()
                                          : value.dump());
      }
      table.rows.push_back(row);
    }
    report_.AddHeading("How to repeat it");
    report_.AddPreformatted(options_.repeat);
    report_.AddTable(table);
  }

  const RunReportOptions& options_;
  const Context& context_;
  Json& results_;
  Progress progress_;
  Report report_;
  SubjectOptions subject_options_;
  std::vector<std::unique_ptr<Subject>> subjects_;
  std::vector<SubjectGroup> groups_;
  int64_t done_ = 0;
};

}  // namespace

Report MakeRunReport(const RunReportOptions& options, const Context& context, Json& results) {
  return Page(options, context, results).Make();
}

}  // namespace favor::reports
