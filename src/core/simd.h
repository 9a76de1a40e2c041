// Which SIMD instructions the kernels use: the best that this machine has, or those named by the
// environment variable FAVOR_SIMD.
#ifndef FAVOR_CORE_SIMD_H_
#define FAVOR_CORE_SIMD_H_

#include <string>
#include <string_view>
#include <vector>

namespace favor {

// The names of the instruction sets that this build and this machine have, best first: avx512,
// avx2, sse4, neon, scalar.
std::vector<std::string> SimdNames();

// The name of the one in use.
std::string SimdName();

// Switches to another one; throws kInvalidOption for a name that is not among SimdNames(). Must not
// be called while a kernel runs.
void UseSimd(std::string_view name);

// Reads FAVOR_SIMD, once per process; every Context calls it.
void UseSimdOfEnvironment();

}  // namespace favor

#endif  // FAVOR_CORE_SIMD_H_
