#include "kernels/matmul.h"

#include <algorithm>
#include <variant>

#include "core/parallel.h"

namespace favor::kernels::reference {

void Matmul(const MatmulArguments& arguments, const Context& context) {
  const auto& [a, b, c, add, bias, then] = arguments;
  const int64_t columns = c.size(1), depth = a.size(1);
  const auto *a_data = a.Data<double>(), *b_data = b.Data<double>();
  auto* c_data = c.Data<double>();
  ParallelFor(context, c.size(0),
              [&, &a = a, &b = b, &c = c, &bias = bias, add = add](int64_t row) {
                double* out = c_data + row * c.stride(0);
                if (!bias.empty()) {
                  std::copy_n(bias.Data<double>(), columns, out);
                } else if (!add) {
                  std::fill_n(out, columns, 0.0);
                }
                for (int64_t k = 0; k < depth; ++k) {
                  const double factor = a_data[row * a.stride(0) + k * a.stride(1)];
                  const double* in = b_data + k * b.stride(0);
                  for (int64_t j = 0; j < columns; ++j) out[j] += factor * in[j * b.stride(1)];
                }
              });
  if (const auto* f = std::get_if<ActivationArguments>(&then)) reference::Activate(*f, context);
  if (const auto* g = std::get_if<ActivationGradients>(&then))
    reference::ActivateBackward(*g, context);
  if (const auto* d = std::get_if<DropoutArguments>(&then)) cpu::Dropout(*d, context);
}

}  // namespace favor::kernels::reference
