// The runs that a report is about, each with its model, its data and its figures.
#ifndef FAVOR_REPORTS_SUBJECTS_H_
#define FAVOR_REPORTS_SUBJECTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "favor/context.h"
#include "favor/train.h"
#include "reports/data_statistics.h"
#include "reports/evaluation.h"
#include "train/run_folder.h"

namespace favor::reports {

struct Subject {
  train::RunFolder run;
  TrainedModel trained;
  std::shared_ptr<const Dataset> data;  // shared by runs on the same data
  std::string data_name;
  bool own_data = true;  // whether it is the data that the model was trained on
  Split split = Split::kTest;
  Evaluation evaluation;
  std::vector<std::pair<int64_t, double>> microseconds;  // time per token, by length
};

// Runs whose losses can be compared: the same data, divided and tokenized alike, the same targets.
struct SubjectGroup {
  std::vector<Subject*> subjects;
  DataStatistics statistics;

  const Subject& first() const { return *subjects.front(); }
  std::string Unit() const { return statistics.unit; }
};

struct SubjectOptions {
  std::vector<std::string> folders;
  std::string data;  // data to use instead of each run's own
  int64_t evaluate = 0, count = 0;
  std::vector<int64_t> lengths;  // lengths at which the time per token is measured
  Placement placement;           // of the models
};

// Opens and evaluates runs. Runs on the same text with different vocabularies are evaluated on the
// whole split, so that figures per character can be compared. `each` is called after every run.
std::vector<std::unique_ptr<Subject>> OpenSubjects(
    const SubjectOptions& options, const Context& context,
    const std::function<void(const std::string&)>& each);

// Groups with their baselines, in the order of their first runs.
std::vector<SubjectGroup> GroupSubjects(const std::vector<std::unique_ptr<Subject>>& subjects,
                                        const SubjectOptions& options);

// Whether both held out the same text, to the character.
bool SameText(const Subject& a, const Subject& b);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_SUBJECTS_H_
