#pragma once

// The functions of a library that other libraries of the process have linked: their calls can be led through ours, by
// writing into the tables in which the loader has put the functions' addresses (the global offset table, ELF gABI and
// the psABIs of x86-64 and AArch64). Where a table says anything but the address that is expected there, or lies where
// it cannot be written to, it is left as it is: such a library is not followed, and works as before.

#include <cstdint>

namespace trimtab::inject::cupti {

struct Import {
  const char* name;  // of the function
  void* function;    // the address at which the process has it; nullptr: not followed
  void* ours;        // what is called instead, and never goes away
};

class Imports {
 public:
  constexpr Imports() = default;

  // Follows the calls to `imports` from every object that is loaded now, was not yet at the last call, and names a
  // library that begins with `library` among those it needs. Costs next to nothing while nothing was loaded. Returns
  // how many entries it has changed. One thread at a time.
  int follow(const char* library, const Import* imports, int count);

 private:
  std::uint64_t loaded_ = 0;  // objects that the process had loaded at the last call, since it began
};

}  // namespace trimtab::inject::cupti
