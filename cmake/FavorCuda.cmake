# The CUDA language and the architectures favor supports: sm_80 and up, tuned for sm_90.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# The few C++ files that include CUDA's headers name the folder themselves. The others are compiled as without CUDA, so
# that a compiler cache serves both builds.
if(PROJECT_IS_TOP_LEVEL)
  set_property(TARGET CUDA::cudart_static PROPERTY INTERFACE_INCLUDE_DIRECTORIES)
endif()
# CMake 3.25 knows no C++20 for nvcc: it gets the flag by hand, and CMake is told not to ask for the standard of
# the C++ sources.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
set(CMAKE_CUDA17_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA17_EXTENSION_COMPILE_OPTION -std=c++20)
# A fifth of the size of kernels; drivers of CUDA 13 and up read it.
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
endif()
