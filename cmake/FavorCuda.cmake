# The CUDA language and the architectures favor supports: sm_80 and up, tuned for sm_90.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# CMake 3.25 does not know C++20 for nvcc and ignores CMAKE_CUDA_STANDARD 20.
add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
