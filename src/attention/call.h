// One attention call, checked once: what to compute, on which arrays, and by which kind. Everything
// below relies on it and never looks at the options again.
#ifndef FAVOR_ATTENTION_CALL_H_
#define FAVOR_ATTENTION_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "attention/token_marks.h"
#include "favor/attention.h"
#include "kernels/attention_problem.h"

namespace favor::attention {

class Kind;  // kind.h

struct Call {
  const Kind& kind;
  kernels::AttentionProblem problem{};
  Shape output_shape;  // with the caller's rank
  bool reference = false;
  // The next fields are for kinds with random features.
  std::optional<FeaturePlan> plan;  // given, or drawn
  bool owns_plan = false;           // drawn for this call
  Compat compat = Compat::kNone;
  bool center_keys = false;
  // Frozen, f64 [1, heads, dim] on the device; null: the mean of the call's own keys.
  std::shared_ptr<const Tensor> key_mean;
  // Options that only the kind has, in the order in which it declares them.
  std::vector<int64_t> kind_options;

  TokenMarks marks;  // what problem.mask and problem.log_decay point to

  Device device() const { return problem.q.device(); }
  DataType OutputType() const { return reference ? DataType::kF64 : DataType::kF32; }
};

// The type of numbers that a call keeps of each row: f64 on the CPU, f32 on a GPU.
inline DataType RowTypeOn(const Device& device) {
  return device.type == DeviceType::kCpu ? DataType::kF64 : DataType::kF32;
}
inline DataType RowType(const Call& call) { return RowTypeOn(call.device()); }
// What outputs may be besides OutputType(): the type of the inputs on a GPU.
std::optional<DataType> OtherType(const Call& call);

// Who made the masks and decays of a call.
enum class MarksFrom : uint8_t { kCaller, kModel };

// Checks shapes and options: throws kInvalidData or kInvalidOption. The numbers in the arrays are
// checked by a kernel (kernels/attention_checks.h).
Call CheckCall(const AttentionInputs& inputs, const AttentionOptions& options,
               const Context& context, MarksFrom marks = MarksFrom::kCaller);

// Explains why a kernel refused numbers: throws kInvalidData naming the array and the row of the
// first NaN or infinity, or the numbers that are too large. Returns if nothing is found. Arrays of
// a GPU are copied.
void ExplainUnusable(const kernels::AttentionProblem& problem);
// The same for one array of values or gradients.
void ExplainValues(const ConstView& values, const ConstView& mask, std::string_view name);

// A mean of [d], or of one row for each of a divisor of `heads`, as f64 [1, heads, d] on the CPU;
// throws unless it fits.
Tensor FrozenMean(const ConstView& given, int64_t heads, int64_t dim);

// [1, heads, d] seen as [batch, heads, d].
ConstView ForEveryBatch(const ConstView& one, int64_t batch);

// Throws unless arrays of an operation on `device` can be read there: on a GPU they must be f32,
// f16 or bf16 with contiguous rows. `who` and `name` begin the error.
void CheckArrayOn(const Device& device, const ConstView& array, std::string_view who,
                  std::string_view name);
// Throws unless the context is on the device of the arrays.
void CheckContext(const Device& device, const Context& context, std::string_view who);

// Throws unless the map's kernel is unchanged (after the division) when a vector is subtracted from
// all keys.
void CheckCentring(const FeaturePlan& plan);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_CALL_H_
