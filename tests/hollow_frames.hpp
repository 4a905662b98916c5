#pragma once

// Frames that are legal, and made to cost: as many empty submessages as find room in 8 MiB.

#include <cstddef>
#include <string>
#include <vector>

namespace trimtab::test {

struct HollowFrame {
  const char* field;  // as a refusal names it
  int body;           // its number in FromAgent or ToAgent
  int entries;        // the repeated field's number in that body
};

// Of FromAgent.
inline const std::vector<HollowFrame>& hollow_frames() {
  static const std::vector<HollowFrame> kAll{{"Hello.launches", 1, 13},
                                             {"CostBatch.entries", 3, 3},
                                             {"Hello.running", 1, 8},
                                             {"CollectiveStamps.stamps", 30, 4},
                                             {"TraceChunk.records", 20, 7},
                                             {"TraceChunk.names", 20, 6},
                                             {"TraceEnd.ranks", 21, 3},
                                             {"RankActivity.streams", 22, 17},
                                             {"ProbeReport.devices", 31, 3},
                                             {"ProbeReport.link", 31, 5},
                                             {"fields that this release does not know", 1, 1000}};
  return kAll;
}

inline std::string varint(std::size_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7U) bytes.push_back(static_cast<char>((value & 127U) | 128U));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// The number of a field that has a length.
inline std::string tag(int number) {
  return varint(static_cast<std::size_t>(number) << 3U | 2U);
}

inline std::string hollow(const HollowFrame& frame, std::size_t count) {
  const std::string entry = tag(frame.entries) + '\0';
  std::string entries;
  entries.reserve(count * entry.size());
  for (std::size_t i = 0; i < count; ++i) entries += entry;
  return tag(frame.body) + varint(entries.size()) + entries;
}

inline std::string hollow_of_8_mib(const HollowFrame& frame) {
  const std::size_t each = tag(frame.entries).size() + 1;
  return hollow(frame, ((std::size_t{8} << 20) - 16) / each);
}

}  // namespace trimtab::test
