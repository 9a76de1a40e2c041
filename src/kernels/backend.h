// Which implementation of an operation runs. Every operation is a struct of views and a Context,
// and names its implementations in one place, its header:
//
//   inline void LayerNorm(const LayerNormArguments& a, const Context& context) {
//     Run<LayerNormArguments>({.name = "layer norm", .reference = cpu::LayerNorm,
//                              .cpu = cpu::LayerNorm, .cuda = cuda::LayerNorm}, a.y, a, context);
//   }
//
// Operations do not throw because of the values in their arrays, and return nothing: what they find
// goes to a TallyEntry (core/tally.h).
#ifndef FAVOR_KERNELS_BACKEND_H_
#define FAVOR_KERNELS_BACKEND_H_

#include <string>
#include <string_view>

#include "core/operation_times.h"
#include "favor/context.h"
#include "favor/error.h"
#include "favor/tensor.h"

namespace favor::kernels {

template <class Arguments>
struct Backends {
  using Function = void (*)(const Arguments&, const Context&);

  std::string_view name;    // name of the operation in errors
  Function reference;       // f64 arrays: plain loops that the others are compared with
  Function cpu;             // f32 arrays
  Function cuda = nullptr;  // arrays on a GPU; null: there is no such kernel
  // What tells calls apart where their times are listed (core/operation_times.h); null: nothing.
  std::string (*describe)(const Arguments&) = nullptr;
};

// The description of operations whose gradients have the same name.
template <class Arguments>
std::string OfGradients(const Arguments&) {
  return "gradients";
}

template <class Arguments>
void RunOn(const Device& device, bool reference, const Backends<Arguments>& backends,
           const Arguments& arguments, const Context& context) {
  OperationTimer timer(context);
  if (timer.IsAsked())
    timer.Start(backends.name, backends.describe == nullptr ? "" : backends.describe(arguments));
  if (device.type == DeviceType::kCuda) {
    if (backends.cuda == nullptr)
      throw Error(ErrorCode::kUnavailable, backends.name,
                  "given arrays on " + Name(device) + ", it runs on the cpu only");
    if (context.device() != device)
      throw Error(ErrorCode::kInvalidData, backends.name,
                  "given arrays on " + Name(device) + " and a context on " +
                      Name(context.device()) + ", expected both on one device");
    return backends.cuda(arguments, context);
  }
  (reference ? backends.reference : backends.cpu)(arguments, context);
}

// `result` is an array that the operation writes: its device and type decide.
template <class Arguments>
void Run(const Backends<Arguments>& backends, const ConstView& result, const Arguments& arguments,
         const Context& context) {
  RunOn(result.device(), result.type() == DataType::kF64, backends, arguments, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_BACKEND_H_
