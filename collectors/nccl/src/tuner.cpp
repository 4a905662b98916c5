#include "tuner.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tuner_table.hpp"

namespace trimtab::nccl {

namespace {

constexpr std::uint64_t kSizeMask = 0x7fffffff;

LoadedTable loaded;
pthread_once_t looked = PTHREAD_ONCE_INIT;
std::atomic<bool> told{false};
std::atomic<std::uint64_t> chosen{0};
std::atomic<std::uint64_t> left{0};

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
  const bool changed = choose(loaded.view, context, function, bytes, costs, channels);
  (changed ? chosen : left).fetch_add(1, std::memory_order_relaxed);
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

TunerCounters tuner_counters() {
  return {chosen.load(std::memory_order_relaxed), left.load(std::memory_order_relaxed)};
}

}  // namespace trimtab::nccl

const trimtab::nccl::TunerV4 ncclTunerPlugin_v4{"Trimtab", trimtab::nccl::init_v4, trimtab::nccl::get_collective_info,
                                                trimtab::nccl::finalize};
const trimtab::nccl::TunerV5 ncclTunerPlugin_v5{"Trimtab", trimtab::nccl::init_v5, trimtab::nccl::get_collective_info,
                                                trimtab::nccl::finalize};
