#include "core/shared_library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <string_view>

#include "core/error_text.h"

namespace favor {
namespace {

// "cublasLt" of "/usr/local/cuda/lib64/libcublasLt.so.13".
std::string_view ShortName(std::string_view file) {
  if (const size_t slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  if (file.starts_with("lib")) file.remove_prefix(3);
  return file.substr(0, file.find(".so"));
}

}  // namespace

SharedLibrary SharedLibrary::Open(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL); handle != nullptr)
      return SharedLibrary(handle, name);
  }
  Throw(ErrorCode::kUnavailable, ShortName(*names.begin()), "not found on this machine (tried {})",
        fmt::join(names, ", "));
}

void* SharedLibrary::Find(const char* name) const {
  void* symbol = dlsym(handle_, name);
  if (symbol == nullptr)
    Throw(ErrorCode::kUnavailable, ShortName(name_), "{} has no {}", name_, name);
  return symbol;
}

// The toolkit's own folder comes last: loaders often do not know it.
const SharedLibrary& CublasLt() {
  static const SharedLibrary library = SharedLibrary::Open(
      {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13",
       "/usr/local/cuda/lib64/libcublasLt.so.12"});
  return library;
}

const SharedLibrary& Cudnn() {
  static const SharedLibrary library =
      SharedLibrary::Open({"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"});
  return library;
}

}  // namespace favor
