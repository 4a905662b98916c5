// Which files are meant, and what each is.

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/numbers.hpp"
#include "documents/look_of_bytes.hpp"
#include "published/traces/byte_source.hpp"
#include "published/traces/kineto.hpp"
#include "published/traces/looks.hpp"
#include "published/traces/nsys.hpp"
#include "published/traces/trace_files.hpp"
#include "schema/traces/read_traces.hpp"

namespace trimtab {

namespace {

using namespace published;

constexpr std::size_t kLooked = 4096;

Result<std::vector<TracedRank>> read_file(const std::string& path) {
  TRIMTAB_TRY(const auto source, ByteSource::open(path));
  const std::string_view begin = source->peek(kLooked);
  if (!source->failure().empty()) return bad_input(path + ": " + source->failure());
  if (begin.starts_with("SQLite format 3")) {
    if (!source->packed()) return read_nsys(path);
    return bad_input(path + ": it is an SQLite database in gzip; unpack it first: gunzip " + path);
  }
  const std::string look = look_of_bytes(begin, path);
  if (!look.empty()) {
    return bad_input(path + ": it is " + (source->packed() ? "gzip of " : "") + look + "; " +
                     std::string(kWantedTraces));
  }
  TRIMTAB_TRY(TracedRank rank, read_kineto(*source, path));
  std::vector<TracedRank> ranks;
  ranks.push_back(std::move(rank));
  return ranks;
}

// "rank-3.json", "trace_rank3.json.gz".
std::optional<std::int32_t> rank_in_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  const std::size_t word = name.rfind("rank");
  if (word == std::string::npos) return std::nullopt;
  std::size_t begin = word + std::string_view("rank").size();
  if (begin < name.size() && std::string_view("-_.=").find(name[begin]) != std::string_view::npos) ++begin;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  if (begin >= end) return std::nullopt;
  return parse_number<std::int32_t>(std::string_view(name).substr(begin, end - begin));
}

}  // namespace

Status read_traces(const std::vector<std::string>& paths, const std::function<void(TracedRank)>& take) {
  TRIMTAB_TRY(const std::vector<std::string> files, trace_files(paths, {".json", ".json.gz", ".sqlite"}, "traces"));
  for (const std::string& file : files) {
    TRIMTAB_TRY(std::vector<TracedRank> ranks, read_file(file));
    if (ranks.size() == 1 && !ranks.front().rank) ranks.front().rank = rank_in_name(file);
    for (TracedRank& rank : ranks) take(std::move(rank));
  }
  return {};
}

}  // namespace trimtab
