#include "tuner_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace trimtab::nccl {

namespace {

constexpr std::size_t kMostBytes = sizeof(TableHeader) + std::size_t{kMaxTableEntries} * sizeof(TableEntry);

bool read_all(int file, char* memory, std::size_t bytes) {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t piece = read(file, memory + got, bytes - got);
    if (piece < 0 && errno == EINTR) continue;
    if (piece <= 0) return false;
    got += static_cast<std::size_t>(piece);
  }
  return true;
}

bool parse_id(const char* text, std::uint64_t& id) {
  if (text == nullptr || *text == '\0') return false;
  char* end = nullptr;
  errno = 0;
  id = std::strtoull(text, &end, 16);
  return *end == '\0' && errno == 0;
}

LoadedTable fault(const char* why) {
  return {{}, why};
}

// `memory` of `bytes` stays mapped when the table is used.
LoadedTable open_copy(int file, void* memory, std::size_t bytes, std::uint64_t id) {
  if (!read_all(file, static_cast<char*>(memory), bytes)) return fault("it cannot be read to its end");
  mprotect(memory, bytes, PROT_READ);
  LoadedTable table;
  const TableFault found = TableView::open(memory, bytes, table.view);
  if (found != TableFault::kNone) return fault(fault_text(found));
  if (table.view.id() != id) return fault("it is not the table of this launch");
  return table;
}

LoadedTable read_table(int file, std::uint64_t id) {
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return fault("it is no file");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (status.st_size <= 0 || bytes > kMostBytes) return fault(fault_text(TableFault::kSize));
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fault("there is no memory for it");
  const LoadedTable table = open_copy(file, memory, bytes, id);
  if (table.fault != nullptr) munmap(memory, bytes);
  return table;
}

}  // namespace

LoadedTable load_table(const char* path, const char* id_text) {
  std::uint64_t id = 0;
  if (path == nullptr || *path == '\0') return {};
  if (!parse_id(id_text, id)) return fault("TRIMTAB_NCCL_TABLE_ID does not say which one it must be");
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return fault("it cannot be opened");
  const LoadedTable table = read_table(file, id);
  close(file);
  return table;
}

}  // namespace trimtab::nccl
