#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

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

TEST(Safetensors, RefusesWhatDoesNotAddUp) {
  const std::string data(8, 'x');
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
           ",\"data_offsets\":" + offsets + "}}";
  };
  EXPECT_EQ(Says(File(entry("F32", "[2]", "[0,8]"), data)), "accepted");
  for (const auto& [file, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "too short"},
           {std::string(8, '\xff'), "longer than the file"},
           {File("{", data), "not a JSON object"},
           {File("[]", data), "not a JSON object"},
           {File("{\"a\":1}", data), "is missing"},
           {File(entry("F99", "[2]", "[0,8]"), data), "unknown dtype"},
           {File(entry("F32", "[-2]", "[0,8]"), data), "no list of sizes"},
           {File(entry("F32", "[2.5]", "[0,8]"), data), "no list of sizes"},
           {File(entry("F32", "\"2\"", "[0,8]"), data), "no list of sizes"},
           {File(entry("F32", "[99999999999999]", "[0,8]"), data), "larger than the file"},
           {File(entry("F32", "[4294967296,4294967296]", "[0,8]"), data), "larger than the file"},
           {File(entry("F32", "[2]", "[0,9]"), data), "outside of the file"},
           {File(entry("F32", "[2]", "[8,0]"), data), "outside of the file"},
           {File(entry("F32", "[2]", "[0]"), data), "no two numbers"},
           {File(entry("F32", "[1]", "[0,8]"), data), "disagree"},
           {File(entry("F32", "[1]", "[4,8]"), data), "gaps"},
           {File(entry("F32", "[1]", "[0,4]"), data), "after the last"},
           {File("{\"__metadata__\":{\"a\":1}}", ""), "else than text"},
           {File("{\"__metadata__\":1}", ""), "not an object"}}) {
    EXPECT_NE(Says(file).find(says), std::string::npos) << says << " / " << Says(file);
  }
}

}  // namespace
}  // namespace favor::io
