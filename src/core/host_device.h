// FAVOR_HOST_DEVICE: a function that CUDA kernels may call too.
#ifndef FAVOR_CORE_HOST_DEVICE_H_
#define FAVOR_CORE_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define FAVOR_HOST_DEVICE __host__ __device__
#else
#define FAVOR_HOST_DEVICE
#endif

#endif  // FAVOR_CORE_HOST_DEVICE_H_
