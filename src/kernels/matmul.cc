#include "kernels/matmul.h"

#include <fmt/format.h>

namespace favor::kernels {

std::string Describe(const MatmulArguments& arguments) {
  const auto& [a, b, c, add, bias, then] = arguments;
  constexpr const char* kThen[] = {"", ", activation", ", gradients of activation", ", residual"};
  return fmt::format("{} × {} × {}{}{}{}", a.size(0), a.size(1), b.size(1),
                     bias.empty() ? "" : " + bias", add ? " + what is there" : "",
                     kThen[then.index()]);
}

}  // namespace favor::kernels
