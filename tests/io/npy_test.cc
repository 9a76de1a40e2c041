#include "favor/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "favor/error.h"
#include "favor/random.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

// An npy file by hand: version, header text, data.
std::string Npy(const std::string& header, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  const int length_bytes = version == 1 ? 2 : 4;
  for (int i = 0; i < length_bytes; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

std::string Header(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

Tensor Parse(const std::string& file) { return ParseNpy(std::as_bytes(std::span(file)), "x.npy"); }

// Two floats, 1.5 and -2.
const std::string kTwoFloats("\0\0\xc0\x3f\0\0\0\xc0", 8);

TEST(Npy, RoundTripsEveryTypeAndRank) {
  const TempDir dir;
  for (const DataType type : {DataType::kF16, DataType::kF32, DataType::kF64}) {
    for (const Shape& shape :
         {Shape{}, Shape{7}, Shape{3, 5}, Shape{2, 3, 5}, Shape{2, 1, 3, 4}, Shape{0, 4}}) {
      Tensor values(shape, DataType::kF64);
      for (int64_t i = 0; i < shape.Elements(); ++i)
        values.Data<double>()[i] = static_cast<double>(i) - 3.5;
      WriteNpy(dir / "a.npy", values.To(type));
      const Tensor read = ReadNpy(dir / "a.npy");
      EXPECT_EQ(read.shape(), shape);
      EXPECT_EQ(read.type(), type);
      const Tensor back = read.To(DataType::kF64);
      EXPECT_EQ(std::memcmp(back.Data<double>(), values.Data<double>(),
                            static_cast<size_t>(values.Bytes())),
                0);
    }
  }
}

TEST(Npy, WritesStridedViewsAndAlignsData) {
  const TempDir dir;
  std::vector<float> data = {0, 1, 2, 3, 4, 5};
  WriteNpy(dir / "a.npy", ConstView(data.data(), {2, 3}).Range(1, 1, 2));
  const Tensor read = ReadNpy(dir / "a.npy");
  EXPECT_EQ(read.shape(), (Shape{2, 2}));
  EXPECT_EQ(read.Data<float>()[2], 4);
  EXPECT_EQ((ReadText(dir / "a.npy").size() - 16) % 64, 0u);
}

TEST(Npy, ReadsEveryVersionAndSpelling) {
  for (const int version : {1, 2, 3})
    EXPECT_EQ(Parse(Npy(Header("<f4", "False", "(2,)"), kTwoFloats, version)).Data<float>()[0],
              1.5f);
  EXPECT_EQ(
      Parse(Npy("{\"shape\":(2L,),\"descr\":\"<f4\",\"fortran_order\":False}", kTwoFloats)).shape(),
      (Shape{2}));
  EXPECT_EQ(Parse(Npy(Header("<f4", "True", "(2,)"), kTwoFloats)).Data<float>()[1],
            -2);  // one axis has no order
  EXPECT_EQ(Parse(Npy(Header("<f8", "False", "()"), std::string(8, '\0'))).shape(), Shape{});
}

struct BadFile {
  const char* name;
  std::string file;
  const char* says;
};

class BadNpy : public testing::TestWithParam<BadFile> {};

TEST_P(BadNpy, IsRefusedWithItsReason) {
  try {
    Parse(GetParam().file);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).rfind("x.npy: ", 0), 0u) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Npy, BadNpy,
    testing::Values(
        BadFile{"Empty", "", "empty file"}, BadFile{"Text", "hello, world", "not an npy file"},
        BadFile{"OnlyMagic", "\x93NUMPY", "truncated before its header"},
        BadFile{"Version", Npy(Header("<f4", "False", "(2,)"), kTwoFloats, 9), "version 9"},
        BadFile{"CutInHeader", Npy(Header("<f4", "False", "(2,)"), "").substr(0, 30),
                "truncated inside its header"},
        BadFile{"CutInData", Npy(Header("<f4", "False", "(2,)"), kTwoFloats.substr(0, 7)),
                "truncated: shape [2] of f32 needs 8 data bytes, the file has 7"},
        BadFile{"Trailing", Npy(Header("<f4", "False", "(2,)"), kTwoFloats + "x"),
                "trailing bytes"},
        BadFile{"Fortran", Npy(Header("<f4", "True", "(2, 1)"), kTwoFloats), "Fortran"},
        BadFile{"BigEndian", Npy(Header(">f4", "False", "(2,)"), kTwoFloats), "big-endian"},
        BadFile{"Integers", Npy(Header("<i4", "False", "(2,)"), kTwoFloats), "integers ('<i4')"},
        BadFile{"Unsigned", Npy(Header("|u1", "False", "(8,)"), kTwoFloats), "integers ('|u1')"},
        BadFile{"Booleans", Npy(Header("|b1", "False", "(8,)"), kTwoFloats), "booleans"},
        BadFile{"Complex", Npy(Header("<c8", "False", "(1,)"), kTwoFloats), "complex"},
        BadFile{"Objects", Npy(Header("|O", "False", "(2,)"), kTwoFloats), "Python objects"},
        BadFile{"LongDouble", Npy(Header("<f16", "False", "(2,)"), kTwoFloats), "'<f16'"},
        BadFile{"Record",
                Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", kTwoFloats),
                "structured"},
        BadFile{"HugeShape", Npy(Header("<f4", "False", "(99999999999, 99999999999)"), kTwoFloats),
                "needs more than the 8 data bytes"},
        BadFile{"OverflowingProduct",
                Npy(Header("<f4", "False", "(4294967296, 4294967296, 4294967296)"), kTwoFloats),
                "needs more than"},
        BadFile{"SizeBeyond63Bits",
                Npy(Header("<f4", "False", "(99999999999999999999,)"), kTwoFloats),
                "beyond 63 bits"},
        BadFile{"NegativeSize", Npy(Header("<f4", "False", "(-2,)"), kTwoFloats),
                "expected a size"},
        BadFile{"FloatSize", Npy(Header("<f4", "False", "(2.0,)"), kTwoFloats), "expected ')'"},
        BadFile{"FiveAxes", Npy(Header("<f4", "False", "(1, 1, 1, 1, 2)"), kTwoFloats),
                "5 dimensions"},
        BadFile{"ManyAxes",
                Npy(Header(
                        "<f4", "False",
                        "(" +
                            [] {
                              std::string s;
                              for (int i = 0; i < 100; ++i) s += "1,";
                              return s;
                            }() +
                            ")"),
                    kTwoFloats),
                "more than 64"},
        BadFile{"MissingKey", Npy("{'descr': '<f4', 'shape': (2,)}", kTwoFloats), "lacks"},
        BadFile{"RepeatedKey",
                Npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                    kTwoFloats),
                "'descr'"},
        BadFile{"UnknownKey", Npy("{'evil': 1}", kTwoFloats), "'evil'"},
        BadFile{"NotADictionary", Npy("[1, 2]", kTwoFloats), "expected '{'"},
        BadFile{"UnendedString", Npy("{'descr", kTwoFloats), "without an end"},
        BadFile{"BadBoolean", Npy(Header("<f4", "Maybe", "(2,)"), kTwoFloats),
                "neither True nor False"},
        BadFile{"TextAfter", Npy(Header("<f4", "False", "(2,)") + "x", kTwoFloats),
                "after its dictionary"},
        BadFile{"NewlineInKey", Npy("{'a\nb': 1}", kTwoFloats), "a\\x0ab"},
        BadFile{"HeaderTooLong", Npy(std::string(70000, ' '), kTwoFloats, 2),
                "header of 70000 bytes"}),
    [](const auto& test) { return std::string(test.param.name); });

// Whatever happens to a file's bytes, the reader answers with an array or an Error.
TEST(Npy, SurvivesDamage) {
  const std::string good = Npy(Header("<f4", "False", "(2,)"), kTwoFloats);
  const RandomStream random(1, "damage");
  int accepted = 0;
  for (uint64_t trial = 0; trial < 20000; ++trial) {
    std::string bad = good;
    const RandomStream stream = random.Child(trial);
    for (uint64_t edit = 0; edit <= stream.Bits(0) % 3; ++edit) {
      bad[stream.Bits(10 + edit) % bad.size()] = static_cast<char>(stream.Bits(20 + edit));
    }
    if (stream.Bits(1) % 4 == 0) bad.resize(stream.Bits(2) % bad.size());
    try {
      Parse(bad);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    }
  }
  EXPECT_GT(accepted, 100);  // changed elements do not damage the format
}

TEST(Npy, ReportsFilesThatCannotBeRead) {
  const TempDir dir;
  EXPECT_THROW(ReadNpy(dir / "missing.npy"), Error);
  EXPECT_THROW(ReadNpy(dir.path().string()), Error);
  EXPECT_THROW(ReadNpy("/dev/zero"), Error);
}

TEST(Npy, LeavesNothingWhereItCannotWrite) {
  const TempDir dir;
  const Tensor values({2});
  EXPECT_THROW(WriteNpy(dir / "missing/a.npy", values), Error);
  EXPECT_EQ(dir.Entries(), 0);
}

}  // namespace
}  // namespace favor
