#include "costs/nccl_tables.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "schema/durable_file.hpp"
#include "schema/nccl_choice.hpp"

namespace trimtab::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kKept = 8;

std::string file_name(std::int64_t run, std::uint64_t launch) {
  return "run-" + std::to_string(run) + "-launch-" + std::to_string(launch);
}

Error cannot(const char* what, const fs::path& path) {
  return unavailable(std::string("cannot ") + what + " " + path.string() +
                     ", which keeps what the launch tells NCCL; make room there or give the directory back");
}

struct Name {
  std::int64_t run = 0;
  std::uint64_t launch = 0;
};

// Nothing where the file is not one of these tables, nor one that was left half written.
std::optional<Name> parse_name(std::string_view text) {
  Name name;
  const auto number = [&text](std::string_view before, auto& value) {
    if (!text.starts_with(before)) return false;
    text.remove_prefix(before.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc();
  };
  if (!number("run-", name.run) || !number("-launch-", name.launch)) return std::nullopt;
  return name;
}

template <typename Unneeded>
void remove_tables(const fs::path& directory, const Unneeded& unneeded) {
  std::error_code ignored;
  std::vector<fs::path> removed;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const auto name = parse_name(entry.path().filename().string());
    if (name && unneeded(*name)) removed.push_back(entry.path());
  }
  for (const fs::path& path : removed) fs::remove(path, ignored);
}

}  // namespace

Result<std::string> nccl_table_of_launch(const std::string& directory, std::int64_t run, std::uint64_t launch,
                                         const CollectiveCosts& costs) {
  const fs::path path = fs::path(directory) / file_name(run, launch);
  std::error_code error;
  if (fs::exists(path, error)) {
    std::ifstream file(path, std::ios::binary);
    std::string table{std::istreambuf_iterator<char>(file), {}};
    if (!file.good() && !file.eof()) return cannot("read", path);
    if (!table.empty() && !nccl_table_id(table).ok()) return cannot("understand", path);
    return table;
  }
  TRIMTAB_TRY(const std::vector<Cost> known, costs());
  fs::create_directories(directory, error);
  const std::vector<NcclChoice> choices = nccl_choices(known);
  const std::string table = choices.empty() ? "" : encode_nccl_table(choices, launch);
  if (!write_durably(path.string(), table, 0644).ok()) return cannot("write", path);
  remove_tables(directory,
                [&](const Name& name) { return name.run == run && launch >= kKept && name.launch <= launch - kKept; });
  return table;
}

void keep_nccl_tables_of(const std::string& directory, const std::set<std::int64_t>& runs) {
  remove_tables(directory, [&runs](const Name& name) { return !runs.contains(name.run); });
}

}  // namespace trimtab::coordinator
