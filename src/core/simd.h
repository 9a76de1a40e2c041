// Which SIMD instructions the kernels use: the best that this machine has, or those named by the
// environment variable FAVOR_SIMD.
#ifndef FAVOR_CORE_SIMD_H_
#define FAVOR_CORE_SIMD_H_

#include <string>
#include <string_view>
#include <vector>

namespace favor {

// Those that this build and this machine have, best first: avx512, avx2, sse4, neon, scalar.
std::vector<std::string> SimdNames();

// The one in use.
std::string SimdName();

// Uses another one from now on; throws kInvalidOption for a name that is not among SimdNames().
// Not while a kernel runs.
void UseSimd(std::string_view name);

// Reads FAVOR_SIMD, once a process; every Context does it.
void UseSimdOfEnvironment();

}  // namespace favor

#endif  // FAVOR_CORE_SIMD_H_
