#include "tuner.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "file_status.hpp"

namespace trimtab::nccl {

namespace {

// The table of choices that a launch gives its ranks (schema/nccl_table.hpp), read once into memory of our own. A
// mapping of the file would do the same until somebody truncates it, which would kill the training process.
struct LoadedTable {
  TableView view;               // empty when there is no table
  const char* fault = nullptr;  // why a table that was named is not used
};

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
  if (!inject::read_status(file, status) || !S_ISREG(status.st_mode)) return fault("it is no file");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (status.st_size <= 0 || bytes > kMostBytes) return fault(fault_text(TableFault::kSize));
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fault("there is no memory for it");
  const LoadedTable table = open_copy(file, memory, bytes, id);
  if (table.fault != nullptr) munmap(memory, bytes);
  return table;
}

// `path` nullptr or empty = there is none. `id` is the table's id in hexadecimal, as the launch said; a file with
// another id is of another launch and is refused. The memory is read-only and stays for good.
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

constexpr std::uint64_t kSizeMask = 0x7fffffff;

LoadedTable loaded;
pthread_once_t looked = PTHREAD_ONCE_INIT;
std::atomic<bool> told{false};

bool switched_off() {
  const char* const master = secure_getenv("TRIMTAB");
  return master != nullptr && std::strcmp(master, "0") == 0;
}

void look() {
  if (!switched_off()) loaded = load_table(secure_getenv("TRIMTAB_NCCL_TABLE"), secure_getenv("TRIMTAB_NCCL_TABLE_ID"));
}

void tell(Logger logger) {
  if (logger == nullptr || told.exchange(true)) return;
  if (loaded.fault != nullptr) {
    logger(kLogWarning, kLogTuning, __FILE__, __LINE__,
           "trimtab: the table of NCCL choices %s is not used: %s. If other ranks use theirs, the job will hang: start "
           "it again without TRIMTAB_NCCL_TABLE",
           secure_getenv("TRIMTAB_NCCL_TABLE"), loaded.fault);
  } else if (!loaded.view.empty()) {
    logger(kLogInfo, kLogTuning, __FILE__, __LINE__, "trimtab: table %016llx of launch %llu, %u choices",
           static_cast<unsigned long long>(loaded.view.id()), static_cast<unsigned long long>(loaded.view.epoch()),
           loaded.view.size());
  }
}

Result init(void** context, std::size_t ranks, std::size_t nodes, Logger logger) {
  pthread_once(&looked, look);
  tell(logger);
  *context = tuner_context(ranks, nodes);
  return kSuccess;
}

Result init_v4(std::size_t ranks, std::size_t nodes, Logger logger, void** context) {
  return init(context, ranks, nodes, logger);
}

Result init_v5(void** context, std::uint64_t, std::size_t ranks, std::size_t nodes, Logger logger, void*, void*) {
  return init(context, ranks, nodes, logger);
}

Result get_collective_info(void* context, int function, std::size_t bytes, int, float** table, int algorithms,
                           int protocols, int, int* channels) {
  if (loaded.view.empty()) return kSuccess;
  const CostTable costs{reinterpret_cast<float*>(table), algorithms, protocols};
  (void)choose(loaded.view, context, function, bytes, costs, channels);
  return kSuccess;
}

Result finalize(void*) {
  return kSuccess;
}

}  // namespace

void* tuner_context(std::uint64_t ranks, std::uint64_t nodes) {
  const std::uint64_t known = ranks <= kSizeMask && nodes <= kSizeMask ? nodes << 31 | ranks : 0;
  return reinterpret_cast<void*>(std::uint64_t{1} << 63 | known);
}

bool choose(const TableView& table, const void* context, int function, std::uint64_t bytes, const CostTable& costs,
            int* channels) {
  const auto size = reinterpret_cast<std::uint64_t>(context);
  if (function < 0 || function > kAllReduce || size >> 63 == 0 || costs.costs == nullptr) return false;
  const std::uint32_t spread = (size >> 31 & kSizeMask) > 1 ? 1 : 0;
  const TableEntry* const entry =
      table.find(static_cast<std::uint8_t>(function), static_cast<std::uint32_t>(size & kSizeMask), spread, bytes);
  if (entry == nullptr || entry->algorithm >= costs.algorithms || entry->protocol >= costs.protocols) return false;
  float& cost = costs.costs[entry->algorithm * costs.protocols + entry->protocol];
  if (!(cost >= 0.0F)) return false;
  cost = 0.0F;
  if (entry->channels != 0 && channels != nullptr) *channels = entry->channels;
  return true;
}

}  // namespace trimtab::nccl

const trimtab::nccl::TunerV4 ncclTunerPlugin_v4{"Trimtab", trimtab::nccl::init_v4, trimtab::nccl::get_collective_info,
                                                trimtab::nccl::finalize};
const trimtab::nccl::TunerV5 ncclTunerPlugin_v5{"Trimtab", trimtab::nccl::init_v5, trimtab::nccl::get_collective_info,
                                                trimtab::nccl::finalize};
