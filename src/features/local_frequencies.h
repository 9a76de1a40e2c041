// What the maps with a local width need of a plan: frequencies of their masks, and their weights.
#ifndef FAVOR_FEATURES_LOCAL_FREQUENCIES_H_
#define FAVOR_FEATURES_LOCAL_FREQUENCIES_H_

#include <vector>

#include "favor/features.h"
#include "favor/random.h"
#include "kernels/map_table.h"
#include "kernels/omega.h"

namespace favor::features {

// Throws kInvalidOption for widths out of range, and for widths of maps that take none.
void CheckLocal(const FeatureOptions& options, const kernels::MapEntry& map);

// ω of a masked map: the rows of `omega`, and as many frequencies behind them.
kernels::Omega WithFrequencies(const kernels::Omega& omega, const FeatureOptions& options,
                               const RandomStream& stream);

// Weights of the frequencies of such an ω; none: all are 1.
std::vector<double> MaskWeights(const kernels::Omega& omega, const FeatureOptions& options);

}  // namespace favor::features

#endif  // FAVOR_FEATURES_LOCAL_FREQUENCIES_H_
