// favor attend: attention of queries to keys and values from files.
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention/kind.h"
#include "attention/option_fields.h"
#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/feature_options.h"
#include "cli/field_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/host_copy.h"
#include "core/json.h"
#include "core/stopwatch.h"
#include "favor/attention.h"
#include "favor/npy.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string q, k, v, out, matrix, mask, save_omega, mean;
  std::string grad_out, grad_q, grad_k, grad_v, log_decay, grad_log_decay;
  std::optional<DataType> type;
  bool center_keys = false, unnormalized = false, json = false;
  int64_t chunk = 60;
  AttentionOptions options;
  FieldOptions kind_options;
  FeatureArguments features;
  ContextArguments run;
};

// Throws unless --grad-out comes with at least one of the gradients that follow from it, or none is
// given.
void CheckGradients(const Arguments& a) {
  const bool wanted =
      !a.grad_q.empty() || !a.grad_k.empty() || !a.grad_v.empty() || !a.grad_log_decay.empty();
  if (wanted && a.grad_out.empty()) {
    Throw(
        ErrorCode::kInvalidOption, "attend",
        "gradients of q, k, v or log_decay need the gradient of the output: give --grad-out G.npy");
  }
  if (!a.grad_log_decay.empty() && a.log_decay.empty())
    Throw(ErrorCode::kInvalidOption, "attend: --grad-log-decay", "given without --log-decay");
  if (!wanted && !a.grad_out.empty()) {
    Throw(
        ErrorCode::kInvalidOption, "attend: --grad-out",
        "given without --grad-q, --grad-k, --grad-v or --grad-log-decay: nothing would be written");
  }
}

// Writes the array of any device unless the path is empty.
void Write(const std::string& path, const Tensor& array) {
  if (!path.empty()) WriteNpy(path, HostCopy(array).view());
}

void Run(Arguments& a) {
  AttentionOptions& options = a.options;
  const bool linear = attention::FindKind(options.attention).TakesPlan();
  if (!linear && (a.features.Given() || !a.save_omega.empty())) {
    Throw(ErrorCode::kInvalidOption, "attend",
          "options of features and ω belong to --attention linear, not to {}", options.attention);
  }
  a.features.Read("attend");
  a.kind_options.Apply(attention::OptionFields(options.kind_options));
  CheckGradients(a);
  CheckFiles("attend",
             {a.out, a.matrix, a.save_omega, a.grad_q, a.grad_k, a.grad_v, a.grad_log_decay},
             {a.q, a.k, a.v, a.mask, a.mean, a.features.omega(), a.grad_out, a.log_decay});
  const Context context = a.run.Make();
  const auto rows = [&a](Tensor read) { return RowsOn(a.run.device, std::move(read), a.type); };
  const Tensor q = rows(ReadRows(a.q)), k = rows(ReadMaskedRows(a.k, !a.mask.empty())),
               v = rows(ReadMaskedRows(a.v, !a.mask.empty()));
  Tensor mask, mean;
  options.renormalize = !a.unnormalized;
  options.chunk = a.chunk;
  if (!a.mask.empty()) {
    mask = ReadNpyMask(a.mask);
    options.key_mask = mask;
  }
  Tensor log_decay;
  if (!a.log_decay.empty()) {
    log_decay = ReadNpy(a.log_decay);
    options.log_decay = log_decay;
  }
  options.center_keys = a.center_keys;
  if (!a.mean.empty()) {
    mean = ReadNpy(a.mean);
    options.key_mean = mean;
  }
  if (linear) {
    options.plan =
        a.features.Plan(Heads(q.shape()), q.shape()[q.shape().rank() - 1], context.seed());
  }
  const bool backward = !a.grad_out.empty();
  const Tensor grad_out = backward ? rows(ReadRows(a.grad_out)) : Tensor();
  const Stopwatch watch;
  AttentionReport report;
  AttentionTrace trace;
  const Tensor out =
      Attend(q, k, v, options, context, {.report = &report, .trace = backward ? &trace : nullptr});
  const double seconds = watch.Seconds();
  AttentionGradients gradients;
  const Stopwatch backward_watch;
  if (backward) gradients = AttendBackward({q, k, v, out, grad_out}, options, context, &trace);
  const double backward_seconds = backward_watch.Seconds();
  std::optional<Tensor> matrix;
  if (!a.matrix.empty()) matrix = AttentionMatrix(q, k, options, context);
  if (!a.save_omega.empty()) WriteNpy(a.save_omega, options.plan->Omega());
  if (matrix) Write(a.matrix, *matrix);
  Write(a.grad_q, gradients.q);
  Write(a.grad_k, gradients.k);
  Write(a.grad_v, gradients.v);
  Write(a.grad_log_decay, gradients.log_decay);
  Write(a.out, out);

  if (a.json) {
    Json summary = {{"out", a.out},
                    {"attention", options.attention},
                    {"causal", options.causal},
                    {"seconds", seconds},
                    {"nonpositive_rows", report.nonpositive_rows},
                    {"empty_rows", report.empty_rows}};
    if (backward) summary["backward_seconds"] = backward_seconds;
    if (linear) {
      summary["map"] = options.plan->map().name;
      summary["features"] = options.plan->features();
    }
    PrintJson(summary);
    return;
  }
  fmt::print("{}: {} attention, shape {}, {:.3g} s\n", Printable(a.out), options.attention,
             out.shape().ToString(), seconds);
  if (backward) fmt::print("gradients in {:.3g} s\n", backward_seconds);
  if (report.empty_rows > 0) fmt::print("{} rows see no key: they are 0\n", report.empty_rows);
  if (report.nonpositive_rows > 0) {
    fmt::print("{} rows have a denominator that is not positive, as signed maps can: they are 0\n",
               report.nonpositive_rows);
  }
}

// "exact: softmax, O(L²); linear: …"
std::string KindsHelp() {
  std::vector<std::string> kinds;
  for (const AttentionKindInfo& kind : AttentionKinds())
    kinds.push_back(fmt::format("{}: {}", kind.name, kind.summary));
  return fmt::format("{}", fmt::join(kinds, "; "));
}

void Declare(Options& options, Arguments& a) {
  options.Path("--q", "Q.npy", a.q, "Queries: .npy, f16/f32/f64, [L,d], [H,L,d] or [B,H,L,d]")
      .Required();
  options.Path("--k", "K.npy", a.k, "Keys; fewer heads than queries are shared among them")
      .Required();
  options.Path("--v", "V.npy", a.v, "Values; their dim may differ").Required();
  options.Path("--out", "O.npy", a.out, "Where the output goes: f32 (f64 with --device reference)")
      .Required();
  options.Choice("--attention", AttentionNames(), a.options.attention, KindsHelp());
  a.kind_options.Add(options, options.heading(), attention::OptionFields(a.options.kind_options));
  options.Flag("--causal", a.options.causal, "Query i sees keys 0 to i");
  options.Path("--key-mask", "M.npy", a.mask,
               "0 or false: the key is ignored; [L], [B,L] or [B,H,L]");
  options.Path("--log-decay", "D.npy", a.log_decay,
               "Forgetting: ℓ ≤ 0 of each token, [L], [H,L] or [B,H,L]; what came before it counts "
               "e^ℓ times from then on (causal linear attention)");
  options.Number("--scale", a.options.scale, "Scale of q·k").Default("1/√d");
  options.Flag("--unnormalized", a.unnormalized, "Leave out the division by the sum of weights");
  a.features.Add(options);
  options.Path("--save-omega", "W.npy", a.save_omega, "Write ω, f32 [H,m,d]");
  options
      .OptionalValue(
          "--center-keys",
          [&a](const std::string& path) {
            a.center_keys = true;
            a.mean = path;
          },
          "Subtract a mean from the keys: of this call, or the frozen one of a file, [d] or "
          "[H,d] (causal calls need it)")
      .Placeholder("[MEAN.npy]");
  options.Choice("--compat", a.options.compat,
                 "Reproduce a public implementation, epsilons included: jax or torch (its key "
                 "mask hides values only)");
  options.Path("--matrix", "A.npy", a.matrix, "Also write the attention matrix, [..,L,L]");
  options.Path("--grad-out", "G.npy", a.grad_out,
               "Gradient of a loss with respect to the output: also compute those of q, k and v");
  options.Path("--grad-q", "GQ.npy", a.grad_q, "Where the gradient of q goes");
  options.Path("--grad-k", "GK.npy", a.grad_k, "Where the gradient of k goes");
  options.Path("--grad-v", "GV.npy", a.grad_v, "Where the gradient of v goes");
  options.Path("--grad-log-decay", "GD.npy", a.grad_log_decay,
               "Where the gradient of --log-decay goes, [B,H,L]");
  options.Integer("--chunk", {1, AttentionOptions::kMaxChunk}, a.chunk, "Rows of a causal chunk");
  a.run.AddDevice(options, &a.options.reference);
  AddType(options, a.type, "Convert q, k, v and the gradient of the output to this type first")
      .Default("as in the files; on a GPU f64 becomes f32");
  a.run.Add(options);
  options.Flag("--json", a.json, "Print what was done as JSON");
}

}  // namespace

Command AttendCommand() {
  return {
      .name = "attend",
      .summary = "Attention of queries to keys and values: exact, linear, or a baseline",
      .example =
          "favor attend --q q.npy --k k.npy --v v.npy --out o.npy --attention linear --features "
          "256 --causal",
      .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
