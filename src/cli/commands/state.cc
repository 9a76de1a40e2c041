// favor state append | read | merge | show: a prefix in a file.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/feature_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/host_copy.h"
#include "core/json.h"
#include "favor/npy.h"
#include "favor/state.h"
#include "io/folder_lock.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string state, k, v, q, out, mask, mean, log_decay, log_scale, numerator, denominator;
  std::vector<std::string> inputs;
  std::optional<double> scale;
  int64_t heads = 0, begin = 0;
  bool json = false;
  FeatureArguments features;
  ContextArguments run;
};

Json Describe(const AttentionState& state) {
  return {{"map", state.plan().map().name}, {"tokens", state.tokens()},
          {"begin", state.begin()},         {"end", state.end()},
          {"forgets", state.forgets()},     {"batch", state.batch()},
          {"heads", state.plan().heads()},  {"dim", state.plan().dim()},
          {"value_dim", state.value_dim()}, {"features", state.plan().features()},
          {"scale", state.scale()},         {"bytes", state.Bytes()}};
}

void Print(const std::string& path, const AttentionState& state, bool json) {
  const Json summary = Describe(state);
  if (json) {
    PrintJson(summary);
    return;
  }
  fmt::print(
      "{}: {} tokens{}, map {}, {} features, batch {}, {} heads of dim {}, values of dim {}, {} "
      "bytes\n",
      Printable(path), state.tokens(),
      state.forgets() ? fmt::format(" from {} to {} that forget", state.begin(), state.end()) : "",
      state.plan().map().name, state.plan().features(), state.batch(), state.plan().heads(),
      state.plan().dim(), state.value_dim(), state.Bytes());
}

// A new state that fits the keys and values.
AttentionState NewState(const Arguments& a, const Tensor& k, const Tensor& v, uint64_t seed) {
  const ConstView keys = k.view().AsRank4();
  const int64_t heads = a.heads > 0 ? a.heads : keys.size(1);
  const FeaturePlan plan = a.features.Plan(heads, keys.size(3), seed);
  Tensor mean;
  StateOptions options{.batch = keys.size(0),
                       .value_dim = v.shape()[v.shape().rank() - 1],
                       .scale = a.scale,
                       .begin = a.begin,
                       .forgets = !a.log_decay.empty(),
                       .device = a.run.device};
  if (!a.mean.empty()) {
    mean = ReadNpy(a.mean);
    options.key_mean = mean;
  }
  return AttentionState(plan, options);
}

AttentionState LoadOn(const Device& device, const std::string& path) {
  AttentionState state = AttentionState::Load(path);
  return device == Device{} ? std::move(state) : state.To(device);
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void Append(Arguments& a) {
  a.features.Read("state");
  CheckFiles("state", {a.state}, {a.k, a.v, a.mask, a.log_decay, a.mean, a.features.omega()});
  const Context context = a.run.Make();
  const io::FolderLock lock(a.state);  // so that two appends at once lose nothing
  const Device device = context.device();
  const Tensor k = RowsOn(device, ReadMaskedRows(a.k, !a.mask.empty())),
               v = RowsOn(device, ReadMaskedRows(a.v, !a.mask.empty()));
  AttentionState state =
      Exists(a.state) ? LoadOn(device, a.state) : NewState(a, k, v, context.seed());
  Tensor mask, log_decay;
  TokenOptions tokens;
  if (!a.mask.empty()) {
    mask = ReadNpyMask(a.mask);
    tokens.key_mask = mask;
  }
  if (!a.log_decay.empty()) {
    log_decay = ReadNpy(a.log_decay);
    tokens.log_decay = log_decay;
  }
  state.Append(k, v, context, tokens);
  state.Save(a.state);
  Print(a.state, state, a.json);
}

void Read(const Arguments& a) {
  CheckFiles("state", {a.out, a.log_scale, a.numerator, a.denominator}, {a.q, a.state});
  const Context context = a.run.Make();
  const AttentionState state = LoadOn(context.device(), a.state);
  AttentionReport report;
  const Tensor q = RowsOn(context.device(), ReadRows(a.q)), out = state.Attend(q, context, &report);
  if (!a.log_scale.empty() || !a.numerator.empty() || !a.denominator.empty()) {
    const AttentionState::Parts parts = state.Read(q, context);
    if (!a.log_scale.empty()) WriteNpy(a.log_scale, HostCopy(parts.log_scale).view());
    if (!a.numerator.empty()) WriteNpy(a.numerator, HostCopy(parts.numerator).view());
    if (!a.denominator.empty()) WriteNpy(a.denominator, HostCopy(parts.denominator).view());
  }
  WriteNpy(a.out, HostCopy(out).view());
  if (a.json) {
    PrintJson({{"out", a.out},
               {"nonpositive_rows", report.nonpositive_rows},
               {"empty_rows", report.empty_rows}});
    return;
  }
  fmt::print("{}: shape {}\n", Printable(a.out), out.shape().ToString());
  if (report.empty_rows + report.nonpositive_rows > 0) {
    fmt::print("{} rows see no key, {} have a denominator that is not positive: they are 0\n",
               report.empty_rows, report.nonpositive_rows);
  }
}

void Merge(const Arguments& a) {
  CheckFiles("state", {a.out}, {});
  const io::FolderLock lock(
      a.out);  // so that an append to an input that is also the output is not lost
  const Context context = a.run.Make();
  AttentionState merged = LoadOn(context.device(), a.inputs[0]);
  for (size_t i = 1; i < a.inputs.size(); ++i)
    merged.Merge(LoadOn(context.device(), a.inputs[i]), context);
  merged.Save(a.out);
  Print(a.out, merged, a.json);
}

// The file is given with --state, as in the other parts, or as a word alone.
void Show(const Arguments& a) {
  if (a.state.empty() == a.inputs.empty()) {
    Throw(ErrorCode::kInvalidOption, "state show: --state", "given {}, expected one FILE",
          a.state.empty()
              ? "nothing"
              : fmt::format("'{}' and '{}'", Printable(a.state), Printable(a.inputs[0])));
  }
  const std::string& path = a.state.empty() ? a.inputs[0] : a.state;
  Print(path, AttentionState::Load(path), a.json);
}

void DeclareAppend(Options& options, Arguments& a) {
  options.Path("--state", "FILE", a.state, "The state's file").Required();
  options.Path("--k", "K.npy", a.k, "Keys").Required();
  options.Path("--v", "V.npy", a.v, "Values").Required();
  options.Path("--key-mask", "M.npy", a.mask, "0 or false: the key is ignored");
  options.Path("--log-decay", "D.npy", a.log_decay,
               "What each token makes those before it forget, as in favor attend");
  a.run.AddDevice(options);
  a.run.Add(options);
  options.Flag("--json", a.json, "Print JSON");
  options.Heading("Settings of a new file (an existing one keeps its own)");
  a.features.Add(options);
  options.Path("--center-keys", "MEAN.npy", a.mean, "A frozen mean, subtracted from every key");
  options.Number("--scale", a.scale, "Scale of q·k").Default("1/√d");
  options.Integer("--begin", {0, int64_t{1} << 53}, a.begin,
                  "Position of the first token; states that forget are merged in order");
  options.Integer("--heads", {1, 65536}, a.heads, "Heads of the queries, if keys have fewer")
      .Default("those of the keys");
}

void DeclareRead(Options& options, Arguments& a) {
  options.Path("--state", "FILE", a.state, "The state's file").Required();
  options.Path("--q", "Q.npy", a.q, "Queries").Required();
  options.Path("--out", "O.npy", a.out, "Where the output goes").Required();
  options.Path("--log-scale", "R.npy", a.log_scale,
               "Also write ρ: e^ρ·N and e^ρ·D are the sums over keys, in f64");
  options.Path("--numerator", "N.npy", a.numerator, "Also write N");
  options.Path("--denominator", "D.npy", a.denominator, "Also write D");
  a.run.AddDevice(options);
  a.run.Add(options);
  options.Flag("--json", a.json, "Print JSON");
}

void DeclareMerge(Options& options, Arguments& a) {
  options.Words("states", {2, 1000}, a.inputs, "States").Placeholder("FILE FILE...");
  options.Path("--out", "FILE", a.out, "The merged state's file").Required();
  a.run.AddDevice(options);
  options.Flag("--json", a.json, "Print JSON");
}

void DeclareShow(Options& options, Arguments& a) {
  options.Path("--state", "FILE", a.state, "The state's file");
  options.Words("file", {0, 1}, a.inputs, "The same without --state").Placeholder("FILE");
  options.Flag("--json", a.json, "Print JSON");
}

}  // namespace

Command StateCommand() {
  return {
      .name = "state",
      .summary = "A saved prefix: append keys and values, read it with queries, merge, show",
      .example = "favor state append --state s.favor --k k.npy --v v.npy --features 256",
      .parts = {Command{.name = "append",
                        .summary = "Add keys and values; makes the file if it does not exist",
                        .example =
                            "favor state append --state s.favor --k k.npy --v v.npy --features 256",
                        .setup = Setup(DeclareAppend, Append)},
                Command{.name = "read",
                        .summary = "Attention of queries to the prefix",
                        .example = "favor state read --state s.favor --q q.npy --out o.npy",
                        .setup = Setup(DeclareRead, Read)},
                Command{.name = "merge",
                        .summary = "Join the prefixes of several states that were made alike",
                        .example = "favor state merge first.favor second.favor --out both.favor",
                        .setup = Setup(DeclareMerge, Merge)},
                Command{.name = "show",
                        .summary = "Show what a state holds",
                        .example = "favor state show --state s.favor --json",
                        .setup = Setup(DeclareShow, Show)}}};
}

}  // namespace favor::cli
