// Tasks whose data is drawn instead of read: each file of tasks/ is one.
#ifndef FAVOR_DATA_GENERATED_H_
#define FAVOR_DATA_GENERATED_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "favor/data.h"
#include "favor/random.h"

namespace favor::data {

struct TaskParameter {
  std::string_view key, help;
  int64_t standard, least, most;
};
using TaskValues = std::map<std::string_view, int64_t>;

struct TaskShape {
  int64_t vocab, length;
  int64_t classes = 0;
};

struct Example {
  std::vector<int32_t> tokens;   // at most TaskShape::length
  std::vector<int32_t> targets;  // one per token; unused by classifiers
  int32_t label = 0;             // the class, for classifiers
};

struct GeneratedTask {
  std::string_view name, summary;
  Task task;  // kCausal or kClassify
  std::vector<TaskParameter> parameters;
  TaskShape (*shape)(const TaskValues& values);  // throws if values do not fit each other
  Example (*draw)(const TaskValues& values, Split split, const RandomStream& stream);
};
std::span<const GeneratedTask> GeneratedTasks();

// Whole numbers from a stream, one after the other.
class Drawer {
 public:
  explicit Drawer(const RandomStream& stream) : stream_(stream) {}
  int64_t Below(int64_t end) {
    return static_cast<int64_t>(stream_.Uniform(next_++) * static_cast<double>(end));
  }
  double Uniform() { return stream_.Uniform(next_++); }
  bool Chance(double probability) { return stream_.Uniform(next_++) < probability; }
  // `count` of 0 … total − 1, all different, in random order.
  std::vector<int32_t> Different(int64_t count, int64_t total);

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace favor::data

#endif  // FAVOR_DATA_GENERATED_H_
