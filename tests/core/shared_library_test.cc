#include "core/shared_library.h"

#include <gtest/gtest.h>

#include "favor/error.h"

namespace favor {
namespace {

TEST(SharedLibrary, OpensTheFirstThatIsThere) {
  const SharedLibrary library = SharedLibrary::Open({"libfavor-nowhere.so.1", "libm.so.6"});
  EXPECT_EQ(library.name(), "libm.so.6");
  EXPECT_EQ(library.Symbol<double(double)>("cos")(0.0), 1.0);
}

template <class Call>
void ExpectUnavailable(const Call& call, const std::string& says) {
  try {
    call();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(error.what(), says);
  }
}

TEST(SharedLibrary, SaysWhatItTried) {
  ExpectUnavailable(
      [] {
        SharedLibrary::Open({"/nowhere/libnonsenseLt.so.13", "libnonsenseLt.so.12"});
      },
      "nonsenseLt: not found on this machine (tried /nowhere/libnonsenseLt.so.13, "
      "libnonsenseLt.so.12)");
}

TEST(SharedLibrary, RefusesAFunctionThatIsNotThere) {
  const SharedLibrary library = SharedLibrary::Open({"libm.so.6"});
  ExpectUnavailable([&] { library.Symbol<void()>("no_such_function"); },
                    "m: libm.so.6 has no no_such_function");
}

}  // namespace
}  // namespace favor
