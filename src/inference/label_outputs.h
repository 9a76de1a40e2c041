// What the outputs of a model of labels stand for.
#ifndef FAVOR_INFERENCE_LABEL_OUTPUTS_H_
#define FAVOR_INFERENCE_LABEL_OUTPUTS_H_

#include <span>
#include <string>
#include <vector>

namespace favor::inference {

// Probabilities, which sum to 1. Throws kInvalidData for logits that are not finite.
std::vector<double> Softmax(std::span<const float> logits);

// The name of a class, or its number if classes have no names.
std::string ClassName(size_t number, const std::vector<std::string>& names);

}  // namespace favor::inference

#endif  // FAVOR_INFERENCE_LABEL_OUTPUTS_H_
