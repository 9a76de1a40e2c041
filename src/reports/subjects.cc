#include "reports/subjects.h"

#include <algorithm>

#include "core/error_text.h"
#include "core/stopwatch.h"
#include "favor/random.h"

namespace favor::reports {
namespace {

// Identifies the targets of a run: runs with the same key share their baselines.
std::string QuestionsKey(const Subject& subject) {
  const RunConfig& config = subject.run.config;
  const bool task = config.data.starts_with("task:");
  return fmt::format("{}|{}|{}|{}|{}", task ? config.data : subject.data->Fingerprint(),
                     Name(config.task), config.model.causal, config.training.length,
                     task || config.task == Task::kMasked ? config.training.seed : 0);
}

double MicrosecondsOfToken(const Model& model, int64_t length, const Context& context) {
  Batch batch{.batch = 1, .length = length};
  const RandomStream stream(0, "tokens of a report");
  for (int64_t i = 0; i < length; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(stream.Uniform(static_cast<uint64_t>(i)) *
                                                static_cast<double>(model.config().vocab)));
  }
  const ModelConfig& config = model.config();
  const size_t targets = static_cast<size_t>(config.classes > 0 && !config.per_token ? 1 : length);
  if (config.numbers) {
    batch.values.assign(targets, 0);
  } else {
    batch.targets.assign(targets, 0);
  }
  const auto pass = [&] { model.Evaluate(batch, context); };
  pass();
  return 1e6 * LeastSeconds(2, pass) / static_cast<double>(length);
}

void Measure(const SubjectOptions& options, bool whole, const Context& context, Subject& subject) {
  const TrainConfig& training = subject.run.config.training;
  subject.evaluation = Evaluate(subject.trained.model, *subject.data,
                                {.split = subject.split,
                                 .batch = training.batch,
                                 .length = training.length,
                                 .targets = whole ? INT64_MAX : options.evaluate},
                                context);
  const ModelConfig& model = subject.trained.config.model;
  for (const int64_t length : options.lengths) {
    if (model.positions == Positions::kLearned && length > model.max_length) continue;
    subject.microseconds.emplace_back(length,
                                      MicrosecondsOfToken(subject.trained.model, length, context));
  }
}

}  // namespace

bool SameText(const Subject& a, const Subject& b) {
  const DataFormat &x = a.trained.config.format, &y = b.trained.config.format;
  return a.data->Summary(a.split).words > 0 && a.data->Content() == b.data->Content() &&
         a.split == b.split && a.data->SplitBy() == SplitRule::kPlace &&
         b.data->SplitBy() == SplitRule::kPlace && x.valid == y.valid && x.test == y.test &&
         a.run.config.task == Task::kCausal && b.run.config.task == Task::kCausal;
}

std::vector<std::unique_ptr<Subject>> OpenSubjects(
    const SubjectOptions& options, const Context& context,
    const std::function<void(const std::string&)>& each) {
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const std::string& folder : options.folders) {
    train::RunFolder run = train::ReadRunFolder(folder);
    TrainedModel trained = LoadTrained(folder, options.placement);
    auto data = OpenDataOf(trained, options.data);
    auto subject = std::make_unique<Subject>(
        Subject{.run = std::move(run), .trained = std::move(trained), .data = std::move(data)});
    subject->data_name = options.data.empty() ? subject->run.config.data : options.data;
    subject->own_data = subject->trained.fingerprint.empty() ||
                        subject->data->Fingerprint() == subject->trained.fingerprint;
    for (const auto& other : subjects) {
      if (QuestionsKey(*other) == QuestionsKey(*subject)) subject->data = other->data;
    }
    const TrainConfig& training = subject->run.config.training;
    if (subject->data->Batches(Split::kTest, training.batch, training.length) == 0)
      subject->split = Split::kValid;
    subjects.push_back(std::move(subject));
  }
  for (const auto& subject : subjects) {
    const bool whole = std::ranges::any_of(subjects, [&](const auto& other) {
      return SameText(*subject, *other) && QuestionsKey(*subject) != QuestionsKey(*other);
    });
    Measure(options, whole, context, *subject);
    each(subject->run.Name());
  }
  return subjects;
}

std::vector<SubjectGroup> GroupSubjects(const std::vector<std::unique_ptr<Subject>>& subjects,
                                        const SubjectOptions& options) {
  std::vector<SubjectGroup> groups;
  for (const auto& subject : subjects) {
    const auto found = std::ranges::find_if(groups, [&](const SubjectGroup& group) {
      return QuestionsKey(group.first()) == QuestionsKey(*subject);
    });
    if (found != groups.end()) {
      found->subjects.push_back(subject.get());
    } else {
      groups.push_back({.subjects = {subject.get()}, .statistics = {}});
    }
  }
  for (SubjectGroup& group : groups) {
    const Subject& first = group.first();
    const TrainConfig& training = first.run.config.training;
    // The same targets as the models', in the same number.
    group.statistics =
        GatherStatistics(*first.data, first.trained.config.format, training.length,
                         BaselineOptions{.task = first.run.config.task,
                                         .length = training.length,
                                         .split = first.split,
                                         .most_tokens = options.count,
                                         .eval_tokens = first.evaluation.score.count});
  }
  return groups;
}

}  // namespace favor::reports
