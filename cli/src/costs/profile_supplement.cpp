#include "costs/profile_supplement.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

namespace trimtab::cli {

namespace {

constexpr std::int64_t kMostNodes = 16384;    // as a cluster document allows
constexpr std::int64_t kMostDevices = 65536;  // of a node, likewise
constexpr std::int64_t kMostLayers = 200000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 24;
constexpr double kMostGib = 1048576;

Error expected(const char* option, const std::string& what, std::string_view found) {
  return bad_input(std::string(option) + ": expected " + what + ", found '" + std::string(found) + "'");
}

template <typename T>
bool read_whole(std::string_view text, T& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size();
}

template <typename T>
Status read_integer(const char* option, const std::string& text, std::int64_t most, T& value) {
  if (text.empty()) return {};
  std::int64_t read = 0;
  if (!read_whole(text, read) || read < 1 || read > most) {
    return expected(option, "a whole number from 1 to " + std::to_string(most), text);
  }
  value = static_cast<T>(read);
  return {};
}

Status read_layers(std::string_view text, std::vector<std::int32_t>& layers) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    std::int32_t value = 0;
    const bool last = one.size() == rest.size();
    const bool more = !last && one.size() + 1 < rest.size();
    if (!read_whole(one, value) || value < 1 || value > kMostLayers || !(last || more)) {
      return expected("--layers", "whole numbers from 1 to 200000 with commas between", text);
    }
    layers.push_back(value);
    rest.remove_prefix(last ? rest.size() : one.size() + 1);
  }
  return {};
}

Status read_memory(std::string_view text, Bytes& memory) {
  if (text.empty()) return {};
  double gib = 0;
  if (!read_whole(text, gib) || !(gib > 0 && gib <= kMostGib)) {
    return expected("--device-memory", "GiB, above 0 and at most 1048576", text);
  }
  memory = std::llround(gib * 1073741824);
  return {};
}

}  // namespace

Result<ProfileSupplement> parse_supplement(const SupplementTexts& texts) {
  ProfileSupplement supplement;
  TRIMTAB_TRY_STATUS(read_layers(texts.layers, supplement.layers));
  TRIMTAB_TRY_STATUS(read_integer("--hidden-size", texts.hidden, kMostElements, supplement.hidden));
  TRIMTAB_TRY_STATUS(read_integer("--sequence-length", texts.sequence, kMostElements, supplement.sequence));
  TRIMTAB_TRY_STATUS(read_integer("--global-batch", texts.global_batch, std::numeric_limits<std::int32_t>::max(),
                                  supplement.global_batch));
  TRIMTAB_TRY_STATUS(read_integer("--nodes", texts.nodes, kMostNodes, supplement.nodes));
  TRIMTAB_TRY_STATUS(
      read_integer("--devices-per-node", texts.devices_per_node, kMostDevices, supplement.devices_per_node));
  TRIMTAB_TRY_STATUS(read_memory(texts.device_memory, supplement.device_memory));
  return supplement;
}

}  // namespace trimtab::cli
