#include "inference/label_outputs.h"

#include <algorithm>
#include <cmath>

#include "core/error_text.h"

namespace favor::inference {

std::vector<double> Softmax(std::span<const float> logits) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }))
    Throw(ErrorCode::kInvalidData, "labels", "the model's outputs are not finite");
  const auto most = static_cast<double>(*std::ranges::max_element(logits));
  std::vector<double> probabilities;
  double sum = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(static_cast<double>(logit) - most));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

std::string ClassName(size_t number, const std::vector<std::string>& names) {
  return number < names.size() ? names[number] : std::to_string(number);
}

}  // namespace favor::inference
