#pragma once

// The driver's NVML, opened at run time. Calls are thread-safe by NVML's own word, but any of them may take seconds,
// and on a GPU that fell off its bus for ever: call from a thread that nobody waits for without a limit.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "gpu/nvml_abi.hpp"

namespace trimtab::host {

// What was asked and refused for another reason than "this device or driver does not have it"; each text once.
class NvmlRefusals final {
 public:
  void add(std::string text);
  [[nodiscard]] std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::vector<std::string> texts_;
};

class NvmlLibrary final {
 public:
  // kNo: there is no NVIDIA GPU to ask about (no library, no driver, no device). kUnavailable: there is, and NVML does
  // not start (a driver and library of different versions, no permission).
  [[nodiscard]] static Result<std::shared_ptr<NvmlLibrary>> open(const std::string& name);
  ~NvmlLibrary();  // shuts down; the library stays loaded
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  // "the GPU is lost (NVML code 15)".
  [[nodiscard]] std::string describe(int code) const;

  // function(arguments..., &value); nullopt where it is absent, not supported or refused.
  template <typename Value, typename... Parameters, typename... Arguments>
  [[nodiscard]] std::optional<Value> ask(const char* name, int (*function)(Parameters...), NvmlRefusals& refusals,
                                         Arguments... arguments) const {
    Value value{};
    if (function == nullptr || !succeeded(name, function(arguments..., &value), refusals)) return std::nullopt;
    return value;
  }
  // function(arguments..., &first, &second).
  template <typename Value, typename... Parameters, typename... Arguments>
  [[nodiscard]] std::optional<std::pair<Value, Value>> ask_pair(const char* name, int (*function)(Parameters...),
                                                                NvmlRefusals& refusals, Arguments... arguments) const {
    std::pair<Value, Value> values{};
    if (function == nullptr || !succeeded(name, function(arguments..., &values.first, &values.second), refusals))
      return std::nullopt;
    return values;
  }
  // function(arguments..., buffer, length); empty where nothing is said.
  template <typename... Parameters, typename... Arguments>
  [[nodiscard]] std::string ask_text(const char* name, int (*function)(Parameters...), NvmlRefusals& refusals,
                                     Arguments... arguments) const {
    char text[256] = {};
    if (function == nullptr || !succeeded(name, function(arguments..., text, unsigned{sizeof text - 1}), refusals))
      return "";
    return text;
  }

  nvml::Functions call;

 private:
  NvmlLibrary() = default;
  [[nodiscard]] bool succeeded(const char* name, int code, NvmlRefusals& refusals) const;
  [[nodiscard]] Status start();
  bool started_ = false;
};

// The first two arguments of ask(): a function's name and the function.
#define TRIMTAB_NVML(library, name) #name, (library).call.name

}  // namespace trimtab::host
