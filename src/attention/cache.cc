#include "attention/cache.h"

#include <cmath>

#include "core/error_text.h"

namespace favor::attention {

kernels::AttentionProblem CacheShape::Problem(const AttentionInputs& inputs, double scale) const {
  const int64_t length = inputs.q.size(2);
  return {.q = inputs.q,
          .k = inputs.k,
          .v = inputs.v,
          .batch = batch,
          .heads = heads,
          .kv_heads = kv_heads,
          .query_length = length,
          .key_length = length,
          .dim = dim,
          .value_dim = value_dim,
          .causal = true,
          .scale = scale};
}

template <class T>
std::vector<T> LoadNumbers(const io::Safetensors& file, const std::string& name,
                           const std::vector<int64_t>& shape, const std::string& who) {
  const io::SafetensorsEntry& entry = file.Entry(name, who);
  if (entry.shape != shape)
    Throw(ErrorCode::kInvalidData, Printable(who), "'{}' has another shape than the model's", name);
  std::vector<T> values = entry.Values<T>(who);
  for (const T value : values) {
    if (!std::isfinite(value))
      Throw(ErrorCode::kInvalidData, Printable(who), "'{}' holds NaN or infinity", name);
  }
  return values;
}

template std::vector<float> LoadNumbers(const io::Safetensors&, const std::string&,
                                        const std::vector<int64_t>&, const std::string&);
template std::vector<double> LoadNumbers(const io::Safetensors&, const std::string&,
                                         const std::vector<int64_t>&, const std::string&);

}  // namespace favor::attention
