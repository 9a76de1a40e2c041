// Products of few rows by a kernel of our own, which also applies the function of a feed-forward
// layer; others by cuBLASLt if it takes them, else by kernels of our own. What follows these is the
// operation itself: cuBLASLt has no exact GELU, and leaves either C or f(C) where layers need both.
#include "kernels/matmul.h"

#include <string>
#include <variant>

#include "favor/error.h"
#include "kernels/cuda/matmul/few_rows.h"
#include "kernels/cuda/matmul/library.h"
#include "kernels/cuda/matmul/product.h"
#include "kernels/cuda/matmul/tiles.h"
#include "kernels/cuda/parts/elements.cuh"

namespace favor::kernels::cuda {
namespace {

void CheckTypes(const MatmulArguments& arguments) {
  const auto& [a, b, c, add, bias, then] = arguments;
  const bool is_known = a.type() == DataType::kF32 || a.type() == DataType::kBF16;
  if (is_known && b.type() == a.type() && (bias.empty() || bias.type() == a.type()) &&
      (c.type() == a.type() || c.type() == DataType::kF32))
    return;
  throw Error(ErrorCode::kUnavailable, "matmul",
              "given " + std::string(Name(a.type())) + " by " + std::string(Name(b.type())) +
                  " to " + std::string(Name(c.type())) + " arrays on " + Name(c.device()) +
                  ", expected f32 or bf16, and a result of that type or f32");
}

// Whether all that follows is the addition of an array laid out like C, which is then part of the
// product: it saves a pass over C.
bool AddsOnly(const MatmulArguments& arguments) {
  const auto* d = std::get_if<DropoutArguments>(&arguments.then);
  return d != nullptr && !arguments.add && d->share == 0 && !d->residual.empty() &&
         d->residual.type() == arguments.c.type() &&
         d->residual.strides() == arguments.c.strides() &&
         d->residual.data() != arguments.c.data() && d->y.data() == arguments.c.data();
}

void RunEpilogue(const MatmulEpilogue& then, const Context& context) {
  if (const auto* f = std::get_if<ActivationArguments>(&then)) cuda::Activate(*f, context);
  if (const auto* g = std::get_if<ActivationGradients>(&then)) cuda::ActivateBackward(*g, context);
  if (const auto* d = std::get_if<DropoutArguments>(&then)) cuda::Dropout(*d, context);
}

}  // namespace

void Matmul(const MatmulArguments& arguments, const Context& context) {
  CheckTypes(arguments);
  const auto& [a, b, c, add, bias, then] = arguments;
  if (c.size(0) == 0 || c.size(1) == 0) return;
  const bool adds_only = AddsOnly(arguments);
  const MatrixProduct product{.rows = c.size(0),
                              .columns = c.size(1),
                              .depth = a.size(1),
                              .type = a.type(),
                              .result_type = c.type(),
                              .a = {a.data(), a.stride(0), a.stride(1)},
                              .b = {b.data(), b.stride(0), b.stride(1)},
                              .bias = bias.data(),
                              .addend = adds_only ? std::get<DropoutArguments>(then).residual.data()
                                        : add     ? c.data()
                                                  : nullptr,
                              .c = c.data(),
                              .c_row = c.stride(0)};
  const auto* f = std::get_if<ActivationArguments>(&then);
  const bool is_done = MultiplyFewRows(product, f, context);
  if (!is_done && !MultiplyByLibrary(product, context)) MultiplyInTiles(product, context);
  const bool has_followed = adds_only || (is_done && f != nullptr);
  if (!has_followed) RunEpilogue(then, context);
}

}  // namespace favor::kernels::cuda
