// Setting arrays to 0, and copying them to arrays of any type.
#ifndef FAVOR_KERNELS_COPY_H_
#define FAVOR_KERNELS_COPY_H_

#include "kernels/backend.h"

namespace favor::kernels {

struct ZeroArguments {
  View y;  // contiguous
};

struct CopyArguments {
  ConstView from;
  View to;  // same shape, same device
};

namespace cpu {  // arrays of any type
void Zero(const ZeroArguments& a, const Context& context);
void Copy(const CopyArguments& a, const Context& context);
}  // namespace cpu
namespace cuda {
void Zero(const ZeroArguments& a, const Context& context);
void Copy(const CopyArguments& a, const Context& context);
}  // namespace cuda

inline void Zero(const ZeroArguments& a, const Context& context) {
  Run<ZeroArguments>({.name = "zero", .reference = cpu::Zero, .cpu = cpu::Zero, .cuda = cuda::Zero},
                     a.y, a, context);
}
inline void Copy(const CopyArguments& a, const Context& context) {
  Run<CopyArguments>({.name = "copy", .reference = cpu::Copy, .cpu = cpu::Copy, .cuda = cuda::Copy},
                     a.to, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_COPY_H_
