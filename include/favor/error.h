// The one exception type of favor. It is thrown where arguments enter (an operation, a file reader,
// a command); kernels do not throw.
#ifndef FAVOR_ERROR_H_
#define FAVOR_ERROR_H_

#include <stdexcept>
#include <string>
#include <string_view>

namespace favor {

enum class ErrorCode {
  kInvalidOption,  // an option has a value that it cannot have: a name, a count, a combination
  kInvalidData,    // an array or the contents of a file: shape, type, NaN, damage
  kIo,             // the operating system refused: no such file, no permission, disk full
  kOutOfMemory,    // the request is larger than this machine's memory
  kUnavailable,    // not in this build or on this machine: no CUDA, no GPU
};

// what() reads "who: what was given, what was expected".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string_view who, std::string_view what)
      : std::runtime_error(std::string(who) + ": " + std::string(what)), code_(code) {}

  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace favor

#endif  // FAVOR_ERROR_H_
