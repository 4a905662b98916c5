#include "imports.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace trimtab::inject::cupti {

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kSlotKinds[] = {R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT};
#elif defined(__aarch64__)
constexpr std::uint32_t kSlotKinds[] = {R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT};
#else
constexpr std::uint32_t kSlotKinds[] = {0, 0};  // no calls are followed
#endif
constexpr int kMostSlots = 32;  // of one object: two for each function, in the worst case

struct Relocations {
  const ElfW(Rela) * first = nullptr;
  std::size_t count = 0;
  std::size_t relative = 0;  // the first so many name no symbol
};

struct Slot {
  void** address;
  const Import* import;
};

// One loaded object, as its dynamic section tells it.
class Object {
 public:
  explicit Object(const dl_phdr_info& info) : info_(info) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info.dlpi_phdr[i];
      if (part.p_type == PT_DYNAMIC) read(reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + part.p_vaddr));
    }
  }

  [[nodiscard]] bool needs(const char* library) const {
    if (strings_ == nullptr || symbols_ == nullptr) return false;
    for (const ElfW(Dyn)* entry = dynamic_; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_NEEDED && strncmp(strings_ + entry->d_un.d_val, library, strlen(library)) == 0)
        return true;
    }
    return false;
  }

  // All or nothing.
  [[nodiscard]] bool lead(const Import* imports, int count) const {
    Slot slots[kMostSlots];
    int found = 0;
    for (const Relocations& table : tables_) {
      for (std::size_t i = table.relative; i < table.count; ++i) {
        const Import* import = import_of(table.first[i], imports, count);
        if (import == nullptr) continue;
        if (found == kMostSlots) return false;
        slots[found++] = {reinterpret_cast<void**>(info_.dlpi_addr + table.first[i].r_offset), import};
      }
    }
    for (int i = 0; i < found; ++i) {
      if (*slots[i].address != slots[i].import->function || !may_write(slots[i].address)) return false;
    }
    for (int i = 0; i < found; ++i) {
      if (!write(slots[i])) return false;
    }
    return true;
  }

 private:
  // glibc writes the process's addresses into the section, unless it is read-only; others leave the file's.
  template <typename T>
  [[nodiscard]] const T* at(const ElfW(Dyn) & entry) const {
    const ElfW(Addr) address = entry.d_un.d_ptr;
    return reinterpret_cast<const T*>(address < info_.dlpi_addr ? info_.dlpi_addr + address : address);
  }

  void read(const ElfW(Dyn) * dynamic) {
    dynamic_ = dynamic;
    for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
      const auto tag = entry->d_tag;
      if (tag == DT_STRTAB) strings_ = at<char>(*entry);
      if (tag == DT_SYMTAB) symbols_ = at<ElfW(Sym)>(*entry);
      if (tag == DT_JMPREL) tables_[0].first = at<ElfW(Rela)>(*entry);
      if (tag == DT_PLTRELSZ) tables_[0].count = entry->d_un.d_val / sizeof(ElfW(Rela));
      if (tag == DT_RELA) tables_[1].first = at<ElfW(Rela)>(*entry);
      if (tag == DT_RELASZ) tables_[1].count = entry->d_un.d_val / sizeof(ElfW(Rela));
      if (tag == DT_RELACOUNT) tables_[1].relative = entry->d_un.d_val;
    }
  }

  [[nodiscard]] const Import* import_of(const ElfW(Rela) & relocation, const Import* imports, int count) const {
    const auto kind = static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info));
    if (kind != kSlotKinds[0] && kind != kSlotKinds[1]) return nullptr;
    const char* name = strings_ + symbols_[ELF64_R_SYM(relocation.r_info)].st_name;
    for (int i = 0; i < count; ++i) {
      if (imports[i].function != nullptr && strcmp(name, imports[i].name) == 0) return &imports[i];
    }
    return nullptr;
  }

  [[nodiscard]] bool may_write(void** slot) const {
    return within(PT_LOAD, slot, 1, [](const ElfW(Phdr) & part) { return (part.p_flags & PF_W) != 0; });
  }

  // The loader closes whole pages, and of the last one, which holds other data too, nothing.
  [[nodiscard]] bool is_closed(void** slot) const {
    return within(PT_GNU_RELRO, slot, page_bytes(), [](const ElfW(Phdr)&) { return true; });
  }

  template <typename Condition>
  [[nodiscard]] bool within(ElfW(Word) type, void** slot, std::uintptr_t unit, Condition condition) const {
    const auto address = reinterpret_cast<std::uintptr_t>(slot);
    for (int i = 0; i < info_.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info_.dlpi_phdr[i];
      if (part.p_type != type || !condition(part)) continue;
      const std::uintptr_t begin = (info_.dlpi_addr + part.p_vaddr) / unit * unit;
      const std::uintptr_t end = (info_.dlpi_addr + part.p_vaddr + part.p_memsz) / unit * unit;
      if (address >= begin && address < end) return true;
    }
    return false;
  }

  [[nodiscard]] bool write(const Slot& slot) const {
    const bool closed = is_closed(slot.address);
    if (closed && !protect(slot.address, PROT_READ | PROT_WRITE)) return false;
    std::atomic_ref<void*>(*slot.address).store(slot.import->ours, std::memory_order_release);
    if (closed) (void)protect(slot.address, PROT_READ);  // as the loader has left it
    return true;
  }

  static std::uintptr_t page_bytes() { return static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)); }

  static bool protect(void** slot, int how) {
    const std::uintptr_t page = page_bytes();
    return mprotect(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(slot) / page * page), page, how) == 0;
  }

  const dl_phdr_info& info_;
  const ElfW(Dyn) * dynamic_ = nullptr;
  const char* strings_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  Relocations tables_[2];
};

struct Search {
  const char* library;
  const Import* imports;
  int count;
  std::uint64_t loaded;  // objects, at the first look
  std::uintptr_t* led;
  int* led_count;
};

int count_objects(dl_phdr_info* info, std::size_t /*bytes*/, void* loaded) {
  *static_cast<std::uint64_t*>(loaded) = info->dlpi_adds;
  return 1;
}

// Stops, with another result than 0, where something is being loaded.
int look_at(dl_phdr_info* info, std::size_t /*bytes*/, void* context) {
  auto& search = *static_cast<Search*>(context);
  if (info->dlpi_adds != search.loaded) return 1;
  if (*search.led_count == Imports::kMostObjects ||
      std::find(search.led, search.led + *search.led_count, info->dlpi_addr) != search.led + *search.led_count)
    return 0;
  const Object object(*info);
  if (!object.needs(search.library) || !object.lead(search.imports, search.count)) return 0;
  search.led[(*search.led_count)++] = info->dlpi_addr;
  return 0;
}

}  // namespace

void Imports::follow(const char* library, const Import* imports, int count) {
  std::uint64_t loaded = 0;
  dl_iterate_phdr(count_objects, &loaded);
  if (loaded == loaded_) return;
  // An object is in the list before the loader has bound and closed its tables. What was in it is ready once the
  // loader's lock, which is held for the whole of a load, could be had; what has come since shows in the count.
  if (void* program = dlopen(nullptr, RTLD_NOW | RTLD_NOLOAD)) dlclose(program);
  Search search{library, imports, count, loaded, led_, &led_count_};
  if (dl_iterate_phdr(look_at, &search) == 0) loaded_ = loaded;
}

}  // namespace trimtab::inject::cupti
