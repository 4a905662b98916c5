#include "store/database_place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace trimtab {

namespace {

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

bool has_content(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && status.st_size > 0;
}

Status check_directory(const std::string& path, const std::string& what) {
  const std::string directory = directory_of(path);
  if (access(directory.c_str(), W_OK | X_OK) == 0) return {};
  const std::string reason = std::strerror(errno);
  return unavailable("cannot write " + what + " " + path + ": its directory " + directory +
                     " must take new files, but: " + reason +
                     ". Create it or change its permissions, or give another path");
}

Status check_existing(const std::string& path, DatabaseMode mode, const std::string& what) {
  const int wanted = mode == DatabaseMode::kReadOnly ? R_OK : R_OK | W_OK;
  if (access(path.c_str(), wanted) == 0) return {};
  const std::string reason = std::strerror(errno);
  return unavailable("cannot open " + what + " " + path + ": it must be " +
                     (mode == DatabaseMode::kReadOnly ? "readable" : "readable and writable") + ", but: " + reason +
                     ". Change its permissions, or give another path");
}

// The application id at byte 68 of an SQLite header, big-endian.
std::uint32_t application_id_in(const std::array<char, 100>& header) {
  std::uint32_t id = 0;
  for (std::size_t i = 68; i < 72; ++i) id = (id << 8) | static_cast<unsigned char>(header[i]);
  return id;
}

// A hot journal means that the header may be half written; SQLite must repair it before anybody can tell whose it is.
Status check_header(const std::string& path, const Migrations& migrations) {
  if (has_content(path + "-journal")) return {};
  std::array<char, 100> header{};
  std::ifstream file(path, std::ios::binary);
  file.read(header.data(), header.size());
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  const bool whole = file.gcount() == static_cast<std::streamsize>(header.size());
  if (!whole || std::string_view(header.data(), kMagic.size()) != kMagic) {
    return foreign_file(path, migrations, "the file is not an SQLite database");
  }
  if (application_id_in(header) == migrations.application_id) return {};
  return foreign_file(path, migrations, "the SQLite file belongs to another application");
}

}  // namespace

Error foreign_file(const std::string& path, const Migrations& migrations, const std::string& found) {
  return bad_input(path + " is not a " + migrations.kind + ": " + found + "; nothing was changed. Give another path");
}

Status check_place(const std::string& path, DatabaseMode mode, const Migrations& migrations) {
  const std::string what = std::string("the ") + migrations.kind;
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (!exists && mode != DatabaseMode::kCreate) {
    return unavailable(std::string("there is no ") + migrations.kind + " at " + path + ": " + std::strerror(errno));
  }
  if (mode != DatabaseMode::kReadOnly) TRIMTAB_TRY_STATUS(check_directory(path, what));
  if (!exists) return {};
  if (!S_ISREG(status.st_mode)) return foreign_file(path, migrations, "it is not a regular file");
  TRIMTAB_TRY_STATUS(check_existing(path, mode, what));
  if (status.st_size > 0) return check_header(path, migrations);
  if (mode == DatabaseMode::kCreate || has_content(path + "-journal")) return {};
  return foreign_file(path, migrations, "the file is empty");
}

bool is_immutable(const std::string& path) {
  return access(directory_of(path).c_str(), W_OK) != 0 && !has_content(path + "-wal");
}

}  // namespace trimtab
