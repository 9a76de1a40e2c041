#include "data/generated.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "core/error_text.h"
#include "data/alphabet.h"
#include "data/sources.h"

namespace favor::data {

#define FAVOR_ENTRY(Name) GeneratedTask Name##Task();
#include "tasks.inc"
#undef FAVOR_ENTRY

std::span<const GeneratedTask> GeneratedTasks() {
  static const std::vector<GeneratedTask> tasks = {
#define FAVOR_ENTRY(Name) Name##Task(),
#include "tasks.inc"
#undef FAVOR_ENTRY
  };
  return tasks;
}

std::vector<int32_t> Drawer::Different(int64_t count, int64_t total) {
  std::vector<int32_t> all(static_cast<size_t>(total));
  std::iota(all.begin(), all.end(), 0);
  for (int64_t i = 0; i < count; ++i)
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(i + Below(total - i))]);
  all.resize(static_cast<size_t>(count));
  return all;
}

namespace {

constexpr int64_t kEvalExamples = 4096;  // examples per split, though any number could be drawn

std::string Who(const GeneratedTask& task) { return fmt::format("task:{}", task.name); }

const GeneratedTask& FindTask(const std::string& name) {
  std::vector<std::string_view> names;
  for (const GeneratedTask& task : GeneratedTasks()) {
    if (task.name == name) return task;
    names.push_back(task.name);
  }
  Throw(ErrorCode::kInvalidOption, "data", "unknown task '{}'{}", Printable(name),
        Suggest(name, names));
}

// Parses "key=value".
void SetValue(const GeneratedTask& task, const std::string& text, TaskValues& values) {
  const size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  std::vector<std::string_view> keys;
  for (const TaskParameter& parameter : task.parameters) {
    keys.push_back(parameter.key);
    if (parameter.key != key) continue;
    const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || value < parameter.least ||
        value > parameter.most) {
      Throw(ErrorCode::kInvalidOption, Who(task),
            "{}: given '{}', expected a whole number from {} to {}", key, Printable(number),
            parameter.least, parameter.most);
    }
    values[parameter.key] = value;
    return;
  }
  Throw(ErrorCode::kInvalidOption, Who(task), "unknown key '{}'{}", Printable(key),
        Suggest(key, keys));
}

class Generated : public Dataset {
 public:
  Generated(const GeneratedTask& task, const TaskValues& values, const DataOptions& options)
      : task_(task),
        values_(values),
        options_(options),
        shape_(task.shape(values_)),
        vocabulary_(Numbers("numbers", shape_.vocab, /*special=*/false)) {
    if (options.task != task.task) {
      Throw(ErrorCode::kInvalidOption, "task", "given {} for {}, expected {}", Name(options.task),
            Who(task), Name(task.task));
    }
  }

  const Vocabulary* vocabulary() const override { return vocabulary_.get(); }
  int64_t vocab() const override { return shape_.vocab; }
  int64_t classes() const override { return shape_.classes; }
  int64_t Length(int64_t asked) const override {
    if (asked != 0 && asked != shape_.length) {
      Throw(ErrorCode::kInvalidOption, "length", "given {}, expected {}, the length of {}", asked,
            shape_.length, Who(task_));
    }
    return shape_.length;
  }

  Batch TrainBatch(const BatchRequest& request) const override {
    return Draw(Split::kTrain, CheckedRequest(request), request.batch);
  }
  int64_t Batches(Split split, int64_t batch, int64_t) const override {
    return split == Split::kHeldOut || split == Split::kAll ? 0
                                                            : (kEvalExamples + batch - 1) / batch;
  }
  Batch EvalBatch(Split split, const BatchRequest& request) const override {
    return Draw(split, CheckedRequest(request),
                std::min(request.batch, kEvalExamples - request.index * request.batch));
  }

 private:
  Batch Draw(Split split, const BatchRequest& request, int64_t count) const {
    Batch batch{.batch = count, .length = shape_.length};
    const RandomStream stream =
        RandomStream(options_.seed, Who(task_)).Child(static_cast<uint64_t>(split));
    const auto length = static_cast<size_t>(shape_.length);
    for (int64_t i = 0; i < count; ++i) {
      const Example example = task_.draw(
          values_, split, stream.Child(static_cast<uint64_t>(request.index * request.batch + i)));
      const size_t size = example.tokens.size();
      batch.tokens.insert(batch.tokens.end(), example.tokens.begin(), example.tokens.end());
      batch.tokens.resize(batch.tokens.size() + length - size, 0);
      if (shape_.classes > 0) {
        batch.targets.push_back(example.label);
        batch.mask.insert(batch.mask.end(), size, 1.0f);
        batch.mask.insert(batch.mask.end(), length - size, 0.0f);
      } else {
        batch.targets.insert(batch.targets.end(), example.targets.begin(), example.targets.end());
      }
    }
    return batch;
  }

  const GeneratedTask& task_;
  TaskValues values_;
  DataOptions options_;
  TaskShape shape_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

// Parses "copy,length=32" into the task and its values.
std::pair<const GeneratedTask&, TaskValues> ParseTask(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const GeneratedTask& task = FindTask(parts[0]);
  TaskValues values;
  for (const TaskParameter& parameter : task.parameters) values[parameter.key] = parameter.standard;
  std::set<std::string> given;
  for (size_t i = 1; i < parts.size(); ++i) {
    SetValue(task, parts[i], values);
    if (const std::string key = parts[i].substr(0, parts[i].find('=')); !given.insert(key).second)
      Throw(ErrorCode::kInvalidOption, Who(task), "given the key '{}' twice, expected once", key);
  }
  return {task, values};
}

}  // namespace

std::unique_ptr<Dataset> OpenGenerated(const std::string& name, const DataOptions& options) {
  const auto [task, values] = ParseTask(name);
  return std::make_unique<Generated>(task, values, options);
}

std::shared_ptr<const Vocabulary> GeneratedVocabulary(const std::string& name) {
  const auto [task, values] = ParseTask(name);
  return Numbers("numbers", task.shape(values).vocab, /*special=*/false);
}

}  // namespace favor::data
