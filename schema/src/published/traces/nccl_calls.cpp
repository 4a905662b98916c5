#include "published/traces/nccl_calls.hpp"

#include <algorithm>
#include <cstring>

#include "schema/traces/collective_kernel.hpp"

namespace trimtab::published {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::size_t kHeader = 32;  // domain, schema, both with four bytes behind, payload's bytes, all bytes

template <typename Number>
Number number_at(std::string_view blob, std::size_t offset) {
  Number number = 0;
  std::memcpy(&number, blob.data() + offset, sizeof number);
  return number;
}

// NVTX_PAYLOAD_ENTRY_TYPE_INT, _INT32, _UINT32, _UINT64 and _SIZE; 0: another.
std::size_t bytes_of_type(std::int64_t type) {
  if (type == 5 || type == 15 || type == 16) return 4;
  return type == 18 || type == 22 ? 8 : 0;
}

}  // namespace

void NcclPayloads::add_schema(std::int64_t schema, std::int64_t payload_bytes) {
  Schema& one = schemas_[schema];
  one.contradicts = one.contradicts || (one.payload_bytes >= 0 && one.payload_bytes != payload_bytes);
  one.payload_bytes = payload_bytes;
}

void NcclPayloads::add_entry(std::int64_t schema, std::string_view name, std::int64_t type, std::int64_t offset) {
  if (offset < 0 || offset > kMostRanks) return;
  const Field field{static_cast<std::size_t>(offset), bytes_of_type(type)};
  Schema& one = schemas_[schema];
  const auto [entry, fresh] = one.fields.try_emplace(std::string(name), field);
  one.contradicts = one.contradicts || entry->second.offset != field.offset || entry->second.bytes != field.bytes;
}

std::optional<NcclPayload> NcclPayloads::read(std::string_view blob) const {
  if (blob.size() < kHeader) return std::nullopt;
  const auto schema = schemas_.find(number_at<std::uint32_t>(blob, 8));
  const auto payload_bytes = number_at<std::uint64_t>(blob, 16);
  if (schema == schemas_.end() || schema->second.contradicts) return std::nullopt;
  const bool fits = blob.size() == kHeader + payload_bytes && number_at<std::uint64_t>(blob, 24) == blob.size() &&
                    static_cast<std::int64_t>(payload_bytes) == schema->second.payload_bytes;
  if (!fits) return std::nullopt;
  const auto value = [&](std::string_view name) -> std::int64_t {
    const auto field = schema->second.fields.find(name);
    if (field == schema->second.fields.end() || field->second.bytes == 0) return -1;
    if (field->second.offset + field->second.bytes > payload_bytes) return -1;
    const std::size_t at = kHeader + field->second.offset;
    if (field->second.bytes == 4) return number_at<std::int32_t>(blob, at);
    return number_at<std::int64_t>(blob, at);
  };
  if (!schema->second.fields.contains("NCCL communicator ID")) return std::nullopt;
  NcclPayload payload{static_cast<std::uint64_t>(value("NCCL communicator ID"))};
  payload.bytes = value("Message size [bytes]");
  payload.ranks = value("No. of ranks");
  return payload;
}

bool NcclCalls::add(std::string_view name, std::int64_t begin_ns, std::int64_t end_ns, std::int64_t thread,
                    const std::optional<NcclPayload>& payload) {
  if (!name.starts_with("nccl")) return false;
  if (payload && payload->ranks > 0 && payload->ranks <= kMostRanks) ranks_[payload->communicator] = payload->ranks;
  const bool groups = name == "ncclGroupStart" || name == "ncclGroupEnd";
  if (groups || (payload && payload->bytes >= 0)) {
    threads_[thread].push_back({std::string(name), begin_ns, end_ns, payload});
  }
  return true;
}

std::vector<NcclCalls::Window> NcclCalls::windows() {
  std::vector<Window> windows;
  for (auto& [thread, calls] : threads_) {
    std::ranges::stable_sort(calls, {}, &Call::begin_ns);
    int depth = 0;
    std::vector<const Call*> of_group;
    for (const Call& call : calls) {
      if (call.name == "ncclGroupStart") {
        if (depth++ == 0) of_group.clear();
      } else if (call.name != "ncclGroupEnd") {
        of_group.push_back(&call);
        if (depth == 0) windows.push_back({call.begin_ns, call.end_ns, &call, {}});
      } else if (depth > 0 && --depth == 0) {
        windows.push_back({call.begin_ns, call.end_ns, of_group.size() == 1 ? of_group.front() : nullptr, {}});
      }
    }
  }
  std::ranges::stable_sort(windows, {}, &Window::begin_ns);
  return windows;
}

void NcclCalls::tell(TracedRank& rank) {
  std::vector<Window> all = windows();
  for (std::size_t i = 0; i < rank.work.size(); ++i) {
    const TracedWork& one = rank.work[i];
    if (!communicates(one.kind) || one.launched_ns == TracedWork::kNotTold) continue;
    const auto after = std::ranges::upper_bound(all, one.launched_ns, {}, &Window::begin_ns);
    if (after != all.begin() && one.launched_ns <= std::prev(after)->end_ns) std::prev(after)->work.push_back(i);
  }
  std::map<std::uint64_t, std::uint32_t> groups;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Window& window = all[i];
    const bool meets_another =
        (i > 0 && all[i - 1].end_ns > window.begin_ns) || (i + 1 < all.size() && window.end_ns > all[i + 1].begin_ns);
    if (window.call == nullptr || window.work.size() != 1 || meets_another) continue;
    const NcclPayload& payload = *window.call->payload;
    const auto ranks = ranks_.find(payload.communicator);
    TracedWork& work = rank.work[window.work.front()];
    const TracedKind named = communication_named(primitive_named(window.call->name));
    const bool agrees = named == work.kind || work.kind == TracedKind::kCollective ||
                        (work.kind == TracedKind::kSendReceive && named == TracedKind::kAllToAll);
    const bool sized = payload.bytes > 0 && payload.bytes <= kMostBytes / kMostRanks && ranks != ranks_.end();
    if (!agrees || !sized || named == TracedKind::kSendReceive || named == TracedKind::kCollective) continue;
    const auto [group, fresh] = groups.try_emplace(payload.communicator, static_cast<std::uint32_t>(groups.size()));
    if (fresh) {
      rank.groups.push_back({std::to_string(payload.communicator), {}, static_cast<std::int32_t>(ranks->second)});
    }
    TracedCollective collective;
    collective.primitive = to_string(named);
    collective.bytes = bytes_of_count(collective.primitive, payload.bytes, ranks->second);
    collective.group = group->second;
    rank.collectives.push_back(collective);
    work.kind = named;
    work.collective = static_cast<std::uint32_t>(rank.collectives.size());
  }
}

}  // namespace trimtab::published
