#include "kernels/mean_pool.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {
namespace {

// The weight of each row: 1/(existing tokens of its sequence), 0 for padding.
std::vector<double> Weights(const Sequences& sequences) {
  const auto length = static_cast<size_t>(sequences.length);
  const size_t rows = static_cast<size_t>(sequences.batch) * length;
  std::vector<double> weights(rows, 1.0 / static_cast<double>(length));
  if (sequences.mask.empty()) return weights;
  const float* mask = sequences.mask.Data<float>();
  for (size_t first = 0; first < rows; first += length) {
    double exist = 0;
    for (size_t i = first; i < first + length; ++i) exist += static_cast<double>(mask[i]);
    for (size_t i = first; i < first + length; ++i)
      weights[i] = exist > 0 ? static_cast<double>(mask[i]) / exist : 0;
  }
  return weights;
}

}  // namespace

void MeanPool(const MeanPoolArguments& a, const Context& context) {
  const std::vector<double> weights = Weights(a.sequences);
  WithType(a.y.type(), [&]<class T>(T) {
    const int64_t width = a.y.size(1), length = a.sequences.length;
    ParallelFor(context, a.sequences.batch, [&](int64_t sequence) {
      std::vector<double> sum(static_cast<size_t>(width), 0.0);
      for (int64_t i = sequence * length; i < (sequence + 1) * length; ++i) {
        const T* row = a.x.Data<T>() + i * width;
        const double weight = weights[static_cast<size_t>(i)];
        if (weight == 0) continue;
        for (int64_t j = 0; j < width; ++j)
          sum[static_cast<size_t>(j)] += weight * static_cast<double>(row[j]);
      }
      std::ranges::transform(sum, a.y.Data<T>() + sequence * width,
                             [](double value) { return static_cast<T>(value); });
    });
  });
}

void MeanPoolBackward(const MeanPoolGradients& a, const Context& context) {
  const std::vector<double> weights = Weights(a.sequences);
  WithType(a.grad_x.type(), [&]<class T>(T) {
    const int64_t width = a.grad_x.size(1), length = a.sequences.length;
    ParallelForBlocks(context, a.grad_x.size(0), RowsOfTask(width),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          const T weight = static_cast<T>(weights[static_cast<size_t>(i)]);
                          const T* from = a.grad_y.Data<T>() + i / length * width;
                          T* to = a.grad_x.Data<T>() + i * width;
                          for (int64_t j = 0; j < width; ++j) to[j] = weight * from[j];
                        }
                      });
  });
}

}  // namespace favor::kernels::cpu
