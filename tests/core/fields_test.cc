// Fields of configs: to JSON and text, and back.
#include "core/fields.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "favor/data.h"
#include "favor/error.h"

namespace favor {
namespace {

struct Config {
  int64_t count = 3;
  double number = 0.5;
  std::optional<double> optional;
  std::vector<double> shared;
  Layout layout = Layout::kCrop;
  std::string entry = "one";
  bool flag = true;
  std::string text;
  std::map<std::string, int64_t, std::less<>> entries;

  std::vector<Field> Fields() {
    static constexpr std::string_view kEntries[] = {"one", "two"};
    return {{"count", "", IntegerField{&count, 1, 9}},
            {"number", "", NumberField{&number, 0, 1}, /*sparse=*/true},
            {"optional", "", OptionalNumberField{&optional, -1, 1}, /*sparse=*/true},
            {"shared", "", SharedNumberField{&shared, 0, 1}},
            {"layout", "", Choice(layout), /*sparse=*/true},
            {"entry", "", NameField{&entry, kEntries}},
            {"flag", "", FlagField{&flag}},
            {"a_text", "", TextField{&text}},
            {"window", "", EntryField{&entries, "window", 0, 9}, /*sparse=*/true}};
  }
  Json ToFile() {
    Config standard;
    return FieldsToJson(Fields(), standard.Fields());
  }
};

TEST(Fields, FilesHoldSparseOnesOnlyIfTheyChanged) {
  Config config;
  EXPECT_EQ(config.ToFile().dump(),
            R"({"count":3,"shared":null,"entry":"one","flag":true,"a_text":""})");
  EXPECT_EQ(
      FieldsToJson(config.Fields()).dump(),
      R"({"count":3,"number":0.5,"optional":null,"shared":null,"layout":"crop","entry":"one","flag":true,"a_text":"","window":null})");
  config.number = 0.25;
  config.optional = 0;
  config.layout = Layout::kJoin;
  config.entries = {{"window", 0}};
  const Json written = config.ToFile();
  EXPECT_EQ(
      written.dump(),
      R"({"count":3,"number":0.25,"optional":0.0,"shared":null,"layout":"join","entry":"one","flag":true,"a_text":"","window":0})");
  Config back;
  FieldsFromJson("file", written, back.Fields());
  EXPECT_EQ(back.ToFile(), written);
  FieldsFromJson("file", Json{{"window", nullptr}}, back.Fields());
  EXPECT_TRUE(back.entries.empty());
}

TEST(Fields, ReadTheTextOfOptions) {
  Config config;
  const auto fields = config.Fields();
  const auto set = [&](std::string_view key, const std::string& text) {
    for (const Field& field : fields) {
      if (field.key == key) FieldFromText(field.Option(), text, field);
    }
  };
  set("count", "7");
  set("number", ".125");
  set("optional", "-.5");
  set("shared", "1");
  set("layout", "join");
  set("entry", "two");
  set("flag", "false");
  set("a_text", "7");
  set("window", "8");
  EXPECT_EQ(config.entries.at("window"), 8);
  EXPECT_THROW(set("window", "10"), Error);
  EXPECT_EQ(config.count, 7);
  EXPECT_EQ(config.number, 0.125);
  EXPECT_EQ(config.optional, -0.5);
  EXPECT_EQ(config.shared, std::vector<double>{1});
  EXPECT_EQ(config.layout, Layout::kJoin);
  EXPECT_EQ(config.entry, "two");
  EXPECT_FALSE(config.flag);
  EXPECT_EQ(config.text, "7");
  set("optional", "null");
  set("shared", "null");
  EXPECT_FALSE(config.optional.has_value());
  EXPECT_TRUE(config.shared.empty());
  const auto refused = [&](std::string_view key, const std::string& text, const std::string& says) {
    try {
      set(key, text);
      FAIL() << key << " " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), says);
    }
  };
  refused("count", "99999999999999999999",
          "--count: given '99999999999999999999', expected a whole number from 1 to 9");
  refused("count", ".5", "--count: given '.5', expected a whole number from 1 to 9");
  refused("number", "nan", "--number: given 'nan', expected a number from 0 to 1");
  refused("number", "1e999", "--number: given '1e999', expected a number from 0 to 1");
  refused("shared", "2", "--shared: given '2', expected a number from 0 to 1");
  refused("layout", "jion", "--layout: unknown name 'jion' (did you mean 'join'?)");
  refused("entry", "three", "--entry: unknown name 'three' (one of: one, two)");
  refused("flag", "yes", "--flag: given 'yes', expected true or false");
}

}  // namespace
}  // namespace favor
