#include "collector.hpp"

namespace trimtab::nccl {

namespace {

void count(std::atomic<std::uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

std::int64_t bytes_of(std::size_t elements, std::uint8_t datatype) {
  constexpr std::size_t kMost = std::size_t{1} << 56;
  if (datatype == kUnknown || elements > kMost) return 0;
  return static_cast<std::int64_t>(elements * kDatatypeBytes[datatype]);
}

template <typename Descriptor>
CollectiveFacts common_facts(const Descriptor& event, std::uint64_t host_ns) {
  CollectiveFacts facts;
  facts.asked_ns = host_ns;
  facts.function = index_of_theirs(kFunctions, event.function);
  facts.datatype = index_of_theirs(kDatatypes, event.datatype);
  facts.bytes = bytes_of(event.count, facts.datatype);
  facts.channels = event.channels;
  return facts;
}

CollectiveFacts facts_of(const CollectiveDescriptor& event, std::uint64_t host_ns) {
  CollectiveFacts facts = common_facts(event, host_ns);
  facts.sequence = static_cast<std::uint32_t>(event.sequence);
  facts.algorithm = index_of_theirs(kAlgorithms, event.algorithm);
  facts.protocol = index_of_theirs(kProtocols, event.protocol);
  return facts;
}

CollectiveFacts facts_of(const P2pDescriptor& event, std::uint64_t host_ns) {
  CollectiveFacts facts = common_facts(event, host_ns);
  facts.p2p = true;
  facts.algorithm = kUnknown;
  facts.protocol = kUnknown;
  facts.sequence = static_cast<std::uint32_t>(event.peer);
  return facts;
}

std::uint64_t bits_of(const SlotReference& slot) {
  return std::uint64_t{slot.index} << 32 | slot.generation;
}

}  // namespace

std::uint64_t Collector::handle_of(const SlotReference& slot, std::uint32_t part) const {
  return EventHandle{process_.load(std::memory_order_relaxed), slot.generation, slot.index, part}.bits();
}

std::uint64_t Collector::start(const Communicator* communicator, std::uint64_t type, const EventDescriptor& descriptor,
                               std::uint64_t now_ns, std::uint64_t host_ns) {
  if (type == kCollectiveEvent) return start_collective(communicator, facts_of(descriptor.collective, host_ns), now_ns);
  if (type == kP2pEvent) return start_collective(communicator, facts_of(descriptor.p2p, host_ns), now_ns);
  if (type == kKernelChannelEvent) return start_channel(descriptor, host_ns);
  // NCCL numbers the collectives of a captured graph only where somebody takes their group's event.
  return type == kGroupEvent ? handle_of({}, EventHandle::kGroupPart) : 0;
}

std::uint64_t Collector::start_collective(const Communicator* communicator, CollectiveFacts facts,
                                          std::uint64_t now_ns) {
  if (communicator == nullptr || facts.channels == 0 || facts.channels > kMaxChannels) {
    count(counters_.untimed);
    return 0;
  }
  facts.communicator = communicator->id.load(std::memory_order_relaxed);
  facts.communicator_index = communicators_.index_of(*communicator);
  facts.ranks = communicator->ranks.load(std::memory_order_relaxed);
  facts.rank = communicator->rank.load(std::memory_order_relaxed);
  facts.nodes = communicator->nodes.load(std::memory_order_relaxed);
  // NCCL counts what a rank keeps of it; costs are keyed by the input.
  if (facts.function == kReduceScatter) facts.bytes *= facts.ranks;
  SlotReference slot;
  bool taken_over = false;
  if (!slots_.claim(facts, now_ns, slot, taken_over)) {
    count(counters_.dropped);
    return 0;
  }
  if (taken_over) count(counters_.unfinished);
  return handle_of(slot, EventHandle::kCollectivePart);
}

std::uint64_t Collector::start_channel(const EventDescriptor& descriptor, std::uint64_t host_ns) {
  const auto parent = reinterpret_cast<std::uint64_t>(descriptor.parent);
  const KernelChannelDescriptor& channel = descriptor.kernel_channel;
  EventHandle handle;
  if (parent == 0) return 0;  // its collective was not followed, which has been counted
  const bool known = EventHandle::parse(parent, process_.load(std::memory_order_relaxed), handle) &&
                     handle.part == EventHandle::kCollectivePart;
  const SlotReference slot{handle.index, handle.generation};
  if (!known || !slots_.start_channel(slot, channel.channel, channel.start)) {
    count(counters_.late);
    return 0;
  }
  notice_fusion(slot, channel);
  read_after(slot, channel.start, host_ns);
  return handle_of(slot, std::uint32_t{channel.channel} + 1);
}

// The host has seen a stamp that its collective's GPU wrote.
void Collector::read_after(const SlotReference& slot, std::uint64_t stamp, std::uint64_t host_ns) {
  std::uint32_t index = 0;
  if (host_ns != 0 && slots_.communicator_of(slot, index)) communicators_[index].clocks.read_after(stamp, host_ns);
}

// Works of one batch run in one kernel, one after the other on a channel, between one pair of stamps.
void Collector::notice_fusion(const SlotReference& slot, const KernelChannelDescriptor& channel) {
  std::uint32_t index = 0;
  if (!slots_.communicator_of(slot, index)) return;
  LastOnChannel& last = communicators_[index].last[channel.channel];
  const std::uint64_t before = last.slot.exchange(bits_of(slot), std::memory_order_relaxed);
  if (last.stamp.exchange(channel.start, std::memory_order_relaxed) != channel.start) return;
  slots_.mark_fused(slot);
  slots_.mark_fused({static_cast<std::uint32_t>(before >> 32), static_cast<std::uint32_t>(before)});
}

void Collector::record(std::uint64_t bits, int state, const StateArguments* arguments, std::uint64_t host_ns) {
  EventHandle handle;
  if (state != kKernelChannelStop || arguments == nullptr) return;
  if (!EventHandle::parse(bits, process_.load(std::memory_order_relaxed), handle)) return;
  if (handle.part == EventHandle::kCollectivePart || handle.part == EventHandle::kGroupPart) return;
  // A stop that is refused leaves its collective without a sound pair, and is counted with it.
  const SlotReference slot{handle.index, handle.generation};
  if (slots_.stamp_stop(slot, handle.part - 1, arguments->stamp)) read_after(slot, arguments->stamp, host_ns);
}

void Collector::stop(std::uint64_t bits) {
  EventHandle handle;
  if (!EventHandle::parse(bits, process_.load(std::memory_order_relaxed), handle)) {
    if (bits != 0) count(counters_.late);
    return;
  }
  const SlotReference slot{handle.index, handle.generation};
  CompletedCollective completed;
  if (handle.part == EventHandle::kGroupPart) return;
  const bool done = handle.part == EventHandle::kCollectivePart
                        ? slots_.finish_host(slot, completed)
                        : slots_.finish_channel(slot, handle.part - 1, completed);
  if (done) complete(completed);
}

void Collector::complete(const CompletedCollective& completed) {
  count(completed.sound ? counters_.completed : counters_.unsound);
  if (!completed.sound) return;
  ClockPairs& clocks = communicators_[completed.facts.communicator_index].clocks;
  clocks.read_before(completed.begin_ns, completed.facts.asked_ns);
  publish_(completed);
}

}  // namespace trimtab::nccl
