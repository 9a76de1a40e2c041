// What a model of a report generates: text, records, or pictures.
#ifndef FAVOR_REPORTS_SAMPLES_H_
#define FAVOR_REPORTS_SAMPLES_H_

#include <cstdint>

#include "favor/context.h"
#include "reports/report.h"
#include "reports/subjects.h"

namespace favor::reports {

struct SampleOptions {
  int64_t samples = 1;
  int64_t tokens = 1;  // most tokens per sample; pictures are always whole
};

bool CanGenerate(const Subject& subject);

// Adds samples from the model's own start token, or, if it has none, samples that continue the
// first tokens of held-out sequences.
void AddSamples(const Subject& subject, const SampleOptions& options, const Context& context,
                Report& report);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_SAMPLES_H_
