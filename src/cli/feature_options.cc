#include "cli/feature_options.h"

#include <algorithm>
#include <iterator>

#include "core/error_text.h"
#include "favor/npy.h"
#include "features/option_fields.h"

namespace favor::cli {
namespace {

// Fields that say how ω is drawn.
constexpr std::string_view kDrawing[] = {"projection", "features", "omega_norm", "shared_omega"};

}  // namespace

void FeatureArguments::Add(Options& options) {
  fields_.Add(options, options.heading(), features::OptionFields(options_));
  options.Path("--omega", "W.npy", omega_, "A given ω, [m,d] or [H,m,d], instead of a drawn one");
}

void FeatureArguments::Read(std::string_view who) {
  const std::vector<Field> fields = features::OptionFields(options_);
  fields_.Apply(fields);
  if (omega_.empty()) return;
  for (const Field& field : fields) {
    if (std::ranges::find(kDrawing, field.key) != std::end(kDrawing) && fields_.Given(field.key)) {
      Throw(ErrorCode::kInvalidOption, who, "given --omega and {}, which says how to draw one",
            field.Option());
    }
  }
}

FeaturePlan FeatureArguments::Plan(int64_t heads, int64_t dim, uint64_t seed) const {
  if (omega_.empty()) return FeaturePlan::Draw(options_, heads, dim, seed);
  const Tensor omega = ReadNpy(omega_);
  if (omega.shape().rank() < 2 || omega.shape()[omega.shape().rank() - 1] != dim) {
    Throw(ErrorCode::kInvalidData, Printable(omega_), "given shape {}, expected rows of dim {}",
          omega.shape().ToString(), dim);
  }
  return FeaturePlan::WithOmega(options_, heads, omega);
}

const std::string& FeatureArguments::projection() const {
  static const std::string given = "given";
  return omega_.empty() ? options_.projection : given;
}

}  // namespace favor::cli
