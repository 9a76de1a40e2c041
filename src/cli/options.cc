#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/error_text.h"
#include "favor/npy.h"
#include "io/atomic_file.h"

namespace favor::cli {
namespace {

// "command: --option", "command part: --option"; a group of options belongs to what is above it,
// and an option goes by the first of its names.
std::string Who(const CLI::App& app, const std::string& option) {
  std::string command;
  for (const CLI::App* part = &app; part->get_parent() != nullptr; part = part->get_parent()) {
    if (!part->get_name().empty())
      command = part->get_name() + (command.empty() ? "" : " ") + command;
  }
  return command + ": " + option.substr(0, option.find(','));
}

// The whole of `text` as a number.
template <class T>
bool Parse(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

int64_t ParseInteger(const std::string& who, const std::string& text, int64_t least, int64_t most) {
  int64_t number = 0;
  if (!Parse(text, number) || number < least || number > most) {
    Throw(ErrorCode::kInvalidOption, who, "given '{}', expected a whole number from {} to {}",
          Printable(text), least, most);
  }
  return number;
}

void CheckChoice(const std::string& who, const std::string& text,
                 const std::vector<std::string_view>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return;
  Throw(ErrorCode::kInvalidOption, who, "unknown name '{}'{}", Printable(text),
        Suggest(text, choices));
}

}  // namespace

CLI::Option* AddInteger(CLI::App& app, const std::string& name, int64_t least, int64_t most,
                        int64_t& value, const std::string& help) {
  const std::string shown = std::to_string(value);
  return app
      .add_option_function<std::string>(
          name,
          [&app, &value, name, least, most](const std::string& text) {
            value = ParseInteger(Who(app, name), text, least, most);
          },
          help)
      ->type_name("N")
      ->default_str(shown);
}

CLI::Option* AddNumber(CLI::App& app, const std::string& name, const std::string& help,
                       std::function<void(double)> store) {
  return app
      .add_option_function<std::string>(
          name,
          [&app, name, store = std::move(store)](const std::string& text) {
            double number = 0;
            if (!Parse(text, number) || !std::isfinite(number)) {
              Throw(ErrorCode::kInvalidOption, Who(app, name), "given '{}', expected a number",
                    Printable(text));
            }
            store(number);
          },
          help)
      ->type_name("NUMBER");
}

CLI::Option* AddChoice(CLI::App& app, const std::string& name,
                       std::vector<std::string_view> choices, std::string& value,
                       const std::string& help) {
  const std::string shown = value;
  return app
      .add_option_function<std::string>(
          name,
          [&app, &value, name, choices = std::move(choices)](const std::string& text) {
            CheckChoice(Who(app, name), text, choices);
            value = text;
          },
          help)
      ->type_name("NAME")
      ->default_str(shown);
}

CLI::Option* AddIntegers(CLI::App& app, const std::string& name, int64_t least, int64_t most,
                         std::vector<int64_t>& values, const std::string& help) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [&app, &values, name, least, most](const std::vector<std::string>& texts) {
            values.clear();
            for (const std::string& text : texts)
              values.push_back(ParseInteger(Who(app, name), text, least, most));
          },
          help)
      ->delimiter(',')
      ->type_name("N,N,...")
      ->default_str(fmt::format("{}", fmt::join(values, ",")));
}

CLI::Option* AddChoices(CLI::App& app, const std::string& name,
                        std::vector<std::string_view> choices, std::vector<std::string>& values,
                        const std::string& help) {
  const std::string shown = fmt::format("{}", fmt::join(values, ","));
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [&app, &values, name,
           choices = std::move(choices)](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) CheckChoice(Who(app, name), text, choices);
            values = texts;
          },
          help)
      ->delimiter(',')
      ->type_name("NAME,...")
      ->default_str(shown);
}

CLI::Option* AddPath(CLI::App& app, const std::string& name, const std::string& placeholder,
                     std::string& path, const std::string& help) {
  return app
      .add_option_function<std::string>(
          name,
          [&app, &path, name](const std::string& text) {
            if (text.empty())
              Throw(ErrorCode::kInvalidOption, Who(app, name),
                    "given an empty path, expected a file or folder");
            path = text;
          },
          help)
      ->type_name(placeholder);
}

void AddThreads(CLI::App& app, int64_t& threads) {
  AddInteger(app, "--threads", 1, Context::kMaxThreads, threads,
             "Number of threads; results do not depend on it")
      ->default_str("all cores");
}

void AddRunOptions(CLI::App& app, RunOptions& options) {
  AddThreads(app, options.threads);
  AddInteger(app, "--seed", 0, INT64_MAX, options.seed, "Seed of every random draw");
}

namespace {

// What stands behind an option in its help: names where they are few.
std::string TypeName(const Field& field) {
  constexpr size_t kFew = 5;
  if (const auto* choice = std::get_if<ChoiceField>(&field.value))
    return choice->choices.size() <= kFew ? fmt::format("{}", fmt::join(choice->choices, "|"))
                                          : "NAME";
  return std::holds_alternative<TextField>(field.value) ? "TEXT" : "N";
}

}  // namespace

void FieldOptions::Add(CLI::App& app, const std::string& group, const std::vector<Field>& fields) {
  app_ = &app;
  const auto defaults = FieldsToJson(fields);
  for (const Field& field : fields) {
    const std::string key(field.key), help(field.help);
    const auto& shown = defaults[key];
    if (std::holds_alternative<FlagField>(field.value)) {
      const std::string option = field.Option();
      app.add_flag_function(
             option + ",!--no-" + option.substr(2),
             [this, key](int64_t count) { given_[key] = count > 0 ? "true" : "false"; },
             help + (shown.get<bool>() ? " (default)" : ""))
          ->group(group);
      continue;
    }
    app.add_option_function<std::string>(
           field.Option(), [this, key](const std::string& text) { given_[key] = text; }, help)
        ->type_name(TypeName(field))
        ->default_str(shown.is_string() ? shown.get<std::string>()
                      : shown.is_null() ? ""
                                        : shown.dump())
        ->group(group);
  }
}

void FieldOptions::Apply(const std::vector<Field>& fields) const {
  for (const Field& field : fields) {
    if (const auto found = given_.find(field.key); found != given_.end())
      FieldFromText(Who(*app_, field.Option()), found->second, field);
  }
}

void AddFeatureOptions(CLI::App& app, FeatureArguments& arguments) {
  FeatureOptions& options = arguments.options;
  std::vector<std::string_view> maps, projections;
  for (const FeatureMapInfo& map : Maps()) maps.push_back(map.name);
  for (const ProjectionInfo& projection : Projections()) projections.push_back(projection.name);
  CLI::Option* map =
      AddChoice(app, "--map", maps, options.map, "Feature map (favor info lists them)");
  CLI::Option* projection = AddChoice(app, "--projection", projections, options.projection,
                                      "How ω is drawn (favor info lists the ways)");
  CLI::Option* features =
      AddInteger(app, "--features", 1, FeaturePlan::kMaxFeatures, options.features,
                 "Number m of rows of ω; maps in two parts have 2m features");
  CLI::Option* norm =
      app.add_option_function<std::string>(
             "--omega-norm",
             [&app, &options](const std::string& text) {
               if (text != Name(OmegaNorm::kChi) && text != Name(OmegaNorm::kSqrtD)) {
                 Throw(ErrorCode::kInvalidOption, Who(app, "--omega-norm"),
                       "given '{}', expected chi or sqrt-d", Printable(text));
               }
               options.omega_norm =
                   text == Name(OmegaNorm::kChi) ? OmegaNorm::kChi : OmegaNorm::kSqrtD;
             },
             "Lengths of ω's rows: chi (unbiased) or sqrt-d")
          ->type_name("NAME")
          ->default_str("the map's");
  CLI::Option* shared = app.add_flag("--shared-omega", options.shared_omega, "One ω for all heads");
  CLI::Option* epsilon =
      AddNumber(app, "--kernel-epsilon", "Added to every feature of a generalized map",
                [&options](double value) { options.kernel_epsilon = value; })
          ->default_str("the map's");
  CLI::Option* a = AddNumber(app, "--oprf-a",
                             "The constant A < 1/8 of the map oprf, the same for queries and keys",
                             [&options](double value) { options.oprf_a = {value}; });
  CLI::Option* omega = AddPath(app, "--omega", "W.npy", arguments.omega,
                               "A given ω, [m,d] or [H,m,d], instead of a drawn one");
  arguments.all = {map, projection, features, norm, shared, epsilon, a, omega};
  arguments.drawing = {projection, features, norm, shared};
}

void FeatureArguments::Check(std::string_view who) const {
  if (omega.empty()) return;
  for (const CLI::Option* option : drawing) {
    if (option->count() > 0) {
      Throw(ErrorCode::kInvalidOption, who, "given --omega and {}, which says how to draw one",
            option->get_name());
    }
  }
}

bool FeatureArguments::Given() const {
  return std::ranges::any_of(all, [](const CLI::Option* option) { return option->count() > 0; });
}

FeaturePlan MakePlan(const FeatureArguments& arguments, int64_t heads, int64_t dim, uint64_t seed) {
  const FeatureOptions& options = arguments.options;
  const std::string& omega_path = arguments.omega;
  if (omega_path.empty()) return FeaturePlan::Draw(options, heads, dim, seed);
  const Tensor omega = ReadNpy(omega_path);
  if (omega.shape().rank() < 2 || omega.shape()[omega.shape().rank() - 1] != dim) {
    Throw(ErrorCode::kInvalidData, Printable(omega_path), "given shape {}, expected rows of dim {}",
          omega.shape().ToString(), dim);
  }
  return FeaturePlan::WithOmega(options, heads, omega);
}

int64_t Heads(const Shape& shape) { return shape.rank() >= 3 ? shape[shape.rank() - 3] : 1; }

Tensor ReadRows(const std::string& path) {
  Tensor rows = ReadNpy(path);
  if (rows.shape().rank() < 2) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given shape {}, expected [L, d], [H, L, d] or [B, H, L, d]", rows.shape().ToString());
  }
  if (rows.shape().Elements() == 0) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given an empty array of shape {}, expected at least one row", rows.shape().ToString());
  }
  if (!AllFinite(rows))
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given NaN or infinity, expected finite values");
  return rows;
}

void CheckFiles(std::string_view who, const std::vector<std::string>& outputs,
                const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  // The same file under two names; devices such as /dev/null may serve twice.
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code ignored;
    if (fs::exists(a, ignored) && !fs::is_regular_file(a, ignored)) return false;
    return fs::weakly_canonical(a, ignored) == fs::weakly_canonical(b, ignored);
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    for (size_t j = 0; j < i; ++j) {
      if (!outputs[j].empty() && same(outputs[i], outputs[j])) {
        Throw(ErrorCode::kInvalidOption, who, "two outputs go to the same file '{}'",
              Printable(outputs[i]));
      }
    }
    for (const std::string& input : inputs) {
      if (!input.empty() && same(outputs[i], input)) {
        Throw(ErrorCode::kInvalidOption, who, "the output '{}' would overwrite an input",
              Printable(outputs[i]));
      }
    }
    io::AtomicFile probe(outputs[i]);
  }
}

void PrintJson(const nlohmann::json& value) {
  // Paths may hold bytes that are no UTF-8.
  fmt::print("{}\n", value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace favor::cli
