#include "core/notice.h"

#include <cstdio>

namespace favor {

void Notice(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace favor
