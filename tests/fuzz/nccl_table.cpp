// The table that the tuner plugin reads inside a training process. A faulty one must be refused: what is opened is
// followed blindly.

#include <cstring>
#include <memory>

#include "base/check.hpp"
#include "schema/nccl_table.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

void ask(const nccl::TableView& view) {
  for (std::uint32_t i = 0; i < view.size(); ++i) {
    const nccl::TableEntry& entry = view[i];
    const auto* const found = view.find(entry.function, entry.ranks, entry.spread, entry.min_bytes);
    TRIMTAB_ASSERT(found == &entry, "each entry is found by its own bytes");
  }
  (void)view.find(0, 2, 0, 0);
  (void)view.find(4, ~0U, 1, ~std::uint64_t{0});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto memory = std::make_unique<std::uint64_t[]>(size / sizeof(std::uint64_t) + 1);  // aligned, as a mapping is
  std::memcpy(memory.get(), data, size);
  nccl::TableView view;
  if (nccl::TableView::open(memory.get(), size, view) == nccl::TableFault::kNone) {
    fuzz::understood();
    ask(view);
  }
  // Its checksum hides everything behind it: once more with the right one.
  if (size < sizeof(nccl::TableHeader)) return 0;
  const std::uint64_t id = nccl::table_id(memory.get(), size);
  std::memcpy(reinterpret_cast<char*>(memory.get()) + offsetof(nccl::TableHeader, id), &id, sizeof(id));
  if (nccl::TableView::open(memory.get(), size, view) == nccl::TableFault::kNone) ask(view);
  return 0;
}
