// The hidden units of a feed-forward layer as products of features (favor/linearised.h):
//
//   y = b' + Σ_p Ψ_p(x̂)·G_pᵀ,   G_p = W₂·diag(c_k)·Φ_p(Ŵ),   b' = b₂ + W₂c₀
//
// with x̂ = [x, 1]/s and ŵ = [w, b]·s/half: the bias is the weight of an input that is always 1.
// Part 0 is of degree 1, where Φ(ŵ) = ŵ and Ψ(x̂) = x̂; c_k are coefficients of the polynomial, the
// same for all units or learned for each. A token costs O(width·columns), whatever the number of
// units; G is made once for all tokens of a pass.
#ifndef FAVOR_LAYERS_LINEARISED_UNITS_H_
#define FAVOR_LAYERS_LINEARISED_UNITS_H_

#include <memory>
#include <string>
#include <vector>

#include "favor/linearised.h"
#include "layers/arena.h"
#include "layers/linear.h"

namespace favor::layers {

struct LinearisedShape {
  Linearisation linearisation;  // of width + 1 elements; its middle is 0
  bool own_curves = false;      // c_k is a parameter, "<name>.curve" [degree + 1, units]
};

class LinearisedUnits {
 public:
  // `up` and `down` hold W₁, b₁ and W₂, b₂.
  LinearisedUnits(ParameterSet& parameters, const std::string& name, const Linear& up,
                  const Linear& down, const LinearisedShape& shape);

  // Draws the sketches: a pure function of the seed.
  void Draw(uint64_t seed);

  struct Part {
    View phi, scaled;  // Φ and diag(c_k)·Φ, [units, columns]
    View folded;       // G, [width, columns]
    View psi;          // [tokens, columns]
  };
  struct Activations {
    View bias;                // b', [1, width]
    std::vector<Part> parts;  // ŵ and x̂ are phi and psi of the first
  };
  Activations Reserve(Arena& arena, int64_t tokens) const;
  struct Workspace {
    View grad_bias;                  // [1, width]
    View grad_folded;                // [width, most columns]
    View grad_phi, grad_psi;         // [units or tokens, most columns]
    View grad_weights, grad_inputs;  // of ŵ and x̂, [units or tokens, width + 1]
    View part_weights, part_inputs;  // what one part adds to them
  };
  Workspace ReserveWorkspace(Arena& arena, int64_t tokens) const;

  // What does not depend on tokens, for a decoder to keep: b' and G.
  struct Folded {
    Tensor bias;
    std::vector<Tensor> parts;
  };

  // x, y [tokens, width]; `then` is an operation on y. If `kept` is given, b' and G are taken from
  // there, once they are.
  void Forward(const Context& context, ConstView x, const Activations& a,
               const kernels::MatmulEpilogue& then, std::shared_ptr<const Folded>* kept,
               View y) const;
  void Backward(const Context& context, const Activations& a, const Workspace& w, ConstView grad_y,
                View grad_x);

 private:
  void Fold(const Context& context, const Activations& a) const;
  ConstView Curve(int degree) const;  // c_k of every unit, [1, units]
  void Features(const Context& context, size_t part, ConstView x, View y) const;
  void FeaturesBackward(const Context& context, size_t part, ConstView x, ConstView grad_y,
                        View grad_x) const;

  Linearisation linearisation_;
  Parameter *up_, *up_bias_, *down_, *down_bias_;
  int64_t units_, dim_;                     // dim_ = width + 1
  std::vector<Linearisation::Part> sizes_;  // the linear part first
  int64_t most_columns_ = 0;
  double weight_scale_, input_scale_;  // s/half and 1/s
  Tensor curve_;                       // [degree + 1, units], if it is not learned
  Parameter* own_curve_ = nullptr;
  std::vector<LinearisedFeatures::Part> drawn_;  // of all parts but the first
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_LINEARISED_UNITS_H_
