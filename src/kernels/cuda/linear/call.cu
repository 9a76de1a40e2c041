#include "kernels/cuda/linear/call.cuh"

#include <cmath>
#include <string>

#include "kernels/cuda/device_features.h"

namespace favor::kernels::cuda::general {
namespace {

constexpr char kName[] = "linear attention";

const float* DataOf(const Tensor& tensor) {
  return tensor.empty() ? nullptr : tensor.Data<float>();
}

MapConstants ConstantsOf(const FeatureConstants& constants, const Context& context) {
  const DeviceFeatures& device = constants.OnGpu(context);
  const MapEntry& map = constants.map();
  const bool is_row_map = map.IsRowMap();
  const auto features = static_cast<double>(constants.features());
  return {
      .map = map.index,
      .dim = static_cast<int>(constants.dim()),
      .features = static_cast<int>(constants.features()),
      .omega_rows = static_cast<int>(is_row_map ? 1 : constants.omega_rows()),
      .width = static_cast<int>(constants.width()),
      .entries = constants.entries(),
      .is_row_map = is_row_map,
      .is_linear = map.linear,
      .is_masked = map.masked,
      .is_flat = map.flat,
      .is_nonnegative = map.traits->info.nonnegative,
      .has_factor = is_row_map || map.traits->has_factor,
      .omega = DataOf(device.omega),
      .offset = DataOf(device.offset),
      .argument_scale = DataOf(device.argument_scale),
      .log_normalizer = DataOf(device.log_normalizer),
      .squared_norm = DataOf(device.squared_norm),
      .mask_weight = DataOf(device.mask_weight),
      .epsilon = static_cast<float>(constants.epsilon()),
      .norm_slope = constants.Head(0).norm_slope,
      .plain_log_normalizer = std::log(map.traits->normalizer) - std::log(features) / 2,
      .tables = device.tables,
  };
}

[[noreturn]] void Expect(const std::string& given, const std::string& expected) {
  throw Error(ErrorCode::kUnavailable, kName, "given " + given + " on a GPU, expected " + expected);
}

}  // namespace

void Refuse(const AttentionProblem& problem, const FeatureConstants& constants) {
  const MapEntry& map = constants.map();
  const std::string name(map.traits->info.name);
  if (map.IsRowMap() && constants.polynomial().IsRandom())
    throw Error(ErrorCode::kUnavailable, kName, "the map '" + name + "' runs on the cpu only");
  if (problem.window >= 0)
    throw Error(ErrorCode::kUnavailable, kName, "windows run on the cpu only");
  if (problem.dim > kMostColumns || problem.value_dim > kMostColumns) {
    Expect("dim " + std::to_string(problem.dim) + " and value dim " +
               std::to_string(problem.value_dim),
           "at most " + std::to_string(kMostColumns));
  }
  if (constants.width() > kMostWidth) {
    Expect("features of " + std::to_string(constants.width()) + " columns",
           "at most " + std::to_string(kMostWidth));
  }
}

Call MakeCall(const AttentionProblem& problem, const LinearHeads& heads, TallyEntry* tally,
              const Context& context) {
  return {
      .q = ArrayOf(problem.q),
      .k = ArrayOf(problem.k),
      .v = ArrayOf(problem.v),
      .mask = ArrayOf(problem.mask),
      .log_decay = ArrayOf(problem.log_decay),
      .key_mean = ArrayOf(heads.key_mean),
      .oprf_a = ArrayOf(heads.oprf_a),
      .map = ConstantsOf(heads.features, context),
      .heads = problem.heads,
      .sharing = problem.heads / problem.kv_heads,
      .groups = problem.Groups(),
      .turns = 1,
      .turn = 0,
      .query_length = problem.q.empty() ? 0 : problem.query_length,
      .key_length = problem.k.empty() ? 0 : problem.key_length,
      .dim = static_cast<int>(problem.dim),
      .value_dim = static_cast<int>(problem.value_dim),
      .scale = problem.scale,
      .sqrt_scale = std::sqrt(problem.scale),
      .least_denominator = heads.features.least_denominator(),
      .normalize = problem.normalize,
      .tally = tally,
  };
}

Call CallOf(const LinearArguments& a, const Context& context) {
  Call call = MakeCall(a.call.problem, a.heads, a.call.tally, context);
  call.out = ArrayOf(a.call.out);
  call.log_sum = ArrayOfGroups(a.call.log_sum, call.heads);
  call.log_scale = ArrayOfGroups(a.call.parts.log_scale, call.heads);
  call.numerator = ArrayOfGroups(a.call.parts.numerator, call.heads);
  call.denominator = ArrayOfGroups(a.call.parts.denominator, call.heads);
  return call;
}

Call CallOf(const LinearGradients& a, int64_t turn, const Context& context) {
  Call call = MakeCall(a.call.problem, a.heads, a.call.tally, context);
  call.turns = call.sharing;
  call.turn = turn;
  call.groups /= call.turns;
  call.out = ArrayOf(a.call.out);
  call.grad_out = ArrayOf(a.call.grad_out);
  call.log_sum = ArrayOfGroups(a.call.log_sum, call.heads);
  call.delta = ArrayOfGroups(a.call.delta, call.heads);
  call.grad_q = ArrayOf(a.call.grad_q);
  call.grad_k = ArrayOf(a.call.grad_k);
  call.grad_v = ArrayOf(a.call.grad_v);
  call.grad_log_decay = ArrayOf(a.call.grad_log_decay);
  call.add_to_queries = a.call.add;
  call.add_to_keys = a.call.add || turn > 0;
  return call;
}

}  // namespace favor::kernels::cuda::general
