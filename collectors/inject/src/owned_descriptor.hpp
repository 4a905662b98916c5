#pragma once

// A descriptor in somebody else's process. Programs close descriptors that they do not know (daemons, `closefrom`), and
// the number may then be theirs: so before each use and before closing we look whether it still is our file.
// A plain value without destructor: a library that stays in the process until its end must not act in static
// destruction.

#include <sys/types.h>

namespace trimtab::inject {

class OwnedDescriptor {
 public:
  constexpr OwnedDescriptor() = default;
  static OwnedDescriptor adopt(int descriptor);

  // The number, or -1 when there is none or it is no longer ours.
  [[nodiscard]] int get() const;
  void close();

 private:
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace trimtab::inject
