#include "store/first_page.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <vector>

#include "base/descriptor.hpp"
#include "base/regular_file.hpp"
#include "schema/hash64.hpp"
#include "store/database_place.hpp"
#include "store/page_bytes.hpp"

namespace trimtab {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHash = 16;
constexpr std::size_t kMostKept = 1 << 20;
constexpr int kMostBits = 8;
constexpr std::size_t kTreeHeader = 100;  // of the first page
// What SQLite writes there with every change of the file: counters, its size and its free pages.
constexpr std::size_t kSizeInPages = 28;
constexpr std::size_t kFreePagesEnd = 40;
constexpr std::size_t kValidFor = 92;
constexpr std::size_t kValidForEnd = 100;

bool is_of_changes(std::size_t place) {
  return (place >= kChangeCounter && place < kFreePagesEnd) || (place >= kValidFor && place < kValidForEnd);
}

std::string copy_of(const std::string& path) {
  return path + ".first-page";
}

// By number, from 1 on.
using Pages = std::map<std::uint32_t, std::string>;
using ReadPage = std::function<std::string(std::uint32_t number)>;  // empty where it cannot be read

// The first, and those that it names where one does not hold all tables' texts.
std::vector<std::uint32_t> numbers_of(const std::string& first) {
  constexpr char kInner = 5;
  std::vector<std::uint32_t> numbers = {1};
  if (first[kTreeHeader] != kInner) return numbers;
  numbers.push_back(number_at(first, kTreeHeader + 8, 4));
  const std::size_t cells = std::min(number_at(first, kTreeHeader + 3, 2), 100U);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const std::size_t place = number_at(first, kTreeHeader + 12 + 2 * cell, 2);
    if (place + 4 <= kPage) numbers.push_back(number_at(first, place, 4));
  }
  return numbers;
}

std::string page_of_file(std::ifstream& file, std::uint32_t number) {
  std::string bytes(kPage, '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>((number - 1) * kPage));
  file.read(bytes.data(), kPage);
  return file.gcount() == kPage ? bytes : "";
}

std::string encoded(const Pages& pages) {
  std::string text;
  for (const auto& [number, page] : pages) {
    std::string head(4, '\0');
    put_number(head, 0, number);
    text += head + page;
  }
  return text + hash64_hex(text);
}

// Empty where there is none that is whole.
Pages kept_pages(const std::string& path) {
  const auto kept = read_regular_file(copy_of(path), kMostKept, /*follows=*/false);
  const std::string text = kept.ok() ? *kept : "";
  const std::size_t hash = text.size() - std::min(text.size(), kHash);
  const std::string all = text.substr(0, hash);
  Pages pages;
  if (all.size() % (4 + kPage) != 0 || text.substr(hash) != hash64_hex(all)) return pages;
  for (std::size_t begin = 0; begin < all.size(); begin += 4 + kPage) {
    pages[number_at(all, begin, 4)] = all.substr(begin + 4, kPage);
  }
  return pages;
}

// Of a file whose tables were made or moved since, or which another release has upgraded, it is no copy.
bool is_copy_of(const std::string& page, const std::string& copy) {
  const auto same = [&](std::size_t place) { return page.compare(place, 4, copy, place, 4) == 0; };
  return same(kSchemaCookie) && same(kUserVersion);
}

// Beside what every change of the file changes.
int differing_bits(const std::string& page, const std::string& copy, bool is_first) {
  int bits = 0;
  for (std::size_t i = 0; i < kPage; ++i) {
    if (!is_first || !is_of_changes(i)) bits += std::popcount(static_cast<unsigned char>(page[i] ^ copy[i]));
  }
  return bits;
}

// The file's first page as it was, of a file of this size.
std::string mended(const std::string& found, const std::string& copy, std::uint64_t size) {
  std::string page = copy;
  for (std::size_t i = 0; i < kPage; ++i) page[i] = is_of_changes(i) ? found[i] : copy[i];
  std::copy_n(page.begin() + kChangeCounter, 4, page.begin() + kValidFor);
  put_number(page, kSizeInPages, static_cast<std::uint32_t>(size / kPage));
  return page;
}

}  // namespace

void keep_first_page(SQLite::Database& connection, const std::string& path) {
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(connection.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return;
  if (file->pMethods == nullptr) return;
  const ReadPage read = [file](std::uint32_t number) {
    std::string page(kPage, '\0');
    const auto place = static_cast<sqlite3_int64>((std::uint64_t{number} - 1) * kPage);
    return file->pMethods->xRead(file, page.data(), kPage, place) == SQLITE_OK ? page : "";
  };
  const std::string first = read(1);
  if (first.empty()) return;
  Pages pages;
  for (const std::uint32_t number : numbers_of(first)) {
    pages[number] = number == 0 ? "" : read(number);
    if (pages[number].empty()) return;
  }
  // Else it would be written anew at each start.
  for (std::size_t i = 0; i < kPage; ++i) pages[1][i] = is_of_changes(i) ? '\0' : first[i];
  if (kept_pages(path) == pages) return;
  struct stat found {};
  const mode_t mode = ::stat(path.c_str(), &found) == 0 ? found.st_mode & 0666U : 0600U;
  ::unlink(copy_of(path).c_str());
  const Descriptor copy(::open(copy_of(path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  const std::string text = encoded(pages);
  [[maybe_unused]] const auto written = ::write(copy.get(), text.data(), text.size());  // what is not whole is none
}

bool has_first_page(const std::string& path, std::uint32_t application_id) {
  const Pages pages = kept_pages(path);
  const auto first = pages.find(1);
  return first != pages.end() && number_at(first->second, kApplicationId) == application_id;
}

void remove_first_page(const std::string& path) {
  ::unlink(copy_of(path).c_str());
}

bool mend_first_page(const std::string& path) {
  if (OpenFile::is_open(path)) return false;
  Pages copies = kept_pages(path);
  std::error_code error;
  auto size = std::filesystem::file_size(path, error);
  if (!copies.contains(1) || error) return false;
  const bool lacks_end = size < copies.rbegin()->first * kPage;
  size = std::max<std::uintmax_t>(size, copies.rbegin()->first * kPage);
  int bits = 0;
  {
    std::ifstream file(path, std::ios::binary);
    for (auto& [number, copy] : copies) {
      const std::string found = page_of_file(file, number);
      const bool is_first = number == 1;
      if (found.empty() && !is_first) continue;
      if (found.empty() || (is_first && !is_copy_of(found, copy))) return false;
      bits += differing_bits(found, copy, is_first);
      if (is_first) copy = mended(found, copy, size);
    }
  }
  if ((bits == 0 && !lacks_end) || bits > kMostBits) return false;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (const auto& [number, page] : copies) {
    file.seekp(static_cast<std::streamoff>((number - 1) * kPage));
    file.write(page.data(), kPage);
  }
  return static_cast<bool>(file.flush());
}

std::string what_is_cut(const std::string& path) {
  const bool has_log = bytes_on_disk(path + "-wal").value_or(0) + bytes_on_disk(path + "-journal").value_or(0) > 0;
  if (has_log || OpenFile::is_open(path)) return "";  // which may have the rest
  std::ifstream file(path, std::ios::binary);
  const std::string first = page_of_file(file, 1);
  const Bytes size = bytes_on_disk(path).value_or(0);
  if (first.empty() || first.compare(kChangeCounter, 4, first, kValidFor, 4) != 0) return "";
  const std::uint32_t pages = number_at(first, kSizeInPages);
  if (size >= Bytes{pages} * Bytes{kPage}) return "";
  return "its end was cut: of " + std::to_string(pages) + " pages it has " + std::to_string(size / Bytes{kPage});
}

}  // namespace trimtab
