#include "made_up_ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace trimtab {

namespace {

std::size_t bytes_of(std::uint32_t names, std::uint32_t slots) {
  return sizeof(record::RingHeader) + names * sizeof(record::NameEntry) + slots * sizeof(record::RecordSlot);
}

}  // namespace

MadeUpRing::MadeUpRing(std::uint64_t kernels_per_second, std::uint64_t begin_ns)
    : descriptor_(memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
      pace_ns_(1'000'000'000 / kernels_per_second),
      now_(begin_ns) {
  const std::size_t bytes = bytes_of(kNames, kSlots);
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) std::abort();
  if (posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes)) != 0) std::abort();
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
  header_->pid = static_cast<std::uint32_t>(getpid());
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

MadeUpRing::~MadeUpRing() {
  munmap(memory_, bytes_of(kNames, kSlots));
  ::close(descriptor_);
}

int MadeUpRing::descriptor() const {
  return dup(descriptor_);
}

std::uint64_t MadeUpRing::unread() const {
  return head_ - header_->tail.load(std::memory_order_acquire);
}

void MadeUpRing::fill() {
  constexpr std::uint64_t kRecordsOfPass = 2 * kKernelsPerPass + 2;
  for (std::uint64_t room = kSlots - unread(); room > kRecordsOfPass; room -= kRecordsOfPass) write_pass();
}

void MadeUpRing::close() {
  header_->closed.store(1, std::memory_order_release);
}

void MadeUpRing::write_pass() {
  const std::uint64_t begin = now_;
  const std::uint32_t pass = pass_++ % kPassesPerStep;
  const std::uint32_t range = ++range_;
  for (std::uint32_t kernel = 0; kernel < kKernelsPerPass; ++kernel) write_kernel(pass, kernel, range);
  write_range(passes_[pass], range, begin, 1);
  if (pass == kPassesPerStep - 1) write_range(step_, ++range_, std::exchange(step_begin_, now_), 0);
}

void MadeUpRing::write_kernel(std::uint32_t pass, std::uint32_t number, std::uint32_t range) {
  const std::uint32_t correlation = ++correlation_;
  record::RecordSlot launch{};
  launch.kind = record::kLaunch;
  launch.payload = correlation;
  launch.domain = range;
  publish(launch);
  const bool collective = pass % 4 == 3 && number == 2;
  record::RecordSlot kernel{};
  kernel.kind = record::kKernel;
  kernel.payload = correlation;
  kernel.name = collective ? nccl_ : kernels_[(pass * kKernelsPerPass + number) % kSignatures];
  kernel.domain = 64 + number;
  kernel.detail[2] = 256;
  kernel.thread = collective ? 20 : 7;
  kernel.begin_ns = now_;
  kernel.end_ns = now_ + pace_ns_ * (collective ? 5 : 1) * (70 + random_.below(25)) / 100;
  now_ += pace_ns_;
  publish(kernel);
}

void MadeUpRing::write_range(std::uint32_t name, std::uint32_t id, std::uint64_t begin, std::uint16_t depth) {
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

void MadeUpRing::publish(const record::RecordSlot& fields) {
  record::RecordSlot& target = slot(head_);
  std::memcpy(reinterpret_cast<char*>(&target) + 8, reinterpret_cast<const char*>(&fields) + 8, sizeof fields - 8);
  target.sequence.store(head_ + 1, std::memory_order_release);
  header_->head.store(++head_, std::memory_order_release);
}

std::uint32_t MadeUpRing::name(const std::string& text) {
  auto& entry = reinterpret_cast<record::NameEntry*>(memory_ + sizeof(record::RingHeader))[++names_];
  const std::size_t length = std::min<std::size_t>(text.size(), record::kNameBytes);
  entry.length = static_cast<std::uint16_t>(length);
  std::memcpy(entry.text, text.data(), length);
  entry.state.store(2);
  return names_;
}

record::RecordSlot& MadeUpRing::slot(std::uint64_t ticket) {
  char* slots = memory_ + sizeof(record::RingHeader) + kNames * sizeof(record::NameEntry);
  return reinterpret_cast<record::RecordSlot*>(slots)[ticket % kSlots];
}

}  // namespace trimtab
