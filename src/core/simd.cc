#include "core/simd.h"

#include <cstdlib>

#include "core/error_text.h"
#include "hwy/highway.h"

namespace favor {
namespace {

std::string NameOf(int64_t target) {
  switch (target) {
    case HWY_AVX3:
      return "avx512";
    case HWY_AVX2:
      return "avx2";
    case HWY_SSE4:
      return "sse4";
    case HWY_NEON:
      return "neon";
    default:
      return "scalar";
  }
}

// What the machine supports, regardless of later choices.
std::vector<int64_t> Targets() {
  static const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

std::string& Chosen() {
  static std::string name = SimdNames().front();
  return name;
}

void Choose(std::string_view name) {
  for (const int64_t target : Targets()) {
    if (NameOf(target) != name) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    Chosen() = name;
    return;
  }
  std::string names;
  for (const std::string& known : SimdNames()) names += (names.empty() ? "" : ", ") + known;
  Throw(ErrorCode::kInvalidOption, "FAVOR_SIMD", "given '{}', expected one of: {}", Printable(name),
        names);
}

}  // namespace

std::vector<std::string> SimdNames() {
  std::vector<std::string> names;
  for (const int64_t target : Targets()) names.push_back(NameOf(target));
  return names;
}

std::string SimdName() {
  UseSimdOfEnvironment();
  return Chosen();
}

void UseSimd(std::string_view name) {
  UseSimdOfEnvironment();  // else the first context would undo the choice
  Choose(name);
}

void UseSimdOfEnvironment() {
  static const bool done = [] {
    // Highway's choice holds for the whole process: it is left alone unless FAVOR_SIMD is set.
    const char* name = std::getenv("FAVOR_SIMD");
    if (name != nullptr && *name != 0) Choose(name);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace favor
