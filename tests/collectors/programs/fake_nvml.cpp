// libnvidia-ml.so.1 as a script says: no driver, no GPU. The file named by TRIMTAB_FAKE_NVML is read at every call; its
// lines are
//
//     SCOPE FUNCTION[/ARGUMENT] ANSWER
//
// with SCOPE `system`, a device's index, an instance `index.instance`, or `*` for any device. ANSWER is a text or a
// number, `!CODE` for a failure, or `hang`: then the call waits until the script says otherwise. What has no line is
// not supported. Structures are written at the offsets of NVIDIA's header, not through the product's declarations. With
// FAKE_NVML_OLD it lacks what drivers before R450 lack.

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace {

constexpr int kNotSupported = 3;
constexpr int kInvalidArgument = 2;

std::optional<std::string> line_for(const std::string& scope, const std::string& call) {
  const char* file = std::getenv("TRIMTAB_FAKE_NVML");
  std::ifstream script(file != nullptr ? file : "");
  const std::string wanted = scope + " " + call + " ";
  for (std::string line; std::getline(script, line);) {
    if (line.starts_with(wanted)) return line.substr(wanted.size());
  }
  return std::nullopt;
}

std::optional<std::string> look_up(const std::string& scope, const std::string& call) {
  auto answer = line_for(scope, call);
  if (!answer && scope != "system") answer = line_for("*", call);
  return answer;
}

struct Answer {
  int code = kNotSupported;
  std::string text;
  [[nodiscard]] unsigned long long number() const { return std::strtoull(text.c_str(), nullptr, 10); }
};

Answer ask(const std::string& scope, const std::string& call) {
  auto text = look_up(scope, call);
  while (text && *text == "hang") {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    text = look_up(scope, call);
  }
  if (!text) return {};
  if (text->starts_with("!")) return {std::atoi(text->c_str() + 1), ""};
  return {0, *text};
}

// Handles live as long as the library.
void* handle_of(const std::string& scope) {
  static std::mutex mutex;
  static std::map<std::string, std::string> handles;
  const std::scoped_lock lock(mutex);
  return &handles.try_emplace(scope, scope).first->second;
}

std::string scope_of(void* device) {
  return *static_cast<std::string*>(device);
}

int give(const Answer& answer, void* value, std::size_t size) {
  const unsigned long long number = answer.number();
  if (answer.code == 0) std::memcpy(value, &number, size);
  return answer.code;
}

int give_text(const Answer& answer, char* text, unsigned length) {
  if (answer.code != 0) return answer.code;
  if (answer.text.size() >= length) return 7;
  std::memcpy(text, answer.text.c_str(), answer.text.size() + 1);
  return 0;
}

// The n-th word of an answer.
unsigned long long word(const Answer& answer, int position) {
  const char* at = answer.text.c_str();
  char* end = nullptr;
  unsigned long long value = 0;
  for (int index = 0; index <= position; ++index, at = end) value = std::strtoull(at, &end, 10);
  return value;
}

int give_pair(const Answer& answer, void* first, void* second) {
  if (answer.code != 0) return answer.code;
  const auto low = static_cast<unsigned>(word(answer, 0));
  const auto high = static_cast<unsigned>(word(answer, 1));
  std::memcpy(first, &low, sizeof low);
  std::memcpy(second, &high, sizeof high);
  return 0;
}

int give_pci(const Answer& answer, void* pci) {
  if (answer.code != 0) return answer.code;
  std::memset(pci, 0, 68);
  std::strncpy(static_cast<char*>(pci) + 36, answer.text.c_str(), 31);  // busId
  return 0;
}

std::string with(const char* call, unsigned long long argument) {
  return std::string(call) + "/" + std::to_string(argument);
}

}  // namespace

extern "C" {

#define DEVICE_NUMBER(name, type)                                    \
  int name(void* device, type* value) {                              \
    return give(ask(scope_of(device), #name), value, sizeof *value); \
  }
#define DEVICE_NUMBER_OF(name, type)                                              \
  int name(void* device, unsigned which, type* value) {                           \
    return give(ask(scope_of(device), with(#name, which)), value, sizeof *value); \
  }
#define DEVICE_TEXT(name)                                         \
  int name(void* device, char* text, unsigned length) {           \
    return give_text(ask(scope_of(device), #name), text, length); \
  }

int nvmlInit_v2() {
  const Answer answer = ask("system", "nvmlInit_v2");
  return answer.code == kNotSupported ? 0 : answer.code;
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int code) {
  return code == 15 ? "GPU is lost" : code == 18 ? "Driver/library version mismatch" : "scripted failure";
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return give_text(ask("system", "nvmlSystemGetDriverVersion"), text, length);
}
int nvmlSystemGetCudaDriverVersion_v2(int* value) {
  return give(ask("system", "nvmlSystemGetCudaDriverVersion_v2"), value, sizeof *value);
}
int nvmlDeviceGetCount_v2(unsigned* value) {
  return give(ask("system", "nvmlDeviceGetCount_v2"), value, sizeof *value);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= ask("system", "nvmlDeviceGetCount_v2").number()) return kInvalidArgument;
  const Answer answer = ask(std::to_string(index), "nvmlDeviceGetHandleByIndex_v2");
  if (answer.code != kNotSupported && answer.code != 0) return answer.code;
  *device = handle_of(std::to_string(index));
  return 0;
}
DEVICE_TEXT(nvmlDeviceGetName)
DEVICE_TEXT(nvmlDeviceGetUUID)
int nvmlDeviceGetPciInfo_v3(void* device, void* pci) {
  return give_pci(ask(scope_of(device), "nvmlDeviceGetPciInfo_v3"), pci);
}
int nvmlDeviceGetMemoryInfo(void* device, void* memory) {  // "TOTAL USED"
  const Answer answer = ask(scope_of(device), "nvmlDeviceGetMemoryInfo");
  if (answer.code != 0) return answer.code;
  const unsigned long long values[3] = {word(answer, 0), word(answer, 0) - word(answer, 1), word(answer, 1)};
  std::memcpy(memory, values, sizeof values);
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  return give_pair(ask(scope_of(device), "nvmlDeviceGetCudaComputeCapability"), major, minor);
}
int nvmlDeviceGetEccMode(void* device, int* current, int* pending) {
  return give_pair(ask(scope_of(device), "nvmlDeviceGetEccMode"), current, pending);
}
int nvmlDeviceGetUtilizationRates(void* device, void* rates) {
  auto* values = static_cast<unsigned*>(rates);
  return give_pair(ask(scope_of(device), "nvmlDeviceGetUtilizationRates"), values, values + 1);
}
DEVICE_NUMBER_OF(nvmlDeviceGetClockInfo, unsigned)
DEVICE_NUMBER_OF(nvmlDeviceGetMaxClockInfo, unsigned)
int nvmlDeviceGetClock(void* device, unsigned type, unsigned id, unsigned* value) {
  return give(ask(scope_of(device), with("nvmlDeviceGetClock", type) + "/" + std::to_string(id)), value, sizeof *value);
}
DEVICE_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
DEVICE_NUMBER(nvmlDeviceGetPowerUsage, unsigned)
DEVICE_NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned)
DEVICE_NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long)
DEVICE_NUMBER_OF(nvmlDeviceGetTemperature, unsigned)
int nvmlDeviceGetTotalEccErrors(void* device, unsigned kind, unsigned, unsigned long long* value) {
  return give(ask(scope_of(device), with("nvmlDeviceGetTotalEccErrors", kind)), value, sizeof *value);
}
DEVICE_NUMBER(nvmlDeviceGetComputeMode, int)
DEVICE_NUMBER(nvmlDeviceGetVirtualizationMode, int)
DEVICE_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned)
DEVICE_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned)
DEVICE_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned)
DEVICE_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned)
DEVICE_NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned)
DEVICE_NUMBER_OF(nvmlDeviceGetPcieThroughput, unsigned)
int nvmlDeviceGetNvLinkErrorCounter(void* device, unsigned link, int counter, unsigned long long* value) {
  return give(ask(scope_of(device), with("nvmlDeviceGetNvLinkErrorCounter", link) + "/" + std::to_string(counter)),
              value, sizeof *value);
}
int nvmlDeviceGetTopologyCommonAncestor(void* first, void* second, int* level) {
  return give(ask(scope_of(first), "nvmlDeviceGetTopologyCommonAncestor/" + scope_of(second)), level, sizeof *level);
}
DEVICE_NUMBER_OF(nvmlDeviceGetNvLinkState, int)
DEVICE_NUMBER_OF(nvmlDeviceGetNvLinkVersion, unsigned)
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, void* pci) {
  return give_pci(ask(scope_of(device), with("nvmlDeviceGetNvLinkRemotePciInfo_v2", link)), pci);
}

#ifndef FAKE_NVML_OLD
DEVICE_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
DEVICE_NUMBER(nvmlDeviceGetNumGpuCores, unsigned)
DEVICE_NUMBER_OF(nvmlDeviceGetNvLinkRemoteDeviceType, int)
int nvmlSystemGetConfComputeState(void* state) {  // "FEATURE DEVTOOLS"
  const Answer answer = ask("system", "nvmlSystemGetConfComputeState");
  auto* values = static_cast<unsigned*>(state);
  values[0] = 2;
  return give_pair(answer, values + 1, values + 2);
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  return give_pair(ask(scope_of(device), "nvmlDeviceGetMigMode"), current, pending);
}
DEVICE_NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned)
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
  const Answer answer = ask(scope_of(device), with("nvmlDeviceGetMigDeviceHandleByIndex", index));
  if (answer.code != 0) return answer.code == kNotSupported ? 6 : answer.code;
  *instance = handle_of(scope_of(device) + "." + std::to_string(index));
  return 0;
}
int nvmlDeviceGetAttributes_v2(void* device, void* attributes) {  // "SMS GPU_SLICES COMPUTE_SLICES MIB"
  const Answer answer = ask(scope_of(device), "nvmlDeviceGetAttributes_v2");
  if (answer.code != 0) return answer.code;
  std::memset(attributes, 0, 40);
  auto* values = static_cast<unsigned*>(attributes);
  values[0] = static_cast<unsigned>(word(answer, 0));
  values[6] = static_cast<unsigned>(word(answer, 1));
  values[7] = static_cast<unsigned>(word(answer, 2));
  const unsigned long long memory = word(answer, 3);
  std::memcpy(values + 8, &memory, sizeof memory);
  return 0;
}
#endif

}  // extern "C"
