#include "settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace trimtab::inject {

namespace {

constexpr std::uint32_t kDefaultSlots = 65536;
constexpr std::uint32_t kMinSlots = 256;
constexpr std::uint32_t kMaxSlots = 1U << 20;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kKib = 1024;
constexpr std::uint64_t kMillisecondNs = 1'000'000;

bool is(const char* text, const char* wanted) {
  return text != nullptr && std::strcmp(text, wanted) == 0;
}

// True when all of `text` is one decimal number.
bool parse_number(const char* text, long& number) {
  if (text == nullptr || *text == '\0') return false;
  char* end = nullptr;
  number = std::strtol(text, &end, 10);
  return *end == '\0';
}

// Text of a bounded length; what does not fit is counted all the same.
class FrameText {
 public:
  FrameText(char* buffer, std::size_t capacity, std::size_t used) : buffer_(buffer), capacity_(capacity), used_(used) {}
  FrameText& add(const char* text) {
    for (; *text != '\0'; ++text) append(*text);
    return *this;
  }
  FrameText& add(long long value) {
    char digits[24];
    std::snprintf(digits, sizeof(digits), "%lld", value);
    return add(digits);
  }
  // A JSON string's inside. What is not printable ASCII becomes '?': an id that the agent knows is plain text.
  FrameText& add_inside(const char* text) {
    for (; *text != '\0'; ++text) {
      if (*text == '"' || *text == '\\') append('\\');
      append(*text >= ' ' && *text <= '~' ? *text : '?');
    }
    return *this;
  }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  void append(char byte) {
    if (used_ < capacity_) buffer_[used_] = byte;
    ++used_;
  }

  char* buffer_;
  std::size_t capacity_;
  std::size_t used_;
};

void copy_text(char* to, std::size_t capacity, const char* from) {
  if (from != nullptr) std::snprintf(to, capacity, "%s", from);
}

}  // namespace

bool usable_socket_path(const char* path) {
  return path != nullptr && *path != '\0' && std::strlen(path) < sizeof(Settings::socket_path);
}

std::int32_t parse_rank(const char* text) {
  long number = 0;
  if (!parse_number(text, number) || number < 0 || number > 0x7fffffff) return -1;
  return static_cast<std::int32_t>(number);
}

std::uint32_t parse_ring_slots(const char* text) {
  long number = 0;
  if (!parse_number(text, number) || number <= 0) return kDefaultSlots;
  std::uint32_t slots = kMinSlots;
  while (slots < kMaxSlots && slots < static_cast<std::uint64_t>(number)) slots *= 2;
  return slots;
}

double parse_budget(const char* text) {
  const double otherwise = CuptiSettings{}.budget;
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double share = std::strtod(text, &end);
  return *end == '\0' && share >= 0 && share <= 1 ? share : otherwise;
}

std::uint64_t parse_within(const char* text, std::uint64_t least, std::uint64_t most, std::uint64_t otherwise) {
  long number = 0;
  if (!parse_number(text, number) || number < 0) return otherwise;
  const auto value = static_cast<std::uint64_t>(number);
  return value < least ? least : value > most ? most : value;
}

void become_watched(Settings& settings, char* (*environment)(const char*)) {
  settings.rank = 0;
  for (const char* name : {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    const std::int32_t rank = parse_rank(environment(name));
    if (rank < 0) continue;
    settings.rank = rank;
    break;
  }
  settings.launch = 1 + parse_within(environment("TORCHELASTIC_RESTART_COUNT"), 0, INT32_MAX, 0);
}

CuptiSettings read_cupti_settings() {
  CuptiSettings settings;
  const auto number = [](const char* name, std::uint64_t least, std::uint64_t most, std::uint64_t otherwise) {
    return parse_within(secure_getenv(name), least, most, otherwise);
  };
  settings.budget = parse_budget(secure_getenv("TRIMTAB_BUDGET"));
  settings.enabled = settings.budget > 0 && !is(secure_getenv("TRIMTAB_CUPTI"), "0") &&
                     !is(secure_getenv("CUDA_INJECTION64_PATH"), "none");
  settings.graph_nodes = is(secure_getenv("TRIMTAB_GRAPHS"), "nodes");
  settings.buffers = static_cast<std::uint32_t>(number("TRIMTAB_CUPTI_BUFFERS", 4, 256, settings.buffers));
  settings.buffer_bytes = number("TRIMTAB_CUPTI_BUFFER_KIB", 64, 10240, settings.buffer_bytes / kKib) / 4 * 4 * kKib;
  settings.flush_ns = number("TRIMTAB_FLUSH_MS", 10, 60'000, settings.flush_ns / kMillisecondNs) * kMillisecondNs;
  settings.back_off_ns =
      number("TRIMTAB_PROFILER_BACK_OFF_MS", 100, 3'600'000, settings.back_off_ns / kMillisecondNs) * kMillisecondNs;
  settings.kernel_cost_ns = number("TRIMTAB_KERNEL_COST_NS", 0, 1'000'000, settings.kernel_cost_ns);
  settings.graph_cost_ns = number("TRIMTAB_GRAPH_COST_NS", 0, 100'000'000, settings.graph_cost_ns);
  settings.follow_profilers = !is(secure_getenv("TRIMTAB_FOLLOW_PROFILERS"), "0");
  copy_text(settings.library, sizeof(settings.library), secure_getenv("TRIMTAB_CUPTI_LIBRARY"));
  return settings;
}

Settings read_settings() {
  Settings settings;
  const char* master = secure_getenv("TRIMTAB");
  const char* path = secure_getenv("TRIMTAB_SOCKET");
  if (is(master, "0") || !usable_socket_path(path)) return settings;
  settings.enabled = true;
  copy_text(settings.socket_path, sizeof(settings.socket_path), path);
  settings.agent_user =
      static_cast<std::uint32_t>(parse_within(secure_getenv("TRIMTAB_AGENT_UID"), 0, UINT32_MAX, UINT32_MAX));
  copy_text(settings.job, sizeof(settings.job), secure_getenv("TRIMTAB_JOB"));
  settings.rank = parse_rank(secure_getenv("TRIMTAB_RANK"));
  settings.launch = parse_within(secure_getenv("TRIMTAB_LAUNCH"), 0, INT64_MAX, 0);
  if (settings.rank < 0 && is(secure_getenv("TRIMTAB_WATCH"), "1")) become_watched(settings, secure_getenv);
  copy_text(settings.variant, sizeof(settings.variant), secure_getenv("TRIMTAB_VARIANT"));
  settings.ring_slots = parse_ring_slots(secure_getenv("TRIMTAB_RING_SLOTS"));
  settings.cupti = read_cupti_settings();
  return settings;
}

std::size_t build_ring_frame(const Settings& settings, std::int32_t pid, char* buffer, std::size_t capacity) {
  if (capacity < kLengthBytes) return 0;
  FrameText text(buffer, capacity, kLengthBytes);
  text.add(R"({"type":"ring","version":1,"pid":)").add(pid).add(R"(,"job":")").add_inside(settings.job);
  text.add(R"(","rank":)").add(settings.rank);
  if (settings.launch > 0) {
    text.add(R"(,"launch":)").add(static_cast<long long>(settings.launch));
    text.add(R"(,"variant":")").add_inside(settings.variant).add("\"");
  }
  const std::size_t used = text.add("}").used();
  if (used > capacity) return 0;
  const std::size_t length = used - kLengthBytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) buffer[i] = static_cast<char>((length >> (8 * i)) & 0xff);
  return used;
}

}  // namespace trimtab::inject
