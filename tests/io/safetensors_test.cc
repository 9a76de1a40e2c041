#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "favor/error.h"

namespace favor::io {
namespace {

std::string File(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

std::string Says(const std::string& file) {
  try {
    ParseSafetensors(std::as_bytes(std::span(file)), "x");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Safetensors, RoundTrips) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> b = {7};
  Safetensors contents;
  contents.metadata = {{"k", "v \"quoted\""}};
  contents.entries["a"] = {"F32", {2, 3}, std::as_bytes(std::span(a))};
  contents.entries["b"] = {"I64", {}, std::as_bytes(std::span(b))};
  contents.entries["none"] = {"F64", {0, 5}, {}};
  const std::string file = SerializeSafetensors(contents);
  const Safetensors back = ParseSafetensors(std::as_bytes(std::span(file)), "x");
  EXPECT_EQ(back.Entry("a", "x").Values<float>("x"), a);
  EXPECT_EQ(back.Entry("b", "x").Values<int64_t>("x"), b);
  EXPECT_EQ(back.Entry("none", "x").shape, (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(back.Metadata("k", "x"), "v \"quoted\"");
  EXPECT_THROW(back.Entry("c", "x"), Error);
  EXPECT_THROW(back.Entry("a", "x").Values<double>("x"), Error);
  EXPECT_THROW(back.Metadata("z", "x"), Error);
  std::string damaged = file;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_NE(Says(damaged).find("checksum"), std::string::npos);
}

// Foreign files hold positions, masks and other tensors besides their weights.
TEST(Safetensors, ListsTensorsThatItCannotRead) {
  const std::map<std::string, int64_t> bytes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2},
      {"U16", 2},  {"I32", 4}, {"U32", 4}, {"I64", 8},     {"U64", 8},     {"F4_OF_TOMORROW", 3}};
  Tensor to({2});
  for (const auto& [dtype, size] : bytes) {
    const std::string data(static_cast<size_t>(2 * size), '\1');
    Safetensors contents;
    contents.entries["strange"] = {dtype, {2}, std::as_bytes(std::span(data))};
    contents.Add<float>("weights", {2}, {1, 2});
    const std::string file = SerializeSafetensors(contents);
    const Safetensors back = ParseSafetensors(std::as_bytes(std::span(file)), "x");
    EXPECT_EQ(back.Entry("strange", "x").dtype, dtype);
    EXPECT_EQ(back.Entry("strange", "x").data.size(), data.size());
    EXPECT_THROW(back.Entry("strange", "x").ReadInto(to, "x"), Error) << dtype;
    EXPECT_THROW(back.Entry("strange", "x").Values<float>("x"), Error) << dtype;
    back.Entry("weights", "x").ReadInto(to, "x");
    EXPECT_EQ(to.Data<float>()[1], 2);
  }
}

TEST(Safetensors, ConvertsBetweenFloats) {
  const std::vector<double> values = {1, -2.5, 0.125, 1024, 0, 3};  // exact in every type
  const Tensor doubles = [&] {
    Tensor tensor({2, 3}, DataType::kF64);
    std::ranges::copy(values, tensor.Data<double>());
    return tensor;
  }();
  const std::map<DataType, std::string> names = {{DataType::kF64, "F64"},
                                                 {DataType::kF32, "F32"},
                                                 {DataType::kF16, "F16"},
                                                 {DataType::kBF16, "BF16"}};
  for (const auto& [from, name] : names) {
    const Tensor stored = doubles.To(from);
    Safetensors contents;
    contents.Add<int64_t>("odd", {1}, {7});
    contents.entries["a"] = EntryOf(stored);
    EXPECT_EQ(contents.entries["a"].dtype, name);
    // One byte off: data in a file need not be aligned.
    const std::string file = " " + SerializeSafetensors(contents);
    const Safetensors back = ParseSafetensors(std::as_bytes(std::span(file)).subspan(1), "x");
    for (const auto& [to, ignored] : names) {
      Tensor read({2, 3}, to), wide({2, 6}, to);
      back.Entry("a", "x").ReadInto(read, "x");
      back.Entry("a", "x").ReadInto(wide.view().Range(1, 2, 3), "x");
      const Tensor a = read.To(DataType::kF64), b = wide.To(DataType::kF64);
      EXPECT_TRUE(std::ranges::equal(std::span(a.Data<double>(), 6), values)) << name;
      EXPECT_EQ(b.Data<double>()[6 + 2 + 2], 3) << name;
      EXPECT_EQ(b.Data<double>()[6 + 1], 0) << name;
    }
    Tensor other({3, 2});
    EXPECT_THROW(back.Entry("a", "x").ReadInto(other, "x"), Error);
  }
  EXPECT_THROW(EntryOf(doubles.view().Range(1, 0, 2)), Error);
}

TEST(Safetensors, RefusesWhatDoesNotAddUp) {
  const std::string data(8, 'x');
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
           ",\"data_offsets\":" + offsets + "}}";
  };
  EXPECT_EQ(Says(File(entry("F32", "[2]", "[0,8]"), data)), "accepted");
  const auto twos = [](int axes) {  // [2, 1, 1, …]
    std::string shape = "[2";
    for (int i = 1; i < axes; ++i) shape += ",1";
    return shape + "]";
  };
  EXPECT_EQ(Says(File(entry("F32", twos(16), "[0,8]"), data)), "accepted");
  for (const auto& [file, says] : std::vector<std::pair<std::string, std::string>>{
           {File(entry("F32", twos(17), "[0,8]"), data), "not a list of sizes"},
           {"", "too short"},
           {std::string(8, '\xff'), "longer than the file"},
           {File("{", data), "not a JSON object"},
           {File("[]", data), "not a JSON object"},
           {File("{\"a\":1}", data), "is missing"},
           {File("{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", data), "not a name"},
           {File(entry("F99", "[2]", "[0,9]"), data), "outside the file"},
           {File(entry("F99", "[65]", "[0,8]"), data), "larger than the file"},
           {File(entry("F99", "[2]", "[0,4]"), data), "after the last"},
           {File(entry("BOOL", "[2]", "[0,8]"), data), "disagree"},
           {File(entry("I64", "[2]", "[0,8]"), data), "disagree"},
           {File(entry("F32", "[0,18446744073709551615]", "[0,0]"), ""), "larger than the file"},
           {File(entry("F32", "[-2]", "[0,8]"), data), "not a list of sizes"},
           {File(entry("F32", "[2.5]", "[0,8]"), data), "not a list of sizes"},
           {File(entry("F32", "\"2\"", "[0,8]"), data), "not a list of sizes"},
           {File(entry("F32", "[99999999999999]", "[0,8]"), data), "larger than the file"},
           {File(entry("F32", "[4294967296,4294967296]", "[0,8]"), data), "larger than the file"},
           {File(entry("F32", "[2]", "[0,9]"), data), "outside the file"},
           {File(entry("F32", "[2]", "[8,0]"), data), "outside the file"},
           {File(entry("F32", "[2]", "[0]"), data), "not two numbers"},
           {File(entry("F32", "[1]", "[0,8]"), data), "disagree"},
           {File(entry("F32", "[1]", "[4,8]"), data), "gaps"},
           {File(entry("F32", "[1]", "[0,4]"), data), "after the last"},
           {File("{\"__metadata__\":{\"a\":1}}", ""), "other than text"},
           {File("{\"__metadata__\":1}", ""), "not an object"}}) {
    EXPECT_NE(Says(file).find(says), std::string::npos) << says << " / " << Says(file);
  }
}

}  // namespace
}  // namespace favor::io
