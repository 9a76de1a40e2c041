// favor features: φ(x) of the rows of an array, unstabilised, in f64.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/feature_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/json.h"
#include "favor/npy.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string input, out, save_omega, oprf_with;
  FeatureRole role = FeatureRole::kQuery;
  double scale = 1;
  bool log = false, json = false;
  FeatureArguments features;
  ContextArguments run;
};

// x·√scale in f64, so that products of two inputs are scaled by `scale`.
Tensor Scaled(const Tensor& rows, double scale) {
  Tensor scaled = rows.To(DataType::kF64);
  double* values = scaled.Data<double>();
  for (int64_t i = 0; i < scaled.shape().Elements(); ++i) values[i] *= std::sqrt(scale);
  return scaled;
}

void Run(Arguments& arguments) {
  if (arguments.scale <= 0)
    Throw(ErrorCode::kInvalidOption, "features: --scale", "given {}, expected a number above 0",
          arguments.scale);
  arguments.features.Read("features");
  CheckFiles("features", {arguments.out, arguments.save_omega},
             {arguments.input, arguments.features.omega(), arguments.oprf_with});
  const Context context = arguments.run.Make();
  Tensor x = Scaled(ReadRows(arguments.input), arguments.scale);
  if (!arguments.oprf_with.empty()) {
    arguments.features.SetOprfA(
        OptimalOprfA(x, Scaled(ReadRows(arguments.oprf_with), arguments.scale), context));
  }
  const int64_t dim = x.shape()[x.shape().rank() - 1];
  const FeaturePlan plan = arguments.features.Plan(Heads(x.shape()), dim, context.seed());
  const Device device = context.device();
  const Tensor rows = RowsOn(device, std::move(x));
  Tensor result;
  if (arguments.log) {
    const Shape shape = rows.shape().WithLast(plan.width());
    Tensor exponents(shape, rows.type(), device), factors(shape, rows.type(), device);
    FeatureExponents(plan, rows, context, exponents, factors, arguments.role);
    result = exponents.To(Device{}).To(DataType::kF64);
  } else {
    result = Features(plan, rows, context, arguments.role);
  }
  if (!arguments.save_omega.empty()) WriteNpy(arguments.save_omega, plan.Omega());
  WriteNpy(arguments.out, result);

  if (arguments.json) {
    Json summary = {{"out", arguments.out},
                    {"map", plan.map().name},
                    {"projection", arguments.features.projection()},
                    {"features", plan.features()},
                    {"width", plan.width()},
                    {"dim", plan.dim()},
                    {"heads", plan.heads()},
                    {"log_normalizer", Json::array()},
                    {"oprf_a", Json::array()}};
    for (int64_t head = 0; head < plan.heads(); ++head) {
      summary["log_normalizer"].push_back(plan.LogNormalizer(head));
      summary["oprf_a"].push_back(plan.OprfA(head));
    }
    PrintJson(summary);
  } else {
    fmt::print("{}: {} of shape {}, map {}, {} ω\n", Printable(arguments.out),
               arguments.log ? "exponents" : "φ", result.shape().ToString(), plan.map().name,
               arguments.features.projection());
  }
}

void Declare(Options& options, Arguments& a) {
  options
      .Path("--input", "X.npy", a.input, "Rows x: .npy, f16/f32/f64, [L,d], [H,L,d] or [B,H,L,d]")
      .Required();
  options.Path("--out", "PHI.npy", a.out, "Where φ goes: f64, [..., L, width]").Required();
  options.Choice("--role", a.role,
                 "Which side x is on; only polynomials with negative coefficients tell them apart");
  a.features.Add(options);
  options.Flag("--log", a.log,
               "Write the exponents E instead, where φ = exp(E + c)·g (--json prints c)");
  options.Number("--scale", a.scale,
                 "Kernel of S·(x·y): rows are multiplied by √S (attention: 1/√d)");
  options.Path("--save-omega", "W.npy", a.save_omega, "Write ω, f32 [H,m,d]");
  options.Path("--oprf-with", "Y.npy", a.oprf_with,
               "With the map oprf: take A from the statistics of x and of these rows (the "
               "other side)");
  a.run.AddDevice(options);
  a.run.Add(options);
  options.Flag("--json", a.json, "Print what was done as JSON");
}

}  // namespace

Command FeaturesCommand() {
  return {
      .name = "features",
      .summary = "Write the features φ(x) of the rows of an array, unstabilised, in f64",
      .example =
          "favor features --input x.npy --role query --map positive --features 256 --out phi.npy",
      .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
