// The version of favor; CMake and `favor --version` read it from here.
#ifndef FAVOR_VERSION_H_
#define FAVOR_VERSION_H_

#if __cplusplus < 202002L
#error "favor needs C++20"
#endif

#define FAVOR_VERSION "0.1.0"

#endif  // FAVOR_VERSION_H_
