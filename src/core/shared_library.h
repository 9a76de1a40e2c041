// A shared library that is looked for at run time: favor uses it if the machine has it, and does
// not need it to start. It stays open until the process ends: few libraries with threads of their
// own survive being closed.
#ifndef FAVOR_CORE_SHARED_LIBRARY_H_
#define FAVOR_CORE_SHARED_LIBRARY_H_

#include <initializer_list>
#include <string>
#include <utility>

namespace favor {

class SharedLibrary {
 public:
  // Opens the first of `names` that the loader finds; a name with a slash is a path. Throws
  // kUnavailable: "cublasLt: not found on this machine (tried libcublasLt.so.13,
  // libcublasLt.so.12)".
  static SharedLibrary Open(std::initializer_list<const char*> names);

  // The one of `names` that was found.
  const std::string& name() const { return name_; }

  // A function of the library, of type F: Symbol<double(double)>("cos"). Throws kUnavailable.
  template <class F>
  F* Symbol(const char* name) const {
    return reinterpret_cast<F*>(Find(name));
  }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* Find(const char* name) const;

  void* handle_;
  std::string name_;
};

// Libraries of NVIDIA, opened by the first call. Throw kUnavailable if the machine does not have
// them.
const SharedLibrary& CublasLt();
const SharedLibrary& Cudnn();

}  // namespace favor

#endif  // FAVOR_CORE_SHARED_LIBRARY_H_
