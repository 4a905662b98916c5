#include "commands/mounted_place.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace trimtab::agent {
namespace {

// Programs that show a store's objects as files. Their mounts are of type "fuse.NAME", or "fuse" with NAME as source.
constexpr std::array<std::string_view, 12> kStores{"s3fs",   "gcsfuse",  "goofys",    "geesefs",
                                                   "rclone", "blobfuse", "blobfuse2", "mountpoint-s3",
                                                   "ossfs",  "cosfs",    "obsfs",     "riofs"};

constexpr std::size_t kPoint = 4;  // a line's fields, up to the optional ones

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream text{std::string(line)};
  return {std::istream_iterator<std::string>(text), {}};
}

// Blanks, tabs, line ends and backslashes stand as three octal digits.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] != '\\' || !octal(i + 1) || !octal(i + 2) || !octal(i + 3)) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

bool is_below(const std::string& path, const std::string& point) {
  return point == "/" || path == point || path.starts_with(point + "/");
}

}  // namespace

MountedPlace place_of(const std::string& path, std::string_view mountinfo) {
  MountedPlace best;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() <= kPoint || words.end() - dash < 3) continue;
    MountedPlace place{dash[1], unescaped(dash[2]), unescaped(words[kPoint])};
    if (is_below(path, place.point) && place.point.size() >= best.point.size()) best = std::move(place);
  }
  return best;
}

std::string object_store(const MountedPlace& place) {
  if (!place.type.starts_with("fuse")) return "";
  const std::string name = place.type.starts_with("fuse.") ? place.type.substr(5) : place.source;
  if (std::ranges::find(kStores, name) == kStores.end()) return "";
  return "fuse." + name + " at " + place.point;
}

std::string read_mountinfo() {
  std::ifstream file("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace trimtab::agent
