#include "models/checkpoint.h"

#include <charconv>
#include <deque>
#include <filesystem>

#include "core/device.h"
#include "core/error_text.h"
#include "core/host_copy.h"
#include "core/json.h"
#include "io/input_file.h"
#include "models/config_fields.h"

namespace favor::models {
namespace {

constexpr std::string_view kFormat = "favor checkpoint 1";

uint64_t ParseNumber(const std::string& text, const std::string& who) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    Throw(ErrorCode::kInvalidData, Printable(who), "damaged checkpoint: '{}' is not a number",
          Printable(text));
  return value;
}

}  // namespace

void WriteCheckpoint(const std::string& path, const Network& network, const CheckpointInfo& info,
                     std::span<const NamedTensor> more) {
  std::deque<HostCopy> copies;  // of arrays on a GPU
  io::Safetensors file;
  file.metadata = {{"format", std::string(kFormat)},
                   {"config", info.config},
                   {"state", info.state},
                   {"seed", std::to_string(network.seed())},
                   {"redraw", std::to_string(network.redraw())}};
  const auto on_host = [&](const ConstView& array) { return copies.emplace_back(array).view(); };
  for (const auto& parameter : network.parameters().all()) {
    const ConstView value = on_host(parameter->value);
    if (!AllFinite(value))
      Throw(ErrorCode::kInvalidData, Printable(path), "{} is not finite; nothing was written",
            parameter->name);
    file.entries[parameter->name] = io::EntryOf(value);
  }
  for (const NamedTensor& tensor : more)
    file.entries[tensor.name] = io::EntryOf(on_host(tensor.values));
  io::WriteSafetensors(path, file);
}

Checkpoint::Checkpoint(const std::string& path) : Checkpoint(io::ReadRegularFile(path), path) {}

Checkpoint::Checkpoint(std::string bytes, const std::string& name)
    : name_(name),
      bytes_(std::move(bytes)),
      file_(io::ParseSafetensors(std::as_bytes(std::span(bytes_)), name_)) {
  const auto format = file_.metadata.find("format");
  if (format == file_.metadata.end() || format->second != kFormat ||
      !file_.metadata.contains("checksum"))
    Throw(ErrorCode::kInvalidData, Printable(name_), "not a checkpoint of favor");
  info_ = {.config = file_.Metadata("config", name_), .state = file_.Metadata("state", name_)};
  seed_ = ParseNumber(file_.Metadata("seed", name_), name_);
  redraw_ = ParseNumber(file_.Metadata("redraw", name_), name_);
  model_ = ModelConfigFromJson(info_.config, name_);
}

void Checkpoint::CheckShape(const std::string& name, const Shape& shape) const {
  file_.Entry(name, name_).CheckReadable(shape, fmt::format("{}: {}", name_, name));
}

void Checkpoint::CheckNumbers(const std::string& name, const Shape& shape) const {
  CheckShape(name, shape);
  Tensor numbers(shape);
  Read(name, numbers);
  if (!AllFinite(numbers))
    Throw(ErrorCode::kInvalidData, Printable(name_), "{} holds NaN or infinity", name);
}

void Checkpoint::Read(const std::string& name, View to) const {
  const bool on_cpu = to.device().type == DeviceType::kCpu;
  Tensor staged;
  if (!on_cpu) staged = Tensor(to.shape(), to.type());
  const View read = on_cpu ? to : staged.view();
  file_.Entry(name, name_).ReadInto(read, fmt::format("{}: {}", name_, name));
  if (!on_cpu) CopyBytes(to.data(), to.device(), read.data(), Device{}, staged.Bytes());
}

std::unique_ptr<Network> Checkpoint::MakeNetwork(const Placement& placement) const {
  const auto shapes = Network::Make(model_, {.shapes_only = true});
  for (const auto& parameter : shapes->parameters().all())
    CheckShape(parameter->name, parameter->shape);
  NetworkOptions options = OptionsAt(placement, seed_);
  options.draw = false;
  auto network = Network::Make(model_, options);
  ReadInto(*network);
  const Context context({.threads = 1, .device = placement.device});
  network->parameters().Refresh(context);
  context.Wait();
  return network;
}

void Checkpoint::ReadInto(Network& network) const {
  for (const auto& parameter : network.parameters().all())
    CheckNumbers(parameter->name, parameter->shape);
  network.Redraw(seed_, redraw_);
  for (const auto& parameter : network.parameters().all()) Read(parameter->name, parameter->value);
}

ModelConfig ModelConfigFromJson(std::string_view config, const std::string& who) {
  const Json json = ParseJson(config);
  if (!json.is_object() || !json.contains("model"))
    Throw(ErrorCode::kInvalidData, Printable(who), "its config has no section \"model\"");
  ModelConfig model;
  try {  // what a file says is data, not an option
    FieldsFromJson("config", json["model"], ConfigFields(model));
    CheckConfig(model);
  } catch (const Error& error) {
    Throw(ErrorCode::kInvalidData, Printable(who), "{}", error.what());
  }
  return model;
}

std::unique_ptr<Checkpoint> OpenCheckpoint(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return std::make_unique<Checkpoint>(path);
  for (const std::string_view name : {kBestName, kLastName}) {
    const fs::path file = fs::path(path) / name;
    if (!fs::exists(file, ignored)) continue;
    auto checkpoint = std::make_unique<Checkpoint>(file.string());
    const fs::path config = fs::path(path) / kConfigName;
    if (fs::exists(config, ignored) &&
        io::OpenRegularFile(config.string()).ReadRest(kMaxConfigBytes) !=
            checkpoint->info().config) {
      Throw(ErrorCode::kInvalidData, Printable(config.string()),
            "damaged or changed: it is not the config that {} was made with", name);
    }
    return checkpoint;
  }
  Throw(ErrorCode::kIo, Printable(path), "no checkpoint here, expected {} or {}", kBestName,
        kLastName);
}

}  // namespace favor::models
