#pragma once

// fstat() by the kernel's own name: glibc's function of that name is newer than the glibc that jobs may have
// (glibc_floor.h). On 64-bit Linux the kernel fills glibc's struct.

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trimtab::inject {

static_assert(sizeof(void*) == 8);

// False where it cannot be told; errno says why.
inline bool read_status(int descriptor, struct stat& status) {
  return syscall(SYS_fstat, descriptor, &status) == 0;
}

}  // namespace trimtab::inject
