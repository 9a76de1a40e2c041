// Operations on small arrays, each with hand-written loops that say what the result must be. Every
// case runs in double, in float on every SIMD target and, if there are a GPU and a kernel, in float
// and bf16 on the GPU.
#ifndef FAVOR_TESTS_KERNELS_OPERATION_CASE_H_
#define FAVOR_TESTS_KERNELS_OPERATION_CASE_H_

#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "core/device_array.h"
#include "core/tally.h"
#include "favor/random.h"
#include "favor/tensor.h"
#include "kernels/segment.h"

namespace favor {

using Numbers = std::vector<double>;

struct Size {
  int64_t rows, columns;
};
inline std::string Named(const std::string& name, int64_t rows, int64_t columns) {
  return name + " " + std::to_string(rows) + "x" + std::to_string(columns);
}
inline size_t At(int64_t index) { return static_cast<size_t>(index); }

// A number with the sum of the sizes of its terms, which rounding is relative to.
struct Sum {
  double value = 0, size = 0;

  Sum& operator+=(double term) {
    value += term;
    size += std::fabs(term);
    return *this;
  }
};

class OperationRun;

// The arrays of the hand-written loops: values by name, as the operation finds them, and what it
// must leave in its outputs.
struct Hand {
  const Numbers& operator[](const std::string& name) const { return values.at(name); }
  void Put(const std::string& name, int64_t index, const Sum& sum) {
    results[name][static_cast<size_t>(index)] = sum;
  }

  std::map<std::string, Numbers> values;
  std::map<std::string, std::vector<Sum>> results;  // expected outputs
  TallyEntry tally;                                 // before the operation, then as it must be
  double loss_size = 0;                             // rounding of the loss is relative to it
};

struct OperationCase {
  using Function = std::function<void(OperationRun&)>;

  explicit OperationCase(std::string case_name) : name(std::move(case_name)) {}

  // Adds numbers drawn from N(0, 1) and rounded to float, so that all runs begin with the same
  // numbers.
  OperationCase& Array(const std::string& array, const Shape& shape) {
    Numbers drawn(static_cast<size_t>(shape.Elements()));
    RandomStream(7, name + "/" + array).FillNormal(0, drawn);
    return Array(array, shape, drawn);
  }
  OperationCase& Array(const std::string& array, const Shape& shape, const Numbers& values) {
    arrays[array] = {.shape = shape, .values = {}};
    for (const double value : values)
      arrays[array].values.push_back(static_cast<double>(static_cast<float>(value)));
    return *this;
  }
  // Adds a mask [batch, length], f32 in every run: about a quarter is padding, and all of the last
  // sequence.
  OperationCase& Mask(int64_t batch, int64_t length) {
    arrays["mask"] = {.shape = {batch, length}, .values = {}, .always_f32 = true};
    const RandomStream stream(7, name + "/mask");
    for (int64_t i = 0; i < batch * length; ++i) {
      const bool exists = i / length + 1 < batch && stream.Uniform(static_cast<uint64_t>(i)) < 0.75;
      arrays["mask"].values.push_back(exists ? 1 : 0);
    }
    return *this;
  }
  // Adds integers from 0 to `most` − 1.
  OperationCase& Integers(const std::string& array, int64_t count, int64_t most) {
    const RandomStream stream(7, name + "/" + array);
    for (int64_t i = 0; i < count; ++i) {
      integers[array].push_back(static_cast<int64_t>(stream.Uniform(static_cast<uint64_t>(i)) *
                                                     static_cast<double>(most)));
    }
    return *this;
  }
  // These arrays are f32 even if the others are bf16: gradients of parameters, statistics, sums and
  // logarithms.
  OperationCase& KeepF32(std::initializer_list<const char*> kept) {
    for (const char* array : kept) arrays.at(array).never_bf16 = true;
    return *this;
  }
  // `roundings` of f32, each of 2⁻²⁴ of the size of the sum, come between exact numbers and this
  // output. If arrays are bf16, the output itself is rounded to it, and `in_memory` roundings of
  // 2⁻⁸ of the size of the sum come before that: those of intermediate results.
  OperationCase& Output(const std::string& array, double roundings, double in_memory = 0) {
    outputs[array] = {.f32 = roundings, .bf16 = in_memory};
    return *this;
  }
  // Declares `gradient` to be the gradient of Σ grad_y·y with respect to `of`, where `forward`
  // computes y.
  OperationCase& Gradient(const std::string& gradient, const std::string& of) {
    gradients[gradient] = of;
    return *this;
  }

  struct Stored {
    Shape shape;
    Numbers values;
    bool always_f32 = false, never_bf16 = false;

    DataType TypeIn(DataType run) const {
      return always_f32 || (never_bf16 && run == DataType::kBF16) ? DataType::kF32 : run;
    }
  };
  struct Roundings {
    double f32, bf16;
  };
  std::string name;
  std::map<std::string, Stored> arrays;
  std::map<std::string, std::vector<int64_t>> integers;
  std::vector<kernels::Segment> segments;
  TallyEntry tally;
  std::map<std::string, Roundings> outputs;
  double loss_roundings = 0;
  Function run;
  std::function<void(Hand&)> by_hand;
  std::map<std::string, std::string> gradients;
  Function forward;  // what `gradients` are gradients of
};

// One run of a case: its arrays in one type on one device. Each begins `shift` elements after an
// address that is aligned to 64 bytes.
class OperationRun {
 public:
  OperationRun(const OperationCase& operation, DataType type, const Context& run_context,
               int64_t shift = 0)
      : context(run_context), shift_(shift), tally_(run_context), integers_(operation.integers) {
    for (const auto& [name, stored] : operation.arrays) {
      Tensor exact({shift + stored.shape.Elements()}, DataType::kF64);
      std::ranges::copy(stored.values, exact.Data<double>() + shift);
      arrays_[name] = {.memory = exact.To(stored.TypeIn(type)).To(context.device()),
                       .shape = stored.shape};
    }
    SendTo(tally_.At(), &operation.tally, sizeof(TallyEntry), context.device(),
           internal::Inside(context).stream);
    segments_ = {segments_memory_.Send(operation.segments, context),
                 std::ssize(operation.segments)};
  }

  View operator[](const std::string& name) {
    Array& array = arrays_.at(name);
    const View all = array.memory;
    return {all.Range(0, shift_, array.shape.Elements()).data(), all.type(), array.shape,
            RowMajorStrides(array.shape), all.device()};
  }
  const int64_t* Places(const std::string& name) {
    return places_memory_.Send(integers_.at(name), context);
  }
  const int32_t* Indices(const std::string& name) {
    const auto& wide = integers_.at(name);
    narrow_.emplace_back(wide.begin(), wide.end());
    return indices_memory_.Send(narrow_.back(), context);
  }
  bool Has(const std::string& integers) const { return integers_.contains(integers); }
  TallyEntry* tally() const { return tally_.At(); }
  const kernels::Segments& segments() const { return segments_; }

  TallyEntry Tallied() const { return tally_.Read()[0]; }
  Numbers Values(const std::string& name) const {
    context.Wait();
    const Tensor exact = arrays_.at(name).memory.To(Device{}).To(DataType::kF64);
    return {exact.Data<double>() + shift_, exact.Data<double>() + exact.shape().Elements()};
  }

  const Context& context;

 private:
  struct Array {
    Tensor memory;
    Shape shape;
  };

  int64_t shift_;
  std::map<std::string, Array> arrays_;
  Tally tally_;
  std::map<std::string, std::vector<int64_t>> integers_;
  std::deque<std::vector<int32_t>> narrow_;
  DeviceArray<int32_t> indices_memory_;
  DeviceArray<int64_t> places_memory_;
  DeviceArray<kernels::Segment> segments_memory_;
  kernels::Segments segments_{};
};

// Rows and columns: one row, tails of vectors and none, more rows than one task or one sum takes,
// rows for more than one warp of a GPU.
inline constexpr Size kSizes[] = {{1, 1},   {1, 19},   {5, 8},    {7, 33},
                                  {33, 64}, {300, 10}, {600, 70}, {3, 1032}};

std::vector<OperationCase> TokenCases();   // embedding, positions, dropout, pooling
std::vector<OperationCase> LayerCases();   // what layers compute from them
std::vector<OperationCase> HeadCases();    // losses and products
std::vector<OperationCase> UnitCases();    // rows of linearised units
std::vector<OperationCase> UpdateCases();  // what a step does to all parameters

}  // namespace favor

#endif  // FAVOR_TESTS_KERNELS_OPERATION_CASE_H_
