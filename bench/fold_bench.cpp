// How fast the agent folds a device's records, and that its memory does not depend on how many there are: kernels,
// their launches and ranges go through a real ring; reading and folding are timed, writing is not.
//
//   bench_fold [KERNELS, default 5000000] [KERNELS PER SECOND OF THE JOB, default 40000]
//
// A pass has six kernels here. At 100000 kernels a second more passes wait for late records than there is room for:
// "passes" are those whose kernels were joined, "crowded" those for which there was none, and less is done. One line of
// JSON each tenth of the way. It measures once, however long that takes: flags of Google Benchmark, which bench/record
// gives to every program, are accepted and change nothing.

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "made_up_ring.hpp"
#include "records/activity_fold.hpp"
#include "records/range_fold.hpp"
#include "records/ring_reader.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::agent;

// When the made-up job began.
constexpr std::uint64_t kBeginNs = 1'700'000'000'000'000'000;

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
  MadeUpRing producer(kernels_per_second, kBeginNs);
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
