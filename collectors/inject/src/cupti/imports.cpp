#include "imports.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace trimtab::inject::cupti {

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kSlotKinds[] = {R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT};
#elif defined(__aarch64__)
constexpr std::uint32_t kSlotKinds[] = {R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT};
#else
constexpr std::uint32_t kSlotKinds[] = {0};  // no calls are followed
#endif

struct Relocations {
  const ElfW(Rela) * first = nullptr;
  std::size_t count = 0;
};

// One loaded object, as its dynamic section tells it.
class Object {
 public:
  explicit Object(const dl_phdr_info& info) : info_(info) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info.dlpi_phdr[i];
      if (part.p_type == PT_DYNAMIC) read(reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + part.p_vaddr));
      if (part.p_type == PT_GNU_RELRO) protected_ = &part;
    }
  }

  [[nodiscard]] bool needs(const char* library) const {
    if (strings_ == nullptr || symbols_ == nullptr || dynamic_ == nullptr) return false;
    for (const ElfW(Dyn)* entry = dynamic_; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_NEEDED && strncmp(strings_ + entry->d_un.d_val, library, strlen(library)) == 0)
        return true;
    }
    return false;
  }

  int lead(const Import* imports, int count) const {
    int changed = 0;
    for (const Relocations& table : tables_) {
      for (std::size_t i = 0; i < table.count; ++i) changed += lead_one(table.first[i], imports, count);
    }
    return changed;
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
      switch (entry->d_tag) {
        case DT_STRTAB:
          strings_ = at<char>(*entry);
          break;
        case DT_SYMTAB:
          symbols_ = at<ElfW(Sym)>(*entry);
          break;
        case DT_JMPREL:
          tables_[0].first = at<ElfW(Rela)>(*entry);
          break;
        case DT_PLTRELSZ:
          tables_[0].count = entry->d_un.d_val / sizeof(ElfW(Rela));
          break;
        case DT_RELA:
          tables_[1].first = at<ElfW(Rela)>(*entry);
          break;
        case DT_RELASZ:
          tables_[1].count = entry->d_un.d_val / sizeof(ElfW(Rela));
          break;
        default:
          break;
      }
    }
  }

  int lead_one(const ElfW(Rela) & relocation, const Import* imports, int count) const {
    const auto kind = static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info));
    if (kind != kSlotKinds[0] && kind != kSlotKinds[sizeof(kSlotKinds) / sizeof(kSlotKinds[0]) - 1]) return 0;
    const char* name = strings_ + symbols_[ELF64_R_SYM(relocation.r_info)].st_name;
    for (int i = 0; i < count; ++i) {
      if (imports[i].function == nullptr || strcmp(name, imports[i].name) != 0) continue;
      return write(reinterpret_cast<void**>(info_.dlpi_addr + relocation.r_offset), imports[i]) ? 1 : 0;
    }
    return 0;
  }

  [[nodiscard]] bool write(void** slot, const Import& import) const {
    if (*slot != import.function) return false;  // not bound yet, or led elsewhere by somebody else
    const bool closed = is_protected(reinterpret_cast<std::uintptr_t>(slot));
    if (closed && !open(slot, PROT_READ | PROT_WRITE)) return false;
    std::atomic_ref<void*>(*slot).store(import.ours, std::memory_order_release);
    if (closed) (void)open(slot, PROT_READ);  // as the loader has left it
    return true;
  }

  [[nodiscard]] bool is_protected(std::uintptr_t address) const {
    if (protected_ == nullptr) return false;
    const std::uintptr_t begin = info_.dlpi_addr + protected_->p_vaddr;
    return address >= begin && address < begin + protected_->p_memsz;
  }

  static bool open(void** slot, int how) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    void* begin = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(slot) & ~(page - 1));
    return mprotect(begin, page, how) == 0;
  }

  const dl_phdr_info& info_;
  const ElfW(Phdr) * protected_ = nullptr;
  const ElfW(Dyn) * dynamic_ = nullptr;
  const char* strings_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  Relocations tables_[2];
};

struct Search {
  const char* library;
  const Import* imports;
  int count;
  std::uint64_t seen;
  std::uint64_t loaded;
  int changed;
};

int look_at(dl_phdr_info* info, std::size_t /*bytes*/, void* context) {
  auto& search = *static_cast<Search*>(context);
  search.loaded = info->dlpi_adds;
  if (search.loaded == search.seen) return 1;  // nothing has been loaded since
  const Object object(*info);
  if (object.needs(search.library)) search.changed += object.lead(search.imports, search.count);
  return 0;
}

}  // namespace

int Imports::follow(const char* library, const Import* imports, int count) {
  Search search{library, imports, count, loaded_, loaded_, 0};
  dl_iterate_phdr(look_at, &search);
  loaded_ = search.loaded;
  return search.changed;
}

}  // namespace trimtab::inject::cupti
