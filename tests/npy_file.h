// An npy file of any element type, as NumPy would write it.
#ifndef FAVOR_TESTS_NPY_FILE_H_
#define FAVOR_TESTS_NPY_FILE_H_

#include <string>

namespace favor {

inline std::string NpyFile(const std::string& descr, const std::string& shape,
                           const std::string& data) {
  const std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string file("\x93NUMPY\1\0", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

}  // namespace favor

#endif  // FAVOR_TESTS_NPY_FILE_H_
