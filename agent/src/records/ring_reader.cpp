#include "records/ring_reader.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "processes/printable_text.hpp"

namespace trimtab::agent {

namespace {

constexpr std::uint32_t kMaxSlots = 1U << 20;
constexpr std::uint32_t kMaxNames = 1U << 15;
static_assert(4096 + kMaxNames * sizeof(record::NameEntry) + kMaxSlots * sizeof(record::RecordSlot) <= kMostRingBytes);
constexpr std::uint32_t kNameReady = 2;
// Each is an atomic addition to one counter of a process: ten nanoseconds, also where many threads make them.
constexpr std::uint64_t kMostCountsInSecond = 100'000'000;
constexpr int kNeededSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// What a process hands over as its ring, in words.
Error refused(const std::string& why) {
  return bad_input("the record ring must be a sealed memfd of version " + std::to_string(record::kVersion) + ", but " +
                   why + "; use the libtrimtab-inject.so of this release in the job");
}

Status check_size(const struct stat& status, Bytes most) {
  const std::string bytes = std::to_string(status.st_size);
  if (status.st_size < static_cast<off_t>(sizeof(record::RingHeader))) return refused("it has " + bytes + " bytes");
  if (status.st_size > most) {
    return unavailable("the record ring has " + bytes + " bytes, and " + std::to_string(most) +
                       " are left for it: give the job fewer TRIMTAB_RING_SLOTS, or the agent more " +
                       "ring_memory_of_process or ring_memory");
  }
  constexpr std::int64_t kBlock = 512;  // what st_blocks counts in, whatever the file system's own is
  if (status.st_blocks * kBlock < status.st_size) {
    return refused("only " + std::to_string(status.st_blocks * kBlock) + " of its " + bytes + " bytes are allocated");
  }
  return {};
}

bool usable_capacity(std::uint32_t capacity, std::uint32_t most) {
  return capacity >= 8 && capacity <= most && std::has_single_bit(capacity);
}

// One look at memory that another process may be changing: the compiler must not look again.
template <typename T>
T copy_of(const T& shared) {
  T copy = shared;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return copy;
}

// How much a counter has grown; one that went back is a lie and counts as nothing.
std::uint64_t growth(const std::atomic<std::uint64_t>& counter, std::uint64_t& last) {
  const std::uint64_t now = counter.load(std::memory_order_relaxed);
  const std::uint64_t before = std::exchange(last, now);
  return now > before ? now - before : 0;
}

}  // namespace

class RingReader::Mapping {
 public:
  Mapping(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  ~Mapping() { munmap(address_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  static Result<std::unique_ptr<Mapping>> map(int descriptor, Bytes most);
  [[nodiscard]] char* data() const { return static_cast<char*>(address_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* address_;
  std::size_t bytes_;
};

Result<std::unique_ptr<RingReader::Mapping>> RingReader::Mapping::map(int descriptor, Bytes most) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kNeededSeals) != kNeededSeals) return refused("this file can still be resized");
  // Huge pages can be lacking when a hole is read, and that ends the reader.
  struct statfs system {};
  if (fstatfs(descriptor, &system) != 0 || system.f_type != TMPFS_MAGIC) return refused("this one is of huge pages");
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return refused("its size cannot be read");
  TRIMTAB_TRY_STATUS(check_size(status, most));
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return refused(std::string("it cannot be mapped: ") + std::strerror(errno));
  return std::make_unique<Mapping>(address, bytes);
}

Result<std::unique_ptr<RingReader>> RingReader::attach(int descriptor, const Clock& clock, RingReaderOptions options) {
  auto mapping = Mapping::map(descriptor, options.most_bytes);
  if (descriptor >= 0) close(descriptor);
  if (!mapping) return std::move(mapping).error();
  std::unique_ptr<RingReader> reader(new RingReader(std::move(mapping).value(), clock, options));
  TRIMTAB_TRY_STATUS(reader->place());
  TRIMTAB_TRY_STATUS(reader->find_tail());
  return reader;
}

RingReader::RingReader(std::unique_ptr<Mapping> mapping, const Clock& clock, RingReaderOptions options)
    : mapping_(std::move(mapping)), clock_(clock), options_(options) {}

RingReader::~RingReader() = default;

Status RingReader::place() {
  header_ = reinterpret_cast<record::RingHeader*>(mapping_->data());
  const std::uint64_t magic = copy_of(header_->magic);
  const std::uint32_t version = copy_of(header_->version);
  const std::uint32_t header_bytes = copy_of(header_->header_bytes);
  name_capacity_ = copy_of(header_->name_capacity);
  slot_capacity_ = copy_of(header_->slot_capacity);
  pid_ = static_cast<pid_t>(copy_of(header_->pid));
  if (magic != record::kMagic) return refused("it does not begin like a ring");
  if (version != record::kVersion) return refused("this one has version " + std::to_string(version));
  if (header_bytes < sizeof(record::RingHeader) || header_bytes > 4096 || header_bytes % 64 != 0) {
    return refused("its header has " + std::to_string(header_bytes) + " bytes");
  }
  if (!usable_capacity(name_capacity_, kMaxNames) || !usable_capacity(slot_capacity_, kMaxSlots)) {
    return refused("its tables have " + std::to_string(name_capacity_) + " names and " +
                   std::to_string(slot_capacity_) + " slots");
  }
  const std::size_t slots_at = header_bytes + std::size_t{name_capacity_} * sizeof(record::NameEntry);
  if (slots_at + std::size_t{slot_capacity_} * sizeof(record::RecordSlot) > mapping_->bytes()) {
    return refused("its tables do not fit into its " + std::to_string(mapping_->bytes()) + " bytes");
  }
  names_ = reinterpret_cast<record::NameEntry*>(mapping_->data() + header_bytes);
  slots_ = reinterpret_cast<record::RecordSlot*>(mapping_->data() + slots_at);
  texts_.resize(name_capacity_);
  return {};
}

Status RingReader::find_tail() {
  const std::uint64_t head = header_->head.load(std::memory_order_acquire);
  tail_ = header_->tail.load(std::memory_order_relaxed);
  if (head - tail_ > slot_capacity_) return refused("its counters contradict each other");
  // A reader that died in a batch had freed slots without moving the tail.
  while (tail_ != head && slot_at(tail_).sequence.load(std::memory_order_relaxed) == tail_ + slot_capacity_) ++tail_;
  const std::uint64_t kept = header_->kept.load(std::memory_order_acquire);
  const std::uint64_t lost = kept == 0 || kept > tail_ ? 0 : tail_ - (kept - 1);
  if (lost > most_since(Nanoseconds(0))) return refused("its counters say that more was read than can have been");
  lost_before_ = lost;
  this->kept();
  return {};
}

RingDrain RingReader::drain(std::size_t max_records, const Sink& sink, Nanoseconds until) {
  RingDrain drain;
  std::size_t looked_at = 0;
  const auto goes_on = [&] { return looked_at < max_records && clock_.monotonic() <= until; };
  const std::uint64_t head = header_->head.load(std::memory_order_acquire);
  broken_ = broken_ || head - tail_ > slot_capacity_;
  drain.broken = broken_;
  bool pending = false;
  while (!broken_ && !pending && tail_ != head && goes_on()) {
    const std::uint64_t before = tail_;
    const std::size_t filled = fill_batch(head, drain);
    if (filled > 0) sink(std::span<const RangeRecord>(batch_.data(), filled));
    drain.records += filled;
    looked_at += static_cast<std::size_t>(tail_ - before);
    pending = tail_ == before;
    header_->tail.store(tail_, std::memory_order_release);
  }
  drain.more = !broken_ && !pending && tail_ != head;
  read_counters(drain);
  return drain;
}

std::size_t RingReader::fill_batch(std::uint64_t head, RingDrain& drain) {
  std::size_t filled = 0;
  const std::uint64_t end = tail_ + std::min<std::uint64_t>(head - tail_, kBatch);
  for (; tail_ != end; ++tail_) {
    record::RecordSlot& slot = slot_at(tail_);
    const Look seen = look(slot);
    if (seen == Look::kPending) {
      if (!give_up(head)) break;
      ++drain.skipped;
    } else if (seen == Look::kReady && decode(slot, batch_[filled])) {
      ++filled;
    } else {
      ++drain.malformed;
    }
    slot.sequence.store(tail_ + slot_capacity_, std::memory_order_release);
  }
  return filled;
}

RingReader::Look RingReader::look(const record::RecordSlot& slot) const {
  const std::uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
  if (sequence == tail_ + 1) return Look::kReady;
  return sequence == tail_ ? Look::kPending : Look::kMalformed;
}

bool RingReader::give_up(std::uint64_t head) {
  if (producer_ended_) return true;
  const Nanoseconds now = clock_.monotonic();
  if (!pending_ || tail_ >= pending_->head) {
    pending_ = Pending{now, head};
    return false;
  }
  return now - pending_->since >= options_.stuck_after;
}

bool RingReader::decode(const record::RecordSlot& slot, RangeRecord& record) {
  record.begin_ns = slot.begin_ns;
  record.end_ns = slot.end_ns;
  record.payload = slot.payload;
  record.thread = slot.thread;
  record.kind = slot.kind;
  record.flags = slot.flags;
  record.depth = slot.depth;
  std::copy(std::begin(slot.detail), std::end(slot.detail), record.detail.begin());
  const std::uint32_t name = copy_of(slot.name);
  const std::uint32_t domain = copy_of(slot.domain);
  // Checked on the copies: from here on the slot is not looked at.
  if (!record::known_kind(record.kind) || record.end_ns < record.begin_ns ||
      record.end_ns - record.begin_ns > std::uint64_t{1} << 60) {
    return false;
  }
  const Text* name_text = name == 0 ? &unnamed_ : text(name);
  const bool named = !record::domain_is_value(record.kind);
  record.domain_value = named ? 0 : domain;
  const Text* domain_text = domain == 0 || !named ? &default_domain_ : text(domain);
  if (name_text == nullptr || domain_text == nullptr) return false;
  record.name = name_text->text;
  record.domain = domain_text->text;
  const bool own = record.kind == record::kRange && record.domain == kOwnDomain;
  record.range = own ? name_text->range : RangeName();
  return true;
}

const RingReader::Text* RingReader::text(std::uint32_t index) {
  if (index >= name_capacity_) return nullptr;
  std::optional<Text>& known = texts_[index];
  if (known) return &*known;
  const record::NameEntry& entry = names_[index];
  if (entry.state.load(std::memory_order_acquire) != kNameReady) return &unnamed_;
  const std::size_t length = std::min<std::size_t>(copy_of(entry.length), record::kNameBytes);
  char bytes[record::kNameBytes];
  std::memcpy(bytes, entry.text, length);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  known = Text{printable_text(std::string_view(bytes, length)), {}};
  known->range = parse_range_name(known->text);
  return &*known;
}

void RingReader::read_counters(RingDrain& drain) {
  const std::uint64_t dropped = growth(header_->dropped, dropped_);
  const std::uint64_t names_dropped = growth(header_->names_dropped, names_dropped_);
  const std::uint64_t untracked = growth(header_->untracked, untracked_);
  const std::uint64_t most = most_since(std::exchange(counted_, clock_.monotonic()));
  broken_ = broken_ || std::max({dropped, names_dropped, untracked}) > most;
  drain.broken = broken_;
  if (broken_) return;
  drain.dropped = dropped;
  drain.names_dropped = names_dropped;
  drain.untracked = untracked;
}

// What a process can have counted since then.
std::uint64_t RingReader::most_since(Nanoseconds begin) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(clock_.monotonic() - begin).count();
  return kMostCountsInSecond * (static_cast<std::uint64_t>(std::max<std::int64_t>(seconds, 0)) + 1);
}

bool RingReader::device_unseen() const {
  return (header_->cupti_state.load(std::memory_order_relaxed) & 0xffU) > record::kCuptiRunning;
}

bool RingReader::device_begun() const {
  return (header_->cupti_state.load(std::memory_order_relaxed) & 0xffU) != record::kCuptiNotAsked;
}

CollectorFacts RingReader::collector() const {
  CollectorFacts facts;
  facts.detail = header_->detail.load(std::memory_order_relaxed);
  facts.cupti_state = static_cast<std::uint8_t>(header_->cupti_state.load(std::memory_order_relaxed) & 0xffU);
  facts.budget = header_->budget_ppm.load(std::memory_order_relaxed) / 1e6;
  facts.cost_seconds = static_cast<double>(header_->cost_ns.load(std::memory_order_relaxed)) / 1e9;
  facts.lost_stamps = header_->lost_stamps.load(std::memory_order_relaxed);
  facts.cupti_dropped = header_->cupti_dropped.load(std::memory_order_relaxed);
  return facts;
}

Bytes RingReader::bytes() const {
  return static_cast<Bytes>(mapping_->bytes());
}

void RingReader::ask_full_detail(std::uint64_t until_ns) {
  header_->full_detail_until_ns.store(until_ns, std::memory_order_relaxed);
}

bool RingReader::finished() const {
  return broken_ || ((producer_ended_ || closed()) && header_->head.load(std::memory_order_acquire) == tail_);
}

}  // namespace trimtab::agent
