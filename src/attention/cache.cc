#include "attention/cache.h"

#include <cmath>
#include <utility>

#include "core/device.h"
#include "core/error_text.h"
#include "core/host_copy.h"

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

void StoreRows(const ConstView& rows, const std::string& name, const std::vector<int64_t>& shape,
               io::Safetensors& file) {
  std::vector<float> values(static_cast<size_t>(rows.shape().Elements()));
  Copy(HostCopy(rows).view(), View(values.data(), rows.shape()));
  file.Add(name, shape, std::move(values));
}

void LoadRows(const io::Safetensors& file, const std::string& name,
              const std::vector<int64_t>& shape, const std::string& who, const View& rows) {
  const std::vector<float> values = LoadNumbers<float>(file, name, shape, who);
  Tensor converted(rows.shape(), rows.type());
  Copy(ConstView(values.data(), rows.shape()), converted);
  CopyBytes(rows.data(), rows.device(), converted.view().data(), {}, converted.Bytes());
}

}  // namespace favor::attention
