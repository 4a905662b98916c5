#include "kernel_attribution.hpp"

#include <algorithm>

namespace trimtab::agent {

namespace {

constexpr std::size_t kMostThreads = 256;
constexpr std::size_t kMostOrphans = 4096;  // of a thread

bool is_pass(const RangeRecord& record) {
  return record.domain == "trimtab" && record.name.starts_with("op/");
}

}  // namespace

void KernelAttribution::Work::merge(const Work& other) {
  device_ns += other.device_ns;
  kernels += other.kernels;
  last_ns = std::max(last_ns, other.last_ns);
  launches += other.launches;
  matched += other.matched;
}

KernelAttribution::KernelAttribution(const LostWindows& lost, AttributionOptions options)
    : lost_(lost), options_(options) {}

void KernelAttribution::make_tables() {
  if (!launches_.empty()) return;
  launches_.resize(options_.launches);
  waiting_.resize(options_.kernels);
  ranges_.resize(options_.ranges);
}

// Launches and kernels stay: they are joined by id, and find no pass any more.
void KernelAttribution::forget() {
  counters_.evicted += passes_.size();
  passes_.clear();
  order_.clear();
  orphans_.clear();
  newest_ns_ = 0;
}

void KernelAttribution::add_launch(std::uint32_t correlation, std::uint32_t range) {
  make_tables();
  Launch& launch = launches_[correlation & (options_.launches - 1)];
  if (launch.known && !launch.matched && launch.range != 0) ++counters_.evicted;
  launch = {correlation, range, true, false};
  if (Work* work = work_of(range)) ++work->launches;
  Waiting& waiting = waiting_[correlation & (options_.kernels - 1)];
  if (waiting.work.kernels == 0 || waiting.correlation != correlation) return;
  apply(launch, waiting.work);
  waiting = {};
}

void KernelAttribution::add_kernel(std::uint32_t correlation, std::uint64_t begin_ns, std::uint64_t end_ns) {
  make_tables();
  newest_ns_ = std::max(newest_ns_, end_ns);
  const Work work{end_ns - begin_ns, 1, end_ns, 0, 0};
  Launch& launch = launches_[correlation & (options_.launches - 1)];
  if (launch.known && launch.correlation == correlation) return apply(launch, work);
  Waiting& waiting = waiting_[correlation & (options_.kernels - 1)];
  if (waiting.work.kernels > 0 && waiting.correlation != correlation) {
    counters_.evicted += waiting.work.kernels;
    waiting.work = {};
  }
  waiting.correlation = correlation;
  waiting.work.merge(work);
}

void KernelAttribution::apply(Launch& launch, const Work& work) {
  Work* total = work_of(launch.range);
  (total != nullptr ? counters_.attributed : counters_.outside) += work.kernels;
  if (total == nullptr) return;
  total->merge(work);
  if (!launch.matched) ++total->matched;
  launch.matched = true;
}

// Nothing for a launch in no range, and for a range whose pass was given out already.
KernelAttribution::Work* KernelAttribution::work_of(std::uint32_t range) {
  if (range == 0) return nullptr;
  Range& entry = range_at(range);
  if (entry.pass == 0) return &entry.work;
  const auto pass = passes_.find(entry.pass);
  return pass == passes_.end() ? nullptr : &pass->second.work;
}

KernelAttribution::Range& KernelAttribution::range_at(std::uint32_t id) {
  Range& entry = ranges_[id & (options_.ranges - 1)];
  if (entry.id == id) return entry;
  if (entry.pass == 0 && entry.work.launches > 0) ++counters_.evicted;
  entry = {id, 0, {}};
  return entry;
}

void KernelAttribution::add_range(const RangeRecord& record) {
  const std::uint32_t id = id_of(record);
  if (id == 0 || (record.flags & record::kCrossThread) != 0) return;
  make_tables();
  if (orphans_.size() >= kMostThreads && !orphans_.contains(record.thread)) orphans_.clear();
  std::vector<Orphan>& orphans = orphans_[record.thread];
  const bool pass = is_pass(record);
  if (pass) begin_pass(record, id);
  // Ranges of a thread end from the inside out: those within this one are the last. The others wait on.
  if (pass || record.depth == 0) {
    while (!orphans.empty() && orphans.back().depth > record.depth && orphans.back().begin_ns >= record.begin_ns) {
      if (pass) count_for(orphans.back().id, id);
      orphans.pop_back();
    }
  }
  if (pass || record.depth == 0) return;
  if (orphans.size() >= kMostOrphans) {
    counters_.evicted += orphans.size();
    orphans.clear();
  }
  orphans.push_back({id, record.depth, record.begin_ns});
}

void KernelAttribution::begin_pass(const RangeRecord& record, std::uint32_t id) {
  if (passes_.size() >= options_.passes) {
    passes_.erase(order_.front());
    order_.pop_front();
    ++counters_.evicted;
  }
  if (!passes_.emplace(id, Pass{record, {}}).second) return;  // an id that comes twice: the producer is wrong
  order_.push_back(id);
  count_for(id, id);
}

void KernelAttribution::count_for(std::uint32_t range, std::uint32_t pass) {
  const auto found = passes_.find(pass);
  if (found == passes_.end()) return;
  Range& entry = range_at(range);
  if (entry.pass == 0) found->second.work.merge(entry.work);
  entry.pass = pass;
  entry.work = {};
}

bool KernelAttribution::judge(const Pass& pass) {
  const std::uint64_t end_ns = std::max(pass.range.end_ns, pass.work.last_ns);
  std::uint64_t* counter = &counters_.passes;
  if (lost_.overlap(pass.range.begin_ns, end_ns)) {
    counter = &counters_.windowed;
  } else if (pass.work.launches == 0) {
    counter = &counters_.without_kernels;
  } else if (pass.work.matched < pass.work.launches) {
    counter = &counters_.incomplete;
  }
  ++*counter;
  return counter == &counters_.passes;
}

}  // namespace trimtab::agent
