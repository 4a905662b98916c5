// How fast the agent folds a device's records, and that its memory does not depend on how many there are: kernels,
// their launches and ranges go through a real ring; reading and folding are timed, writing is not.
//
//   bench_fold [KERNELS, default 5000000] [KERNELS PER SECOND OF THE JOB, default 40000]
//
// A pass has six kernels here. At 100000 kernels a second more passes wait for late records than there is room for:
// "passes" are those whose kernels were joined, "crowded" those for which there was none, and less is done. One line of
// JSON each tenth of the way. It measures once, however long that takes: flags of Google Benchmark, which bench/record
// gives to every program, are accepted and change nothing.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "activity_fold.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "range_fold.hpp"
#include "ring_reader.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::agent;

constexpr std::uint32_t kNames = 1024;
constexpr std::uint32_t kSlots = 1U << 17;
constexpr std::uint32_t kKernelsPerPass = 6;
constexpr std::uint32_t kPassesPerStep = 120;
constexpr std::uint32_t kSignatures = 60;

class Producer {
 public:
  explicit Producer(std::uint64_t kernels_per_second)
      : descriptor_(memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
        pace_ns_(1'000'000'000 / kernels_per_second) {
    const std::size_t bytes =
        sizeof(record::RingHeader) + kNames * sizeof(record::NameEntry) + kSlots * sizeof(record::RecordSlot);
    if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) std::abort();
    memory_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0));
    if (memory_ == MAP_FAILED || fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      std::abort();
    }
    header_ = new (memory_) record::RingHeader{};
    header_->magic = record::kMagic;
    header_->version = record::kVersion;
    header_->header_bytes = sizeof(record::RingHeader);
    header_->name_capacity = kNames;
    header_->slot_capacity = kSlots;
    for (std::uint32_t i = 0; i < kSlots; ++i) slot(i).sequence.store(i);
    domain_ = name("trimtab");
    step_ = name("step");
    nccl_ = name("ncclDevKernel_AllReduce_Sum_bf16_RING_LL128(ncclDevKernelArgsStorage<4096ul>)");
    for (std::uint32_t i = 0; i < kSignatures; ++i) {
      kernels_[i] =
          name((i % 3 == 0 ? "sm90_xmma_gemm_bf16_tile_" : "vectorized_elementwise_kernel_") + std::to_string(i));
    }
    for (std::uint32_t i = 0; i < kPassesPerStep; ++i) {
      passes_[i] = name("op/layer." + std::to_string(i / 2) + (i % 2 == 0 ? "/forward" : "/backward"));
    }
  }
  [[nodiscard]] int descriptor() const { return dup(descriptor_); }
  [[nodiscard]] std::uint64_t kernels() const { return correlation_; }
  void consumed() { room_ = kSlots; }

  // Writes passes until the ring has no room for another.
  void fill() {
    while (room_ > 2 * kKernelsPerPass + 8) write_pass();
  }

 private:
  void write_pass() {
    const std::uint64_t begin = now_;
    const std::uint32_t pass = pass_++ % kPassesPerStep;
    const std::uint32_t range = ++range_;
    for (std::uint32_t k = 0; k < kKernelsPerPass; ++k) {
      const std::uint32_t correlation = ++correlation_;
      record::RecordSlot launch{};
      launch.kind = record::kLaunch;
      launch.payload = correlation;
      launch.domain = range;
      publish(launch);
      const bool collective = pass % 4 == 3 && k == 2;
      record::RecordSlot kernel{};
      kernel.kind = record::kKernel;
      kernel.payload = correlation;
      kernel.name = collective ? nccl_ : kernels_[(pass * kKernelsPerPass + k) % kSignatures];
      kernel.domain = 64 + k;
      kernel.detail[2] = 256;
      kernel.thread = collective ? 20 : 7;
      kernel.begin_ns = now_;
      kernel.end_ns = now_ + pace_ns_ * (collective ? 5 : 1) * (70 + random_.below(25)) / 100;
      now_ += pace_ns_;
      publish(kernel);
    }
    publish_range(passes_[pass], range, begin, 1);
    if (pass == kPassesPerStep - 1) publish_range(step_, ++range_, std::exchange(step_begin_, now_), 0);
  }
  void publish_range(std::uint32_t name, std::uint32_t id, std::uint64_t begin, std::uint16_t depth) {
    record::RecordSlot range{};
    range.kind = record::kRange;
    range.name = name;
    range.domain = domain_;
    range.thread = 1;
    range.depth = depth;
    range.payload = 4;
    range.flags = record::kPayloadValid;
    range.begin_ns = begin;
    range.end_ns = now_;
    range.detail[0] = static_cast<std::uint16_t>(id & 0xffffU);
    range.detail[1] = static_cast<std::uint16_t>(id >> 16U);
    publish(range);
  }
  void publish(const record::RecordSlot& fields) {
    record::RecordSlot& target = slot(head_);
    std::memcpy(reinterpret_cast<char*>(&target) + 8, reinterpret_cast<const char*>(&fields) + 8, sizeof fields - 8);
    target.sequence.store(head_ + 1, std::memory_order_release);
    header_->head.store(++head_, std::memory_order_release);
    --room_;
  }
  std::uint32_t name(const std::string& text) {
    auto& entry = reinterpret_cast<record::NameEntry*>(memory_ + sizeof(record::RingHeader))[++names_];
    const std::size_t length = std::min<std::size_t>(text.size(), record::kNameBytes);
    entry.length = static_cast<std::uint16_t>(length);
    std::memcpy(entry.text, text.data(), length);
    entry.state.store(2);
    return names_;
  }
  record::RecordSlot& slot(std::uint64_t ticket) {
    char* slots = memory_ + sizeof(record::RingHeader) + kNames * sizeof(record::NameEntry);
    return reinterpret_cast<record::RecordSlot*>(slots)[ticket % kSlots];
  }

  int descriptor_;
  std::uint64_t pace_ns_;
  char* memory_ = nullptr;
  record::RingHeader* header_ = nullptr;
  std::uint32_t names_ = 0;
  std::uint32_t domain_ = 0, step_ = 0, nccl_ = 0;
  std::uint32_t kernels_[kSignatures];
  std::uint32_t passes_[kPassesPerStep];
  std::uint64_t head_ = 0;
  std::uint32_t room_ = kSlots;
  std::uint32_t pass_ = 0, range_ = 0, correlation_ = 0;
  std::uint64_t now_ = 1'700'000'000'000'000'000;
  std::uint64_t step_begin_ = now_;
  Random random_{1};
};

double resident_mib() {
  long pages = 0;
  long resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%ld %ld", &pages, &resident) != 2) std::abort();
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// False when the fold has no device times of operators, or no other costs.
bool run(std::uint64_t wanted, std::uint64_t kernels_per_second) {
  Producer producer(kernels_per_second);
  SystemClock clock;
  const auto reader = RingReader::attach(producer.descriptor(), clock).value();
  RangeFold ranges;
  ActivityFold activity;
  std::uint64_t records = 0;
  std::size_t costs = 0;
  std::size_t operators = 0;  // of those, device times of operators' passes
  double seconds = 0;
  std::uint64_t told = 0;
  const auto take_costs = [&] {
    const std::vector<Cost> folded = ranges.take();
    operators += static_cast<std::size_t>(
        std::ranges::count_if(folded, [](const Cost& cost) { return cost.key.subject.ends_with("/device"); }));
    costs += activity.take_kernels().size() + activity.take_slowdowns().size() + folded.size();
  };
  for (std::uint64_t round = 0; producer.kernels() < wanted; ++round) {
    producer.fill();
    const auto begin = std::chrono::steady_clock::now();
    records += reader
                   ->drain(SIZE_MAX,
                           [&](std::span<const RangeRecord> batch) {
                             for (const RangeRecord& record : batch) {
                               if (record.kind <= record::kThreadName) ranges.add(record);
                               activity.add(record);
                             }
                           })
                   .records;
    activity.settle();
    if (activity.on_device()) ranges.on_device();
    activity.take_passes([&](const PassTime& pass) { ranges.add_device_time(pass.range, pass.device_ns); });
    if (round % 20 == 19) take_costs();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    producer.consumed();
    if (producer.kernels() * 10 / wanted <= told) continue;
    told = producer.kernels() * 10 / wanted;
    std::printf(
        "{\"kernels\": %llu, \"records\": %llu, \"kernels_per_second\": %.0f, \"records_per_second\": %.0f, "
        "\"resident_mib\": %.1f, \"steps\": %llu, \"passes\": %llu, \"crowded\": %llu, \"operators\": %zu}\n",
        static_cast<unsigned long long>(activity.counters().kernels), static_cast<unsigned long long>(records),
        static_cast<double>(activity.counters().kernels) / seconds, static_cast<double>(records) / seconds,
        resident_mib(), static_cast<unsigned long long>(activity.activity().steps),
        static_cast<unsigned long long>(activity.attribution().passes),
        static_cast<unsigned long long>(activity.attribution().crowded), operators);
    std::fflush(stdout);
  }
  take_costs();
  return operators > 0 && costs > operators;
}

int usage(const char* problem) {
  std::fprintf(stderr, "%s\nusage: bench_fold [KERNELS [KERNELS_PER_SECOND_OF_THE_JOB]], both at least 1\n", problem);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t numbers[] = {5'000'000, 40'000};
  std::size_t given = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (text.starts_with("--benchmark_")) continue;
    if (given == std::size(numbers)) return usage("too many arguments");
    std::uint64_t& number = numbers[given++];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number == 0) return usage("not a number above 0");
  }
  // Correlation ids have 32 bits, and a pace has whole nanoseconds.
  if (numbers[0] > 4'000'000'000 || numbers[1] > 1'000'000'000) return usage("too many kernels");
  if (run(numbers[0], numbers[1])) return 0;
  std::fputs("no costs of operators or none of kernels came out\n", stderr);
  return 1;
}
