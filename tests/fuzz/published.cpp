// Published profiles, and what others recorded of running jobs. An input is a format's name and its files:
//   FORMAT, perhaps with " said" behind it: with everything said that files may leave out
//   ==== NAME
//   its text
// What is accepted gives documents, keys and sources that can be read again.

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "schema/published.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

constexpr std::string_view kFileMark = "==== ";
constexpr std::size_t kMostFiles = 16;

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// Text as it stands, up to the next file's mark.
std::string_view take_file(std::string_view& text) {
  const std::size_t end = text.find("\n" + std::string(kFileMark));
  const std::string_view file = text.substr(0, end == std::string_view::npos ? text.size() : end + 1);
  text.remove_prefix(file.size());
  return file;
}

bool usable(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.size() < 100 && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

// Takes " said" off a format.
ProfileSupplement take_supplement(std::string& format) {
  constexpr std::string_view kSaid = " said";
  if (!format.ends_with(kSaid)) return {};
  format.resize(format.size() - kSaid.size());
  ProfileSupplement supplement;
  if (format == "traces") {
    supplement.devices_per_node = 1;
    return supplement;
  }
  supplement.layers = {2};
  supplement.global_batch = 8;
  supplement.device_memory = Bytes{16} << 30;
  if (format == "galvatron") supplement.hidden = supplement.sequence = 64;
  if (format == "aceso") supplement.nodes = supplement.devices_per_node = 2;
  return supplement;
}

template <typename Read>
void check_read(const Read& read, const std::string& file) {
  if (read.ok()) return;
  std::fprintf(stderr, "a document that was written is refused: %s: %s\n", file.c_str(), read.error().message.c_str());
  std::abort();
}

void check_costs(const PublishedCosts& profile) {
  for (const Cost& cost : profile.costs) {
    const auto again = parse_cost_key(to_json(cost.key));
    check_read(again, profile.origin);
    if (*again == cost.key && !cost.statistics.empty()) continue;
    std::fprintf(stderr, "a key is another one when it is read again: %s\n", describe(cost.key).c_str());
    std::abort();
  }
  if (to_text(parse_cost_source(profile.source)) == profile.source) return;
  std::fprintf(stderr, "a source is another one when it is read again: %s\n", profile.source.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchDirectory directory;
  directory.clear();
  const std::string input = fuzz::text_of(data, size);
  std::string_view text = input;
  std::string format(take_line(text));
  const ProfileSupplement supplement = take_supplement(format);
  std::vector<std::string> paths;
  while (text.starts_with(kFileMark) && paths.size() < kMostFiles) {
    const std::string name(take_line(text).substr(kFileMark.size()));
    std::string_view file = take_file(text);
    if (name.ends_with(".pkl") && file.ends_with('\n')) file.remove_suffix(1);  // it ends where its value does
    if (!usable(name)) return 0;
    directory.write(name, file);
    paths.push_back(directory.path() + "/" + name);
  }
  if (format != "nccl-tests") paths = {directory.path()};
  const auto published = read_published(format, paths, supplement);
  if (!fuzz::judge(published)) return 0;
  for (const PublishedCosts& profile : published->costs) check_costs(profile);
  for (const PublishedModel& one : published->models) check_read(parse_model(to_json(one.model), one.file), one.file);
  for (const PublishedCluster& one : published->clusters) {
    check_read(parse_cluster(to_json(one.cluster), one.file), one.file);
  }
  return 0;
}
