// A table of labels: what a model is to say of records, or of each of their tokens.
#ifndef FAVOR_DATA_LABELS_H_
#define FAVOR_DATA_LABELS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "favor/data.h"

namespace favor::data {

constexpr uint32_t kNoLabel = UINT32_MAX;  // nothing is known; as a float it is NaN

struct LabelOptions {
  bool numbers = false;                   // otherwise classes
  bool per_token = false;                 // otherwise one for each record
  std::vector<std::string> classes = {};  // the only ones, in this order; empty: those of the table
};

// What labels of a split are like.
struct LabelStatistics {
  std::vector<int64_t> counts;  // of each class; empty for numbers
  int64_t numbers = 0;
  double mean = 0, squares = 0;  // squares of differences from the mean

  void Add(std::span<const uint32_t> labels);  // those that are known
  LabelScale Scale() const;                    // deviation 1 if all numbers are equal
};

// Lines "id<tab>label"; a first line whose id is "id" or begins with '#' is a heading. Classes are
// any text, numbers are finite. Per token: classes are single characters, one after the other
// ("HHHEEC"), numbers are separated by commas; '.' and an empty number say that nothing is known.
class Labels {
 public:
  // Throws kInvalidData, naming the line, for anything else, for a name that occurs twice with
  // different labels, for a class that is not one of those given, for an empty table, and for a
  // table of one class.
  Labels(const std::string& path, const LabelOptions& options);

  // Those given, otherwise by name, in the order of their bytes; empty for numbers.
  const std::vector<std::string>& classes() const { return classes_; }
  int64_t records() const { return static_cast<int64_t>(where_.size()); }
  const std::string& path() const { return path_; }

  // The labels of a record, one or one for each token: numbers of classes, or the bits of floats;
  // kNoLabel where nothing is known. None if the table does not name it. A record
  // "sp|P12345|NAME" may also be listed as P12345.
  std::optional<std::span<const uint32_t>> Of(const std::string& name) const;

 private:
  struct Place {
    size_t begin = 0, count = 0;
    int64_t line = 0;
  };

  void ReadLine(std::string_view line, int64_t number);
  void AddClass(std::string_view name, int64_t line);
  void AddNumber(std::string_view text, int64_t line);
  void Finish();

  std::string path_;
  LabelOptions options_;
  std::vector<std::string> classes_;
  std::unordered_map<std::string, uint32_t> class_numbers_;
  std::unordered_map<std::string, Place> where_;
  std::vector<uint32_t> labels_;
};

}  // namespace favor::data

#endif  // FAVOR_DATA_LABELS_H_
