#pragma once

// The functions of a library that other libraries of the process have linked: their calls can be led through ours, by
// writing into the tables in which the loader has put the functions' addresses (the global offset table, ELF gABI and
// the psABIs of x86-64 and AArch64). All of an object's entries for these functions are led or none: where one says
// anything but the address that is expected there (not bound yet, or led by somebody else) the object is left as it is,
// works as before, and is looked at again when something else has been loaded.

#include <cstdint>

namespace trimtab::inject::cupti {

struct Import {
  const char* name;  // of the function
  void* function;    // the address at which the process has it; nullptr: not followed
  void* ours;        // what is called instead, and never goes away
};

class Imports {
 public:
  static constexpr int kMostObjects = 16;  // that link the library; further ones are not followed

  constexpr Imports() = default;

  // Follows the calls to `imports` from every object that names a library that begins with `library` among those it
  // needs. Costs next to nothing while nothing was loaded since; else it waits for whoever is loading something, so no
  // lock may be held. One thread at a time.
  void follow(const char* library, const Import* imports, int count);

 private:
  std::uint64_t loaded_ = 0;  // objects that the process had loaded since it began, when all were looked at
  std::uintptr_t led_[kMostObjects] = {};  // where they are loaded
  int led_count_ = 0;
};

}  // namespace trimtab::inject::cupti
