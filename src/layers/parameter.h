// What a model learns: named arrays with their gradients.
#ifndef FAVOR_LAYERS_PARAMETER_H_
#define FAVOR_LAYERS_PARAMETER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "favor/tensor.h"

namespace favor::layers {

struct Parameter {
  std::string name;  // as in the checkpoint: "layers.0.attention.query.weight"
  Shape shape;
  Tensor value, grad;
  bool decays;  // weight decay acts on it: matrices, not biases and norms
};

// How values are drawn at first.
struct Initial {
  double mean = 0, deviation = 0;
};

// All parameters of a model, in the order of their creation. A parameter's first values are a pure
// function of (seed, name): f32 numbers also where the type is f64.
class ParameterSet {
 public:
  struct Options {
    uint64_t seed = 0;
    DataType type = DataType::kF32;
    bool shapes_only = false;  // nothing is allocated: to count parameters and plan memory
    bool draw = true;          // false: zeros
  };
  explicit ParameterSet(const Options& options) : options_(options) {}

  Parameter& Add(const std::string& name, const Shape& shape, const Initial& initial, bool decays);

  DataType type() const { return options_.type; }
  const std::vector<std::unique_ptr<Parameter>>& all() const { return all_; }
  int64_t Count() const { return count_; }  // of numbers
  // Gradients are allocated when they are first asked for: a model that only answers has none.
  void ZeroGradients();

 private:
  Options options_;
  int64_t count_ = 0;
  std::vector<std::unique_ptr<Parameter>> all_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_PARAMETER_H_
