#include "layers/embedding.h"

#include "core/parallel.h"
#include "layers/dispatch.h"

namespace favor::layers {

Embedding::Embedding(ParameterSet& parameters, const std::string& name, const Shape& shape,
                     const EmbeddingOptions& options)
    : weight_(&parameters.Add(name + ".weight", shape, {.deviation = options.deviation}, true)),
      scale_(options.scale) {}

void Embedding::Forward(const Context& context, std::span<const int32_t> indices, bool add,
                        View y) const {
  WithType(y.type(), [&]<class T>(T) {
    const int64_t width = y.size(1);
    const T scale = static_cast<T>(scale_);
    ParallelForBlocks(context, y.size(0), RowsOfTask(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = weight_->value.Data<T>() + indices[static_cast<size_t>(row)] * width;
        T* to = y.Data<T>() + row * width;
        for (int64_t i = 0; i < width; ++i) to[i] = add ? to[i] + scale * from[i] : scale * from[i];
      }
    });
  });
}

void Embedding::Backward(const Context& context, std::span<const int32_t> indices,
                         ConstView grad_y) {
  // Rows may share an index: a task owns columns and takes the rows in their order.
  constexpr int64_t kColumns = 64;
  WithType(grad_y.type(), [&]<class T>(T) {
    const int64_t width = grad_y.size(1);
    const T scale = static_cast<T>(scale_);
    ParallelForBlocks(context, width, kColumns, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < grad_y.size(0); ++row) {
        const T* from = grad_y.Data<T>() + row * width;
        T* to = weight_->grad.Data<T>() + indices[static_cast<size_t>(row)] * width;
        for (int64_t i = begin; i < end; ++i) to[i] += scale * from[i];
      }
    });
  });
}

}  // namespace favor::layers
