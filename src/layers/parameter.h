// What a model learns: named arrays with their gradients. The values of all parameters are one
// array, and so are their gradients: everything that a step does to them is a single operation.
#ifndef FAVOR_LAYERS_PARAMETER_H_
#define FAVOR_LAYERS_PARAMETER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "favor/context.h"
#include "favor/tensor.h"
#include "kernels/segment.h"

namespace favor::layers {

// Its views are parts of the arrays of its set: empty until those are allocated.
struct Parameter {
  std::string name;  // as in the checkpoint: "layers.0.attention.query.weight"
  Shape shape;
  bool decays;        // weight decay acts on it: matrices, not biases and norms
  int64_t begin = 0;  // its first element in every array
  View value;         // what the optimizer reads and writes
  ConstView read;     // what passes read: the same memory, or a copy in another type
  View grad;
  // The layer that owns it can store a whole gradient instead of adding to one that is 0.
  bool is_stored = false;
  bool is_stale = false;  // `grad` counts as 0, whatever it holds
  bool frozen = false;    // the optimizer does not change it: layers need not compute its gradient

  // Whether a gradient is to be added to what is there; from now on, it is.
  bool Adds() { return !std::exchange(is_stale, false); }
};

// Where a parameter begins: at a multiple of 64 bytes, or right behind the one before.
enum class Place : uint8_t { kAligned, kBehind };

// How first values are drawn; or the values themselves.
struct Initial {
  double mean = 0, deviation = 0;
  std::vector<double> values = {};  // one for each element; empty: drawn
};

// All parameters of a model, in the order of their creation. A parameter's first values are a pure
// function of (seed, name): they are f32 numbers even if the type is f64.
//
//   layers::ParameterSet parameters({.seed = 1});
//   layers::Linear layer(parameters, "linear", 3, 2);   // adds its parameters
//   parameters.Allocate();
class ParameterSet {
 public:
  struct Options {
    uint64_t seed = 0;
    DataType type = DataType::kF32;
    std::optional<DataType> pass_type;  // type that passes read; none: `type`, without a copy
    Device device;
    bool shapes_only = false;  // nothing is allocated: to count parameters and memory
    bool draw = true;          // false: zeros
  };
  explicit ParameterSet(const Options& options) : options_(options) {}

  // Adds a parameter; only before Allocate.
  Parameter& Add(const std::string& name, const Shape& shape, const Initial& initial, bool decays,
                 Place place = Place::kAligned);
  // Allocates and initialises all that was added.
  void Allocate();

  DataType type() const { return options_.type; }
  DataType pass_type() const { return options_.pass_type.value_or(options_.type); }
  Device device() const { return options_.device; }
  const std::vector<std::unique_ptr<Parameter>>& all() const { return all_; }
  int64_t Count() const { return count_; }  // numbers in all parameters

  // Makes what was written to the values visible to passes.
  void Refresh(const Context& context);
  // Gradients are allocated when one of these is first called: a model that only answers has none.
  void ZeroGradients(const Context& context);
  // The same for a step, without writing to those that layers will store. SettleGradients must
  // follow before all of them are read: it sets to 0 what no layer has stored.
  void BeginGradients(const Context& context);
  void SettleGradients(const Context& context);

  // From now on `segments` are without the parameters that `frozen` names.
  void Freeze(const std::function<bool(const std::string& name)>& frozen);

  // The arrays of all parameters, [elements]: parameters in their order, with zeros between them.
  View values() { return values_; }
  ConstView values() const { return values_; }
  View gradients() { return gradients_; }  // empty before the first ZeroGradients
  kernels::Segments segments() const;      // those that the optimizer changes

 private:
  void MakeSegments(const std::function<bool(const std::string& name)>& frozen);
  int64_t Aligned(int64_t elements) const;
  Tensor FirstValues() const;

  Options options_;
  int64_t count_ = 0, elements_ = 0;
  std::vector<std::unique_ptr<Parameter>> all_;
  std::vector<Initial> initial_;  // one for each of `all_`
  Tensor values_, pass_values_, gradients_;
  internal::Memory segments_;  // kernels::Segment of each parameter, on the device
  int64_t segment_count_ = 0;
};

// The part of an array of all parameters, such as a moment of the optimizer, that belongs to one.
View PartOf(const View& array, const Parameter& parameter);

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_PARAMETER_H_
