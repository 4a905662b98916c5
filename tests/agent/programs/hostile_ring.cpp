// hostile_ring SOCKET WHAT: hands the agent on SOCKET a ring and does WHAT to it for as long as it lives, as fast as it
// can; where the agent has given one up, another.
//   slots     claims all slots at once and publishes none: holes, garbage and turns of the past
//   records   publishes records with every field at random
//   counters  puts its counters and its header to anything
//   names     writes its name table anew all the time, and records that use it
//   resizes   tries to cut the file, to punch holes in it and to grow it, under records
//   rings     hands over one ring after the other
//   memory    hands over the largest rings, cuts holes into them and has them read; then the same without any pages
// Says "ready" when the agent has read from the first one.

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "agent_connection.hpp"
#include "schema/record.hpp"

using namespace trimtab;

namespace {

constexpr std::uint32_t kNames = 64;
constexpr std::uint32_t kSlots = 1U << 16;
constexpr std::uint32_t kMostSlots = 1U << 20;

constexpr std::size_t bytes_of(std::uint32_t slots) {
  return sizeof(record::RingHeader) + kNames * sizeof(record::NameEntry) +
         std::size_t{slots} * sizeof(record::RecordSlot);
}
constexpr std::size_t kBytes = bytes_of(kSlots);

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(2);
}

std::uint64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

class Ring {
 public:
  explicit Ring(const char* socket, std::uint32_t slots = kSlots, bool sparse = false) : slots_(slots) {
    descriptor_ = ::memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor_ < 0 || ::ftruncate(descriptor_, bytes()) != 0) fail("memfd");
    if (!sparse && ::posix_fallocate(descriptor_, 0, bytes()) != 0) fail("fallocate");
    void* const memory = ::mmap(nullptr, bytes_of(slots_), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory == MAP_FAILED) fail("mmap");
    memory_ = static_cast<char*>(memory);
    new (memory_) record::RingHeader{};
    header().magic = record::kMagic;
    header().version = record::kVersion;
    header().header_bytes = sizeof(record::RingHeader);
    header().name_capacity = kNames;
    header().slot_capacity = slots_;
    header().pid = static_cast<std::uint32_t>(::getpid());
    for (std::uint64_t i = 0; i < slots_ && !sparse; ++i) slot(i).sequence.store(i);
    if (::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail("seal");
    const std::string json =
        R"({"type":"ring","version":1,"job":"","rank":-1,"pid":)" + std::to_string(::getpid()) + "}";
    const auto length = static_cast<std::uint32_t>(json.size());
    std::string frame(reinterpret_cast<const char*>(&length), sizeof(length));
    frame += json;
    while (!agent_.open(socket) || !agent_.hand_over(frame.data(), frame.size(), descriptor_)) ::usleep(1000);
  }
  ~Ring() {
    ::munmap(memory_, bytes_of(slots_));
    ::close(descriptor_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  record::RingHeader& header() { return *reinterpret_cast<record::RingHeader*>(memory_); }
  record::NameEntry& name(std::uint64_t index) {
    return reinterpret_cast<record::NameEntry*>(memory_ + sizeof(record::RingHeader))[index % kNames];
  }
  record::RecordSlot& slot(std::uint64_t ticket) {
    return reinterpret_cast<record::RecordSlot*>(memory_ + sizeof(record::RingHeader) +
                                                 kNames * sizeof(record::NameEntry))[ticket % slots_];
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] off_t bytes() const { return static_cast<off_t>(bytes_of(slots_)); }

  // As many as the agent has made room for.
  template <typename Fill>
  void publish_all(const Fill& fill) {
    const std::uint64_t tail = header().tail.load();
    std::uint64_t head = header().head.load();
    for (; head - tail < slots_; ++head) {
      record::RecordSlot& next = slot(head);
      fill(next);
      next.sequence.store(head + 1);
    }
    header().head.store(head);
  }

 private:
  const std::uint32_t slots_;
  inject::AgentConnection agent_;
  int descriptor_ = -1;
  char* memory_ = nullptr;
};

class Attack {
 public:
  explicit Attack(Ring& ring, std::mt19937_64& random) : ring_(ring), random_(random) {}

  void slots() {
    ring_.slot(random_()).sequence.store(random_());
    ring_.header().head.store(ring_.header().tail.load() + kSlots);
  }
  void records() {
    ring_.publish_all([this](record::RecordSlot& slot) { fill(slot); });
  }
  void counters() {
    auto* const words = reinterpret_cast<std::uint64_t*>(&ring_.header());
    words[random_() % (sizeof(record::RingHeader) / sizeof(std::uint64_t))] = random_() >> random_() % 64;
    ring_.header().head.store(ring_.header().tail.load() + random_() % (2 * kSlots));
  }
  void names() {
    record::NameEntry& name = ring_.name(random_());
    for (char& byte : name.text) byte = static_cast<char>(random_());
    name.length = static_cast<std::uint16_t>(random_());
    name.state.store(static_cast<std::uint32_t>(random_() % 3));
    records();
  }
  void resizes() {
    const std::size_t size = random_() % (2 * kBytes);  // its own size is no change: seals allow that
    if (size != kBytes && ::ftruncate(ring_.descriptor(), static_cast<off_t>(size)) == 0) fail("a sealed ring was cut");
    (void)::fallocate(ring_.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(4096 + random_() % kBytes), 65536);
    records();
  }

 private:
  // Of a time near now, so that much of it is believed.
  void fill(record::RecordSlot& slot) {
    constexpr std::uint16_t kKinds[] = {1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 32, 33, 34, 0, 99};
    slot.begin_ns = now_ns() - random_() % 8'000'000'000;
    slot.end_ns = slot.begin_ns + random_() % 4'000'000'000;
    slot.payload = static_cast<std::int64_t>(random_());
    slot.name = static_cast<std::uint32_t>(random_() % (kNames + 2));
    slot.domain = static_cast<std::uint32_t>(random_() % (kNames + 2));
    slot.thread = static_cast<std::uint32_t>(random_());
    slot.kind = kKinds[random_() % std::size(kKinds)];
    slot.flags = static_cast<std::uint16_t>(random_());
    slot.depth = static_cast<std::uint16_t>(random_());
    for (std::uint16_t& detail : slot.detail) detail = static_cast<std::uint16_t>(random_());
  }

  Ring& ring_;
  std::mt19937_64& random_;
};

bool wait_for_tail(Ring& ring, std::uint64_t tail, int ms) {
  for (; ms > 0 && ring.header().tail.load() != tail; --ms) ::usleep(1000);
  return ring.header().tail.load() == tail;
}

// Has a ring read that takes memory from whoever reads it.
void have_read(Ring& ring, bool sparse) {
  ring.slot(0).sequence.store(1);
  ring.header().head.store(1);
  if (!wait_for_tail(ring, 1, 500)) return;  // it is refused
  constexpr off_t kKept = 4096;
  if (!sparse &&
      ::fallocate(ring.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kKept, ring.bytes() - kKept) != 0) {
    fail("a hole");
  }
  ring.header().head.store(kMostSlots);
  (void)wait_for_tail(ring, kMostSlots, 20'000);
}

[[noreturn]] void take_memory(const char* socket) {
  constexpr std::size_t kRings = 4;
  std::vector<std::unique_ptr<Ring>> rings;
  for (std::size_t i = 0; i < kRings; ++i) {
    const bool sparse = i >= kRings / 2;
    rings.push_back(std::make_unique<Ring>(socket, kMostSlots, sparse));
    have_read(*rings.back(), sparse);
  }
  std::puts("ready");
  std::fflush(stdout);
  for (;;) ::pause();
}

using Method = void (Attack::*)();
Method method_named(const std::string& name) {
  if (name == "slots") return &Attack::slots;
  if (name == "records") return &Attack::records;
  if (name == "counters") return &Attack::counters;
  if (name == "names") return &Attack::names;
  if (name == "resizes") return &Attack::resizes;
  return name == "rings" ? &Attack::records : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[2] : "";
  if (what == "memory") take_memory(argv[1]);
  const Method method = method_named(what);
  if (method == nullptr) {
    std::fprintf(stderr, "usage: hostile_ring SOCKET slots|records|counters|names|resizes|rings|memory\n");
    return 2;
  }
  std::mt19937_64 random(1);
  const auto life = std::chrono::milliseconds(what == "rings" ? 5 : 300);
  for (bool first = true;; first = false) {
    Ring ring(argv[1]);
    if (first) {
      Attack(ring, random).records();
      while (ring.header().tail.load() == 0) ::usleep(1000);
      std::puts("ready");
      std::fflush(stdout);
    }
    Attack attack(ring, random);
    const auto until = std::chrono::steady_clock::now() + life;
    do (attack.*method)();
    while (std::chrono::steady_clock::now() < until);
  }
}
