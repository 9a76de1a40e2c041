// Exponents and factors of rows: E_r(x) = e(B ω_r·x) + norm_slope·‖x‖²/2 + A‖ω_r‖² and g_r(x),
// nothing stabilised, and their gradients. All arrays are row-major: x [rows, d], exponents and
// factors [rows, width].
#ifndef FAVOR_KERNELS_FEATURES_H_
#define FAVOR_KERNELS_FEATURES_H_

#include <cstdint>
#include <vector>

#include "favor/context.h"
#include "kernels/map_table.h"
#include "kernels/omega.h"

namespace favor::kernels {

// All that turns rows of one head into features.
struct HeadFeatures {
  const MapEntry* map = nullptr;
  Omega omega;
  double epsilon = 0;
  double argument_scale = 1;         // B
  double oprf_a = 0;                 // A
  std::vector<double> squared_norm;  // [m], ‖ω_r‖²; of oprf only
  std::vector<double> offset;        // [m], A‖ω_r‖²
  std::vector<float> offset_f32;     // the same, rounded
  double log_normalizer = 0;         // φ = exp(E + log_normalizer)·g

  int64_t Width() const { return omega.features * map->traits->info.parts; }
};

// Gives the head another A: B, offsets and normaliser follow.
void SetOprfA(double a, HeadFeatures& head);

namespace reference {
void Features(const HeadFeatures& head, const double* x, int64_t rows, double* exponents,
              double* factors);
void FeaturesBackward(const HeadFeatures& head, const double* x, const double* grad_exponents,
                      const double* grad_factors, int64_t rows, double* grad_x);
}  // namespace reference

namespace cpu {
void Features(const HeadFeatures& head, const float* x, int64_t rows, const Context& context,
              float* exponents, float* factors);
void FeaturesBackward(const HeadFeatures& head, const float* x, const float* grad_exponents,
                      const float* grad_factors, int64_t rows, const Context& context,
                      float* grad_x);
}  // namespace cpu

// Pointers are to memory of the context's GPU. A structured ω is applied as a dense matrix: at the
// sizes of a head the tensor of ω fits in cache and products are free.
namespace cuda {
void Features(const HeadFeatures& head, const float* x, int64_t rows, const Context& context,
              float* exponents, float* factors);
}  // namespace cuda

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_FEATURES_H_
