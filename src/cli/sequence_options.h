// Options of commands that read sequences with a trained model: which model, which sequences, and
// how they are cut.
#ifndef FAVOR_CLI_SEQUENCE_OPTIONS_H_
#define FAVOR_CLI_SEQUENCE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/options.h"
#include "favor/data.h"
#include "favor/train.h"

namespace favor::cli {

// --model and --data.
void AddSourceOptions(Options& options, std::string& model, std::string& data);

// --windows, --layout, --length and --batch of LikelihoodOptions or EmbedOptions.
void AddSequenceOptions(Options& options, bool& windows, std::optional<Layout>& layout,
                        int64_t& length, int64_t& batch);
template <class Cut>
void AddSequenceOptions(Options& options, bool& windows, Cut& cut) {
  AddSequenceOptions(options, windows, cut.layout, cut.length, cut.batch);
}

// The tokens of a window of text with --windows, else 0. Throws for a model of something else.
int64_t WindowOf(std::string_view who, bool windows, int64_t length, const TrainedModel& trained);

}  // namespace favor::cli

#endif  // FAVOR_CLI_SEQUENCE_OPTIONS_H_
