#include "kernels/gradient_norm.h"

#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {
namespace {

template <class T>
double SumOfSquares(const T* g, int64_t begin, int64_t end) {
  double parts[8] = {};
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) {
      const auto value = static_cast<double>(g[i + lane]);
      parts[lane] += value * value;
    }
  }
  for (; i < end; ++i) parts[0] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace

void AddGradientNorm(const GradientNormArguments& a, const Context& context) {
  const std::vector<Piece> pieces = CutIntoPieces(a.segments);
  std::vector<double> sums(pieces.size());
  WithType(a.gradients.type(), [&]<class T>(T) {
    ParallelFor(context, std::ssize(pieces), [&](int64_t i) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      sums[static_cast<size_t>(i)] = SumOfSquares(a.gradients.Data<T>(), piece.begin, piece.end);
    });
  });
  // Summed segment by segment: each is a sum of its own.
  double total = 0;
  for (size_t i = 0; i < pieces.size();) {
    double of_segment = 0;
    for (const int64_t segment = pieces[i].segment;
         i < pieces.size() && pieces[i].segment == segment; ++i)
      of_segment += sums[i];
    total += of_segment;
  }
  a.tally->squared_norm += total;
}

}  // namespace favor::kernels::cpu
