#include "kernels/kernel_attribution.hpp"

#include <algorithm>

namespace trimtab::agent {

namespace {

constexpr std::size_t kMostThreads = 256;
constexpr std::size_t kMostOrphans = 4096;  // of a thread
constexpr std::uint64_t kTickNs = 64;

std::uint32_t ticks_of(std::uint64_t ns) {
  return ns == 0 ? 0 : std::max(static_cast<std::uint32_t>(ns / kTickNs), 1U);
}

}  // namespace

KernelAttribution::KernelAttribution(const LostWindows& lost, AttributionOptions options)
    : lost_(lost), options_(options), ranges_(options.blocks, options.block_ranges, options.settle_ns) {}

void KernelAttribution::make_tables() {
  if (!launches_.empty()) return;
  launches_.resize(options_.launches);
  waiting_.resize(options_.kernels);
}

// Launches and kernels stay: they are joined by id, and find no pass any more.
void KernelAttribution::forget() {
  counters_.evicted += passes_.size();
  passes_.clear();
  order_.clear();
  orphans_.clear();
  ranges_.forget_times();
  newest_ns_ = 0;
}

void KernelAttribution::add_launch(std::uint32_t correlation, std::uint32_t range, std::uint64_t begin_ns,
                                   std::uint64_t end_ns) {
  make_tables();
  Launch& launch = launches_[correlation & (options_.launches - 1)];
  // A call that another call made, both recorded: the outer one comes last.
  const bool again = launch.known && launch.correlation == correlation && range == 0 && begin_ns != 0;
  if (again) {
    launch.ticks = ticks_of(end_ns);
    return;
  }
  KernelWork* work = work_of(range);
  const bool awaited = launch.known && !launch.matched && work_of(launch.range) != nullptr;
  if (awaited && work == nullptr) return;  // what nobody waits for takes no place from what somebody does
  if (awaited) ++counters_.evicted;
  launch = {correlation, range, ticks_of(end_ns), true, false};
  if (work != nullptr) ++work->launches;
  Waiting& waiting = waiting_[correlation & (options_.kernels - 1)];
  if (waiting.work.kernels == 0 || waiting.correlation != correlation) return;
  apply(launch, waiting.work);
  waiting = {};
}

void KernelAttribution::no_launch(std::uint32_t correlation) {
  if (launches_.empty()) return;
  Launch& launch = launches_[correlation & (options_.launches - 1)];
  if (!launch.known || launch.correlation != correlation || launch.matched) return;
  KernelWork* work = work_of(launch.range);
  if (work != nullptr && work->launches > 0) --work->launches;
  launch = {};
}

void KernelAttribution::add_kernel(std::uint32_t correlation, std::uint64_t begin_ns, std::uint64_t end_ns) {
  make_tables();
  newest_ns_ = std::max(newest_ns_, end_ns);
  const KernelWork work{end_ns - begin_ns, 1, end_ns, begin_ns, 0, 0};
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

void KernelAttribution::apply(Launch& launch, const KernelWork& work) {
  KernelWork* total = work_of(launch.range);
  (total != nullptr ? counters_.attributed : counters_.outside) += work.kernels;
  if (total == nullptr) return;
  ranges_.ended(launch.range, work.last_ns);
  total->merge(work);
  if (!launch.matched) ++total->matched;
  launch.matched = true;
}

std::optional<KernelAttribution::LaunchSeen> KernelAttribution::launch_of(std::uint32_t correlation,
                                                                          std::uint64_t begin_ns) const {
  if (launches_.empty() || correlation == 0) return std::nullopt;
  const Launch& launch = launches_[correlation & (options_.launches - 1)];
  if (!launch.known || launch.correlation != correlation) return std::nullopt;
  LaunchSeen seen{launch.range};
  // The call may have ended shortly after what it asked for began.
  const auto after = static_cast<std::int32_t>(launch.ticks - ticks_of(begin_ns));
  if (launch.ticks != 0)
    seen.end_ns = begin_ns + static_cast<std::uint64_t>(std::int64_t{after} * std::int64_t{kTickNs});
  return seen;
}

// Nothing for a launch in no range, for a range that is not held, and for one whose pass was given out already.
KernelWork* KernelAttribution::work_of(std::uint32_t range) {
  RangeBlocks::Range* entry = range == 0 ? nullptr : ranges_.at(range, newest_ns_);
  if (entry == nullptr || entry->pass == 0) return entry == nullptr ? nullptr : &entry->work;
  const auto pass = passes_.find(entry->pass);
  return pass == passes_.end() ? nullptr : &pass->second.work;
}

void KernelAttribution::add_range(const RangeRecord& record) {
  const std::uint32_t id = id_of(record);
  if (id == 0 || (record.flags & record::kCrossThread) != 0) return;
  make_tables();
  if (orphans_.size() >= kMostThreads && !orphans_.contains(record.thread)) orphans_.clear();
  std::vector<Orphan>& orphans = orphans_[record.thread];
  const bool pass = record.range.kind == RangeName::Kind::kOperator;
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
  RangeBlocks::Range* entry = ranges_.at(id, newest_ns_);
  if (entry == nullptr || passes_.size() >= options_.passes) {
    ++counters_.crowded;
    if (entry != nullptr) *entry = {id, {}};  // of a pass that nobody knows: nothing is joined for it
    return;
  }
  if (!passes_.emplace(id, Pass{record, {}}).second) return;  // an id that comes twice: the producer is wrong
  order_.push_back(id);
  ranges_.ended(id, record.end_ns);
  count_for(id, id);
}

void KernelAttribution::count_for(std::uint32_t range, std::uint32_t pass) {
  RangeBlocks::Range* entry = ranges_.at(range, newest_ns_);
  const auto found = passes_.find(pass);
  if (found != passes_.end() && entry == nullptr) found->second.cut = true;
  if (entry == nullptr) return;
  if (found != passes_.end() && entry->pass == 0) found->second.work.merge(entry->work);
  entry->pass = pass;
  entry->work = {};
}

bool KernelAttribution::judge(const Pass& pass) {
  const std::uint64_t end_ns = std::max(pass.range.end_ns, pass.work.last_ns);
  std::uint64_t* counter = &counters_.passes;
  if (lost_.overlap(pass.range.begin_ns, end_ns)) {
    counter = &counters_.windowed;
  } else if (pass.cut) {
    counter = &counters_.crowded;
  } else if (pass.work.launches == 0) {
    counter = &counters_.without_kernels;
  } else if (pass.work.matched < pass.work.launches) {
    counter = &counters_.incomplete;
  }
  ++*counter;
  return counter == &counters_.passes;
}

void KernelWork::merge(const KernelWork& other) {
  device_ns += other.device_ns;
  kernels += other.kernels;
  last_ns = std::max(last_ns, other.last_ns);
  if (other.first_ns != 0 && (first_ns == 0 || other.first_ns < first_ns)) first_ns = other.first_ns;
  launches += other.launches;
  matched += other.matched;
}

RangeBlocks::Range* RangeBlocks::at(std::uint32_t id, std::uint64_t newest_ns) {
  const std::uint32_t number = id / block_ranges_;
  Block* block = find(number);
  if (block == nullptr) block = admit(number, newest_ns);
  return block == nullptr ? nullptr : &block->ranges[id % block_ranges_];
}

void RangeBlocks::ended(std::uint32_t id, std::uint64_t end_ns) {
  if (Block* block = find(id / block_ranges_)) block->last_ns = std::max(block->last_ns, end_ns);
}

RangeBlocks::Block* RangeBlocks::find(std::uint32_t number) {
  if (latest_ < blocks_.size() && blocks_[latest_].number == number) return &blocks_[latest_];
  const auto found = std::ranges::find(blocks_, number, &Block::number);
  if (found == blocks_.end()) return nullptr;
  latest_ = static_cast<std::size_t>(found - blocks_.begin());
  return &*found;
}

// Numbers wrap around with the ids.
bool RangeBlocks::decided(std::uint32_t number) const {
  if (!any_) return false;
  const auto ahead = static_cast<std::int32_t>((number - newest_) * block_ranges_);
  return ahead <= 0 && ahead / static_cast<std::int64_t>(block_ranges_) > -kCountedAnew;
}

RangeBlocks::Block* RangeBlocks::admit(std::uint32_t number, std::uint64_t newest_ns) {
  if (decided(number)) return nullptr;
  newest_ = number;
  any_ = true;
  Block* block = room(newest_ns);
  if (block == nullptr) return nullptr;
  block->number = number;
  block->last_ns = newest_ns;
  block->ranges.assign(block_ranges_, {});
  return block;
}

RangeBlocks::Block* RangeBlocks::room(std::uint64_t newest_ns) {
  if (blocks_.size() < most_) return &blocks_.emplace_back();
  const auto oldest = std::ranges::min_element(blocks_, {}, &Block::last_ns);
  return newest_ns > oldest->last_ns + settle_ns_ ? &*oldest : nullptr;
}

}  // namespace trimtab::agent
