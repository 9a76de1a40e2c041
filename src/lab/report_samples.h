// What a model of a report generates: text, records, or pictures.
#ifndef FAVOR_LAB_REPORT_SAMPLES_H_
#define FAVOR_LAB_REPORT_SAMPLES_H_

#include <cstdint>

#include "favor/context.h"
#include "lab/report.h"
#include "lab/report_subjects.h"

namespace favor::lab {

struct SampleOptions {
  int64_t samples = 1;
  int64_t tokens = 1;  // of each at most; pictures are always whole
};

bool CanGenerate(const Subject& subject);

// Samples from the model's own start, or behind the first tokens of sequences that were held out if
// it has none.
void AddSamples(const Subject& subject, const SampleOptions& options, const Context& context,
                Report& report);

}  // namespace favor::lab

#endif  // FAVOR_LAB_REPORT_SAMPLES_H_
